"""What a client remembers of a log: its key, and its last checkpoint. A log that forgets or forks is then noticed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Union

from ..errors import VerificationError, must, shown
from .note import Checkpoint, Key, VerifierKey, from_hex, keys_from, open_checkpoint, parse_checkpoint, parse_log_keys, parse_verifier_key
from .tree import empty_root, verify_consistency


class ForkError(VerificationError):
    """Two signed checkpoints that are not of one log. Keep both: together they prove it."""

    def __init__(self, code: str, message: str, remembered: str, shown_now: str) -> None:
        super().__init__(code, message)
        self.remembered = remembered
        self.shown = shown_now


@dataclass(frozen=True)
class Remembered:
    # first: nothing was remembered. same: the same tree. grown: the remembered tree is its beginning. older: it is the beginning of
    # the remembered tree.
    change: str
    checkpoint: Checkpoint
    before: Checkpoint | None = None


Prove = Callable[[int, int], Sequence[Union[str, bytes]]]


class Pins:
    """Remembers keys and checkpoints by origin, and origins by name, in a mapping from text to text: a dict, a dbm, or a shelf."""

    def __init__(self, store: MutableMapping[str, str], prefix: str = "colophon.pin:") -> None:
        self._store = store
        self._prefix = prefix

    def key(self, origin: str) -> VerifierKey | None:
        """Returns the pinned key of a log, or None."""
        text = self._get("key", origin)
        return parse_verifier_key(text) if text else None

    def pin_key(self, text: str) -> VerifierKey:
        """Pins a key that the caller has from a source that they trust, in place of an earlier one."""
        key = parse_verifier_key(text)
        self._store[self._name("key", key.name)] = key.text
        return key

    def follow_keys(self, log_key: str | bytes, name: str | None = None) -> tuple[list[VerifierKey], str]:
        """Returns the keys to trust, given the answer of GET log/key, and "first", "same", or "rotated".

        The first key that is seen of a log is pinned. A later key is pinned only if handovers lead to it from the pinned one; otherwise
        it raises a VerificationError "key_changed". name is a name that the caller chooses for the log, such as its URL. The origin of the
        log is remembered under it, and another origin is "key_changed" too. Without a name, a server evades the pins if it shows a log
        with another origin."""
        known = parse_log_keys(log_key)
        if name is None:
            return self._follow(known)
        origin, before = known[0].name, self._get("origin", name)
        must(before in (None, origin), "key_changed", f"{shown(name)} was the log {shown(before)} before, and is now the log {shown(origin)}")
        found = self._follow(known)
        self._store[self._name("origin", name)] = origin
        return found

    def _follow(self, known: list[VerifierKey]) -> tuple[list[VerifierKey], str]:
        newest, pinned = known[0], self.key(known[0].name)
        if pinned is None:
            self.pin_key(newest.text)
            return [newest], "first"
        keys = keys_from(known, pinned)
        if pinned.text == newest.text:
            return keys, "same"
        # Until the overlap ends, the pinned key still signs and stays pinned.
        if any(key.text == pinned.text and key.until is not None for key in keys):
            self.pin_key(newest.text)
        return keys, "rotated"

    def checkpoint(self, origin: str) -> Checkpoint | None:
        """Returns the remembered checkpoint of a log, or None."""
        note = self._get("checkpoint", origin)
        return parse_checkpoint(note) if note else None

    def remember(self, note: str | bytes, prove: Prove, *, newest: bool = False, keys: Iterable[Key] | Key | None = None) -> Remembered:
        """Verifies a checkpoint, compares it with the remembered one of the same origin, and remembers the larger one.

        prove returns the hashes of the consistency proof between two sizes, as GET /proofs/consistency does. newest says that the log
        gave this checkpoint as its newest: a smaller tree than the remembered one is then a rollback. keys default to the pinned key.
        It raises a ForkError if one tree is not the beginning of the other, and for a rollback, and then remembers nothing new."""
        origin = parse_checkpoint(note).origin
        pinned = self.key(origin)
        trusted = keys if keys is not None else [pinned] if pinned else []
        must(trusted, "wrong_key", f"no key of {shown(origin)} is pinned, and none was given")
        now, before = open_checkpoint(note, trusted), self.checkpoint(origin)
        if before is None:
            change = "first"
        else:
            older = now.size < before.size
            if older and newest:  # before the proof, because a server refuses one to a size that it does not have
                raise ForkError("rollback", f"the log has {now.size} events, but had {before.size}", before.note, now.note)
            first, second = (now, before) if older else (before, now)
            self._compare(first, second, prove, before, now)
            change = "older" if older else "same" if now.size == before.size else "grown"
        if change in ("first", "grown"):
            self._store[self._name("checkpoint", origin)] = now.note
        return Remembered(change, now, before)

    def _compare(self, first: Checkpoint, second: Checkpoint, prove: Prove, before: Checkpoint, now: Checkpoint) -> None:
        try:
            if first.size == second.size:
                must(first.root == second.root, "consistency", f"their roots are {first.root.hex()} and {second.root.hex()}")
            elif first.size == 0:
                must(first.root == empty_root(), "consistency", "the root of the empty tree is another")
            else:
                proof = [from_hex(h) if isinstance(h, str) else bytes(h) for h in prove(first.size, second.size)]
                verify_consistency(first.size, first.root, second.size, second.root, proof)
        except VerificationError as error:
            raise ForkError("fork", f"the log {shown(now.origin)} of {second.size} events does not begin with its tree of {first.size} events; "
                            f"both are signed ({error})", before.note, now.note) from error

    def _name(self, what: str, origin: str) -> str:
        return f"{self._prefix}{what}:{origin}"

    def _get(self, what: str, origin: str) -> str | None:
        found = self._store.get(self._name(what, origin))
        return found.decode() if isinstance(found, bytes) else found
