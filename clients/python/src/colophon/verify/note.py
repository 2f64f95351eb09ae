"""Signed notes, verifier keys, checkpoints, and cosignatures (C2SP signed-note, tlog-checkpoint, tlog-cosignature; spec: Origin and
keys; Checkpoints; Key rotation)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Union

from .._json import parse, wtf8
from ..errors import VerificationError, must, shown
from . import ed25519
from .tree import sha256

_ED25519, _COSIGNATURE_V1 = 1, 4
_MAX_COUNT = 2**53
_MAX_NOTE = 1 << 20  # characters
_MAX_SIGNATURES = 100


def from_base64(text: str) -> bytes:
    """Reads standard base64 with padding. Exactly one spelling of each value is accepted."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise VerificationError("malformed", "bytes are not written in base64") from error
    must(base64.b64encode(data).decode() == text, "malformed", "bytes are not written in canonical base64")
    return data


def from_hex(text: object) -> bytes:
    """Reads a hash: exactly 64 lower-case hexadecimal digits."""
    must(isinstance(text, str) and re.fullmatch("[0-9a-f]{64}", text), "malformed", "a hash is not 64 lower-case hexadecimal digits")
    return bytes.fromhex(str(text))


def count(text: str, what: str) -> int:
    """Reads a tree size or an index, from 0 to 2^53-1."""
    must(re.fullmatch("0|[1-9][0-9]{0,15}", text) and int(text) < _MAX_COUNT, "malformed", f"{what} is {shown(text)}, not a count below 2^53")
    return int(text)


def text_of(given: str | bytes, what: str) -> str:
    """Returns a text, or the text of bytes that must be valid UTF-8."""
    if isinstance(given, str):
        return given
    try:
        return bytes(given).decode()
    except UnicodeDecodeError as error:
        raise VerificationError("malformed", f"{what} is not valid UTF-8") from error


@dataclass(frozen=True)
class VerifierKey:
    """A verifier key, `<name>+<key id>+<base64>`."""

    text: str
    name: str  # the origin of a log, or the name of a witness
    id: str  # 8 hexadecimal digits
    purpose: str  # "log" or "witness": which messages the key signs, note texts or cosignature/v1
    public: bytes
    until: int | None = None  # the size of the largest checkpoint on which the signature counts; None if there is no bound

    @property
    def short(self) -> str:
        return f"{self.name}+{self.id}"


Key = Union[str, VerifierKey]


def parse_verifier_key(text: str) -> VerifierKey:
    """Reads a verifier key of a log or of a witness."""
    found = re.fullmatch(r"([^+\s]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+=*)", text.strip())
    if found is None:
        raise VerificationError("malformed", "this is not a verifier key, which looks like name+12345678+A…")
    name, key_id, material = found.groups()
    data = from_base64(material)
    must(len(data) == 33 and data[0] in (_ED25519, _COSIGNATURE_V1), "malformed", "this is not the verifier key of an Ed25519 key")
    must(sha256(wtf8(name), b"\n", data)[:4].hex() == key_id, "malformed", "this verifier key is damaged: its number is not that of the key")
    return VerifierKey(text.strip(), name, key_id, "log" if data[0] == _ED25519 else "witness", data[1:])


def parse_verifier_keys(keys: Iterable[Key] | Key) -> list[VerifierKey]:
    """Reads verifier keys that are given as texts or are already read. One key may be given without a list."""
    given = [keys] if isinstance(keys, (str, VerifierKey)) else keys
    return [parse_verifier_key(key) if isinstance(key, str) else key for key in given]


@dataclass(frozen=True)
class NoteSignature:
    """One line of signature of a note."""

    name: str
    id: str
    data: bytes  # without the key id


@dataclass(frozen=True)
class Note:
    """A signed note. Nothing is verified yet."""

    text: str  # with its last line end
    signatures: tuple[NoteSignature, ...]


def parse_note(note: str | bytes, what: str = "the note") -> Note:
    """Reads a signed note. what names it in messages."""
    whole = text_of(note, what)
    malformed = f"{what} is malformed"
    must(len(whole) <= _MAX_NOTE, "malformed", f"{what} is too long")
    must(not re.search("[\x00-\x09\x0b-\x1f\ud800-\udfff]", whole), "malformed", f"{malformed}: it has a control character")
    end = whole.rfind("\n\n")
    must(end >= 0 and whole.endswith("\n") and end + 2 < len(whole), "malformed", f"{malformed}: it has no signature")
    lines = whole[end + 2 : -1].split("\n")
    must(len(lines) <= _MAX_SIGNATURES, "malformed", f"{malformed}: it has more than {_MAX_SIGNATURES} signatures")
    signatures = []
    for line in lines:
        parts = re.fullmatch(r"— ([^+\s]+) ([A-Za-z0-9+/]+=*)", line)
        if parts is None:
            raise VerificationError("malformed", f"{malformed}: {shown(line)} is not a signature")
        data = from_base64(parts[2])
        must(len(data) > 4, "malformed", f"{malformed}: a signature is too short")
        signatures.append(NoteSignature(parts[1], data[:4].hex(), data[4:]))
    return Note(whole[: end + 1], tuple(signatures))


def _signers(note: Note, keys: Sequence[VerifierKey], what: str) -> list[VerifierKey]:
    """Returns those of the keys that signed the note. A wrong signature in the name of one of them is an error."""
    found = []
    for signature in note.signatures:
        key = next((k for k in keys if k.purpose == "log" and (k.name, k.id) == (signature.name, signature.id)), None)
        if key is None:
            continue
        holds = ed25519.verify(key.public, signature.data, wtf8(note.text))
        must(holds, "signature", f"the signature does not hold: {what} is not what {key.short} signed")
        found.append(key)
    return found


@dataclass(frozen=True)
class Checkpoint:
    """What a log says about its tree."""

    origin: str
    size: int
    root: bytes
    signed: Note
    note: str  # the whole signed note


def parse_checkpoint(signed: str | bytes) -> Checkpoint:
    """Reads a checkpoint. Nothing is verified yet."""
    note = parse_note(signed, "the checkpoint")
    lines = note.text[:-1].split("\n")
    must(len(lines) >= 3 and lines[0] != "", "malformed", "the checkpoint is malformed: it has no origin, size, and root")
    origin, size, root = lines[:3]
    must(re.fullmatch("[A-Za-z0-9+/]{43}=", root), "malformed", f"the checkpoint is malformed: its root is {shown(root)}")
    must("" not in lines[3:], "malformed", "the checkpoint is malformed: it has an empty line")
    return Checkpoint(origin, count(size, "the checkpoint is malformed: its size"), from_base64(root), note, text_of(signed, "the checkpoint"))


def verify_checkpoint(checkpoint: Checkpoint, keys: Iterable[Key] | Key) -> VerifierKey:
    """Verifies the log's signature and returns the key that signed as the origin (spec: Checkpoints)."""
    signers = _signers(checkpoint.signed, parse_verifier_keys(keys), "the checkpoint")
    if not signers:
        others = ", ".join(f"{s.name}+{s.id}" for s in checkpoint.signed.signatures[:4])
        raise VerificationError("wrong_key", "the checkpoint is signed with another key, so it says nothing about the log of this one; "
                                f"it is signed by {others}")
    own = [key for key in signers if key.name == checkpoint.origin]
    must(own, "origin", f"the checkpoint is of {shown(checkpoint.origin)}, which did not sign it")
    counting = [key for key in own if key.until is None or checkpoint.size <= key.until]
    must(counting, "retired", f"the checkpoint has size {checkpoint.size}, but the key that signed it was retired at size {own[0].until}")
    return counting[0]


def open_checkpoint(signed: str | bytes, keys: Iterable[Key] | Key) -> Checkpoint:
    """Reads a checkpoint and verifies the log's signature."""
    checkpoint = parse_checkpoint(signed)
    verify_checkpoint(checkpoint, keys)
    return checkpoint


@dataclass(frozen=True)
class Cosignature:
    """A witness's statement that it saw the log only grow, up to this checkpoint."""

    key: VerifierKey
    time: int  # seconds since 1970


def cosignatures(checkpoint: Checkpoint, witnesses: Iterable[Key] | Key) -> list[Cosignature]:
    """Returns the cosignatures of known witnesses (cosignature/v1). A wrong one in the name of a known witness is an error."""
    known = parse_verifier_keys(witnesses)
    found: list[Cosignature] = []
    for signature in checkpoint.signed.signatures:
        key = next((k for k in known if k.purpose == "witness" and (k.name, k.id) == (signature.name, signature.id)), None)
        if key is None or any(c.key == key for c in found):
            continue
        must(len(signature.data) == 8 + 64, "signature", f"the cosignature of {key.name} has {len(signature.data)} bytes instead of 72")
        time = int.from_bytes(signature.data[:8], "big")
        must(time <= _MAX_COUNT, "signature", f"the cosignature of {key.name} has no possible time")
        message = f"cosignature/v1\ntime {time}\n{checkpoint.signed.text}".encode()
        must(ed25519.verify(key.public, signature.data[8:], message), "signature",
             f"the cosignature does not hold: the checkpoint is not what {key.short} cosigned")
        found.append(Cosignature(key, time))
    return found


def parse_log_keys(text: str | bytes) -> list[VerifierKey]:
    """Verifies the answer of GET log/key and returns the log's keys, the newest first. Every handover must be signed by both keys.

    The sizes are the server's word: only a walk of the log proves them."""
    what = "log/key"
    root: Any = parse(text_of(text, what))
    if not isinstance(root, dict) or not isinstance(root.get("retired"), list):
        raise VerificationError("malformed", f"{what} has no list retired")
    newest = parse_verifier_key(_text(root, "verifier_key", what))
    must(root.get("origin") == newest.name, "malformed", f"the origin of {what} is not that of its key")
    keys, bound = [newest], _MAX_COUNT  # of the changes, which are listed from the newest on
    for row in root["retired"]:
        must(isinstance(row, dict), "malformed", f"{what} lists a key that is not an object")
        key = parse_verifier_key(_text(row, "verifier_key", what))
        until, replaced = (row.get(name) for name in ("signed_up_to", "replaced_at"))
        for name, seq in ("signed_up_to", until), ("replaced_at", replaced):
            if seq is None:
                continue
            if type(seq) is not int or seq < 0:
                raise VerificationError("malformed", f"{name} of {what} is not a number")
            must(seq < bound, "malformed", f"the changes of keys in {what} are not in their order")
            bound = seq
        must(replaced is not None, "malformed", f"{what} lists a key without replaced_at")
        must(until is not None or len(keys) == 1, "malformed", f"{what} lists an older key that was never retired")
        must(all(k.text != key.text for k in keys), "malformed", f"{what} lists a key twice")
        _verify_handover(_text(row, "handover", what), key, keys[-1])
        keys.append(replace(key, until=until))
    return keys


def _text(members: dict[str, Any], name: str, what: str) -> str:
    value = members.get(name)
    if not isinstance(value, str):
        raise VerificationError("malformed", f"{what} has no text {name}")
    return value


def _verify_handover(handover: str, previous: VerifierKey, following: VerifierKey) -> None:
    note = parse_note(handover, "the handover")
    text = f"colophon key rotation v1\n{previous.name}\n{previous.text}\n{following.text}\n"
    must(previous.name == following.name and note.text == text, "malformed", f"the handover is not from {previous.text} to {following.text}")
    signers = {key.text for key in _signers(note, [previous, replace(following, until=None)], "the handover")}
    for key in previous, following:
        must(key.text in signers, "wrong_key", f"the handover has no signature by {key.text}")


def keys_from(keys: Sequence[VerifierKey], trusted: VerifierKey) -> list[VerifierKey]:
    """Returns the keys to trust if one trusts a key of the log: that key and its successors. An earlier key may have been stolen since."""
    for at, key in enumerate(keys):
        if key.text == trusted.text:
            return list(keys[: at + 1])
    newest = keys[0].text if keys else "any key"
    raise VerificationError("key_changed", f"the log's keys do not include {trusted.text}, and no handover leads from it to {newest}")
