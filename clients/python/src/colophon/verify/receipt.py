"""Receipts, tlog-proof files, and nested proofs (spec: Verifying a receipt; tlog-proof files; Nested proofs)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from .._json import canonical, has_lone_surrogate, parse, wtf8
from ..errors import VerificationError, must, shown
from .note import (
    Checkpoint, Cosignature, Key, VerifierKey, cosignatures, count, from_base64, from_hex, parse_checkpoint, parse_verifier_keys, text_of,
    verify_checkpoint,
)
from .tree import PathStep, event_hash, leaf_hash, verify_inclusion, verify_run_path

_MEMBERS = ("ledger", "seq", "kind", "time", "event_hash", "prev_event_hash", "leaf_hash", "hashes", "checks", "shape", "failure_stage",
            "incomplete", "replayed", "event", "inclusion", "checkpoint")
_OPTIONAL = ("shape", "failure_stage", "incomplete")
_MAX_PATH = 64
_MAX_ENTRY = 65535
_MAX_COUNT = 2**53
_TITLE = "c2sp.org/tlog-proof@v1\n"


@dataclass(frozen=True)
class Step:
    """One check of a verification."""

    name: str  # such as "checkpoint", "signature", "event", "inclusion"
    verdict: str  # "holds" or "fails"
    says: str  # what was found, in a sentence
    code: str | None = None  # of the VerificationError, if the step fails


@dataclass
class Verification:
    """The result of verify. What could not be read is None."""

    verdict: str = "holds"  # "holds" only if every step holds; else "fails"
    steps: list[Step] = field(default_factory=list)
    error: VerificationError | None = None  # the first check that failed
    format: str = "receipt"  # "receipt", "tlog-proof", or "nested proof"
    event: dict[str, Any] | None = None
    entry: bytes | None = None
    event_hash: str | None = None
    leaf_hash: str | None = None
    checkpoint: Checkpoint | None = None
    signer: VerifierKey | None = None
    cosignatures: list[Cosignature] = field(default_factory=list)
    path: list[PathStep] = field(default_factory=list)
    covered: list[str] = field(default_factory=list)  # members of the receipt that the proof covers
    uncovered: list[str] = field(default_factory=list)  # members for which there is only the server's word


@dataclass
class _Claim:
    """What a proof says before it is verified."""

    entry: bytes
    seq: int
    path: list[bytes]
    checkpoint: str
    size: int | None = None
    receipt: dict[str, Any] | None = None  # None for a tlog-proof


def _text(members: dict[str, Any], name: str, what: str) -> str:
    value = members.get(name)
    if not isinstance(value, str):
        raise VerificationError("malformed", f"{what} has no text {name}")
    return value


def _count(members: dict[str, Any], name: str, what: str) -> int:
    value = members.get(name)
    if type(value) is not int or not 0 <= value < _MAX_COUNT:
        raise VerificationError("malformed", f"{what} has no count {name}")
    return value


def _object(members: dict[str, Any], name: str, what: str) -> dict[str, Any]:
    value = members.get(name)
    if not isinstance(value, dict):
        raise VerificationError("malformed", f"{what} has no object {name}")
    return value


def _only(members: dict[str, Any], what: str, *known: str) -> None:
    for name in members:
        must(name in known, "malformed", f"{what} has a member {shown(name)}, which is not known here")


def _read_receipt(receipt: dict[str, Any]) -> _Claim:
    what = "the receipt"
    for name in "ledger", "kind", "time":
        _text(receipt, name, what)
    for name in "hashes", "checks":
        _object(receipt, name, what)
    for name in "event_hash", "prev_event_hash", "leaf_hash":
        from_hex(receipt.get(name))
    seq = _count(receipt, "seq", what)
    must("replayed" not in receipt or receipt["replayed"] is True, "malformed", "replayed of the receipt is not true")
    must(any(name in receipt for name in ("event", "inclusion", "checkpoint")), "no_proof",
         f"the receipt of event {seq} is minimal and proves nothing; fetch /records/{seq}/receipt")
    inclusion = _object(receipt, "inclusion", what)
    must(_count(inclusion, "leaf_index", "inclusion") == seq, "inclusion", f"leaf_index is not seq, which is {seq}")
    must(not has_lone_surrogate(receipt), "malformed", "the receipt has a lone surrogate")
    hashes = inclusion.get("hashes")
    if not isinstance(hashes, list) or len(hashes) > _MAX_PATH:
        raise VerificationError("malformed", f"the path of the receipt is not a list of at most {_MAX_PATH} hashes")
    entry = from_hex(receipt.get("prev_event_hash")) + wtf8(canonical(_object(receipt, "event", what)))
    return _Claim(entry, seq, [from_hex(h) for h in hashes], _text(receipt, "checkpoint", what), _count(inclusion, "tree_size", "inclusion"), receipt)


def _read_tlog_proof(text: str) -> _Claim:
    what = "the tlog-proof"
    head, gap, checkpoint = text[len(_TITLE) :].partition("\n\n")
    must(gap, "malformed", f"{what} has no checkpoint")
    lines = head.split("\n")
    must(lines[0].startswith("extra "), "no_proof", f"{what} does not have the entry as extra data")
    must(len(lines) > 1 and lines[1].startswith("index ") and len(lines) - 2 <= _MAX_PATH, "malformed", f"{what} has no index, or too many hashes")
    path = [from_base64(line) for line in lines[2:]]
    must(all(len(h) == 32 for h in path), "malformed", f"{what} has a hash that is not of 32 bytes")
    return _Claim(from_base64(lines[0][6:]), count(lines[1][6:], f"the index of {what}"), path, checkpoint)


def parse_event(body: bytes) -> dict[str, Any]:
    """Reads an event from its body, which must be canonical JSON (spec: Event body)."""
    event = parse(text_of(body, "the event"))
    if not isinstance(event, dict):
        raise VerificationError("malformed", "the event is not an object")
    must(not has_lone_surrogate(event), "malformed", "the event has a lone surrogate")
    must(wtf8(canonical(event)) == body, "malformed", "the event is not in its canonical form")
    for name in "ledger", "kind", "time":
        _text(event, name, "the event")
    _count(event, "seq", "the event")
    for name in "record", "checks":
        must(isinstance(event.get(name, {}), dict), "malformed", f"{name} of the event is not an object")
    return event


def split_entry(entry: bytes) -> tuple[bytes, bytes]:
    """Splits an entry into the previous event's hash and the event's body."""
    must(len(entry) <= _MAX_ENTRY, "malformed", f"an entry has {len(entry)} bytes, but at most {_MAX_ENTRY} are possible")
    must(len(entry) > 32, "malformed", "the entry holds no event")
    return entry[:32], entry[32:]


def incomplete(event: dict[str, Any]) -> list[str] | None:
    """Returns what an IPC record lacks, or None if it lacks nothing (spec: Receipts)."""
    if event["kind"] != "ipc_record":
        return None
    record = event.get("record", {})
    hashes = record.get("hashes")
    hashes = hashes if isinstance(hashes, dict) else {}
    parts = {"input": hashes.get("input_hash"), "system_prompt": hashes.get("system_prompt_hash"), "output": hashes.get("output_hash")}
    parts |= {name: record.get(name) for name in ("temperature", "max_tokens", "seed")}
    return [name for name, value in parts.items() if value is None] or None


def _repeated(event: dict[str, Any]) -> dict[str, Any]:
    """Returns the members of an event that its receipt repeats."""
    record = event.get("record", {})
    members = {"hashes": record.get("hashes", {}), "checks": event.get("checks", {})}
    members |= {name: record[name] for name in ("shape", "failure_stage") if name in record}
    lacks = incomplete(event)
    return members | ({"incomplete": lacks} if lacks else {})


class _ReceiptVerification:
    def __init__(self, keys: Iterable[Key] | Key, witnesses: Iterable[Key] | Key, quorum: int, on_step: Callable[[Step], None] | None) -> None:
        self.keys = parse_verifier_keys(keys)
        self.witnesses = parse_verifier_keys(witnesses)
        self.quorum = quorum
        self.on_step = on_step
        self.found = Verification()
        self.nested: dict[str, Any] | None = None
        self.leaf = b""
        self.claim: _Claim

    def run(self, given: str | bytes) -> Verification:
        if not self.check("format", lambda: self.read(given)):
            return self.found
        if self.check("checkpoint", self.read_checkpoint):
            self.check("signature", self.verify_signature)
            if self.witnesses or self.quorum:
                self.check("witnesses", self.verify_witnesses)
        self.check("event", self.verify_event)
        if self.found.checkpoint and self.leaf:
            self.check("inclusion", self.verify_place)
        if self.found.event:
            self.check("members", self.verify_members)
            if self.nested:
                self.check("part", self.verify_part)
        if receipt := self.claim.receipt:
            self.found.covered = [n for n in _MEMBERS if n != "replayed" and (n not in _OPTIONAL or n in receipt)]
            self.found.uncovered = [n for n in receipt if n == "replayed" or n not in _MEMBERS]
        return self.found

    def check(self, name: str, check: Callable[[], str]) -> bool:
        try:
            step = Step(name, "holds", check())
        except VerificationError as error:
            self.found.verdict = "fails"
            self.found.error = self.found.error or error
            step = Step(name, "fails", str(error), error.code)
        self.found.steps.append(step)
        if self.on_step:
            self.on_step(step)
        return step.verdict == "holds"

    def read(self, given: str | bytes) -> str:
        text = text_of(given, "the file")
        if text.startswith(_TITLE):
            self.found.format = "tlog-proof"
            self.claim = _read_tlog_proof(text)
            return "It is a complete tlog-proof file."
        root = parse(text)
        if not isinstance(root, dict):
            raise VerificationError("malformed", "the receipt is not an object")
        if "format" not in root:
            self.claim = _read_receipt(root)
            return "It is a complete receipt."
        self.found.format = "nested proof"
        must(root["format"] == "colophon-nested-proof@1", "malformed", f"the format is {shown(root['format'])}, which is not known here")
        _only(root, "the nested proof", "format", "stage", "citation", "text", "receipt")
        must(("stage" in root) != ("citation" in root), "malformed", "a nested proof has either a stage or a citation")
        self.claim = _read_receipt(_object(root, "receipt", "the nested proof"))
        self.nested = root
        return "It is a complete nested proof."

    def read_checkpoint(self) -> str:
        checkpoint = self.found.checkpoint = parse_checkpoint(self.claim.checkpoint)
        own = self.claim.size
        must(own in (None, checkpoint.size), "inclusion", f"tree_size is {own}, but the checkpoint's is {checkpoint.size}")
        return f"The checkpoint says that the log {checkpoint.origin} has {checkpoint.size} events, and names the root of their tree."

    def verify_signature(self) -> str:
        assert self.found.checkpoint
        self.found.signer = verify_checkpoint(self.found.checkpoint, self.keys)
        return f"The checkpoint is signed by {self.found.signer.short}, which you trust."

    def verify_witnesses(self) -> str:
        assert self.found.checkpoint
        self.found.cosignatures = cosignatures(self.found.checkpoint, self.witnesses)
        n = len(self.found.cosignatures)
        must(n >= self.quorum, "witnesses", f"{n} of the witnesses that you trust have cosigned, but {self.quorum} must")
        return f"{n} of the {len(self.witnesses)} witnesses that you trust have cosigned."

    def verify_event(self) -> str:
        entry, receipt = self.claim.entry, self.claim.receipt
        _, body = split_entry(entry)
        own, self.leaf = event_hash(entry), leaf_hash(entry)
        self.found.entry, self.found.event_hash, self.found.leaf_hash = entry, own.hex(), self.leaf.hex()
        if receipt is not None:
            for name, words, computed in ("event_hash", "event hash", own.hex()), ("leaf_hash", "leaf hash", self.leaf.hex()):
                stated = _text(receipt, name, "the receipt")
                must(stated == computed, "chain_link", f"the {words}, computed here, is {computed}, but the receipt says {stated}")
        self.found.event = parse_event(body)
        return f"The event hash, computed here, is {own.hex()}; it covers the event and the hash of the event before it."

    def verify_place(self) -> str:
        checkpoint = self.found.checkpoint
        assert checkpoint
        self.found.path = verify_inclusion(self.leaf, self.claim.seq, checkpoint.size, self.claim.path, checkpoint.root)
        return f"Its path leads in {len(self.claim.path)} steps to the signed root: it is event {self.claim.seq} of {checkpoint.size}."

    def verify_members(self) -> str:
        event, receipt, seq = self.found.event, self.claim.receipt, self.claim.seq
        assert event
        must(event["seq"] == seq, "field", f"seq is {seq}, but the event's is {event['seq']}")
        if receipt is None:
            return "The number of the event is its place in the log."
        for name in "ledger", "kind", "time":
            must(receipt[name] == event[name], "field", f"{name} of the receipt is {shown(receipt[name])}, but the event's is {shown(event[name])}")
        own = _repeated(event)
        for name in ("hashes", "checks", *_OPTIONAL):
            stated, given = (canonical(of[name]) if name in of else "absent" for of in (receipt, own))
            must(stated == given, "field", f"{name} of the receipt is {shown(stated)}, but the event gives {shown(given)}")
        return "Everything that the receipt repeats of the event agrees with it."

    def verify_part(self) -> str:
        assert self.nested
        if "stage" in self.nested:
            return self.verify_stage(_object(self.nested, "stage", "the nested proof"))
        return self.verify_citation(_object(self.nested, "citation", "the nested proof"))

    def verify_stage(self, stage: dict[str, Any]) -> str:
        _only(stage, "the stage", "name", "index", "hash", "root", "path")
        event = self.found.event
        assert event
        must(event["kind"] == "run_dag", "field", f"the proof is for a stage, but the event is of kind {event['kind']}")
        nodes = event["record"].get("nodes")
        if not isinstance(nodes, list):
            raise VerificationError("malformed", "the event has no list of stages")
        index = _count(stage, "index", "the stage")
        if index >= len(nodes) or not isinstance(nodes[index], dict):
            raise VerificationError("field", f"the proof is for stage {index}, but the event has {len(nodes)} stages")
        name, own, root = _text(stage, "name", "the stage"), from_hex(stage.get("hash")), from_hex(stage.get("root"))
        node = nodes[index]
        must((node.get("stage"), node.get("hash")) == (name, own.hex()), "field", f"stage {index} of the event has another name or hash")
        hashes = event["record"].get("hashes")
        must(isinstance(hashes, dict) and hashes.get("root") == root.hex(), "field", "the root of the run is not that of the event")
        path = stage.get("path")
        if not isinstance(path, list) or len(path) > 16:
            raise VerificationError("malformed", "the path of the stage is not a list of at most 16 steps")
        steps: list[tuple[bytes, bool]] = []
        for step in path:
            if not isinstance(step, dict) or not isinstance(step.get("is_left"), bool):
                raise VerificationError("malformed", "a step of the stage's path is malformed")
            _only(step, "a step of the stage's path", "sibling", "is_left")
            steps.append((from_hex(step.get("sibling")), step["is_left"]))
        verify_run_path(own, index, len(nodes), steps, root)
        return f"The hash of stage {name} is part of the run's root, which the event names."

    def verify_citation(self, citation: dict[str, Any]) -> str:
        _only(citation, "the citation", "index", "chunk_hash")
        event = self.found.event
        assert event
        must(event["kind"] == "citation_set", "field", f"the proof is for a citation, but the event is of kind {event['kind']}")
        listed, index = event["record"].get("citations"), _count(citation, "index", "the citation")
        if not isinstance(listed, list) or index >= len(listed) or not isinstance(listed[index], dict):
            raise VerificationError("field", f"the event has no citation {index}")
        stated = _text(citation, "chunk_hash", "the citation")
        must(listed[index].get("chunk_hash") == stated, "field", f"citation {index} of the event has another chunk_hash")
        return f"Citation {index} of the event has this chunk hash."


def verify(
    proof: str | bytes, keys: Iterable[Key] | Key, *, witnesses: Iterable[Key] | Key = (), quorum: int = 0,
    on_step: Callable[[Step], None] | None = None,
) -> Verification:
    """Verifies a receipt, a tlog-proof file, or a nested proof, without a server.

    keys are verifier keys that you trust; one of them must have signed. witnesses are verifier keys of witnesses that you trust, and
    quorum is how many of them must have cosigned. It raises nothing for a proof that does not hold: see verdict, steps, and error.
    It raises a VerificationError for a malformed key."""
    return _ReceiptVerification(keys, witnesses, quorum, on_step).run(proof)


def require_verified(proof: str | bytes, keys: Iterable[Key] | Key, *, witnesses: Iterable[Key] | Key = (), quorum: int = 0) -> Verification:
    """Verifies as verify does, and raises a VerificationError unless every check holds."""
    found = verify(proof, keys, witnesses=witnesses, quorum=quorum)
    if found.error:
        raise found.error
    return found
