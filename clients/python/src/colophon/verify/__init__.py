"""Verification of receipts and checkpoints, with the standard library alone. If the package `cryptography` is installed, it checks
the signatures."""

from ..errors import VerificationError
from .note import (
    Checkpoint, Cosignature, Key, Note, NoteSignature, VerifierKey, cosignatures, keys_from, open_checkpoint, parse_checkpoint, parse_log_keys,
    parse_note, parse_verifier_key, parse_verifier_keys, verify_checkpoint,
)
from .pins import ForkError, Pins, Remembered
from .receipt import Step, Verification, incomplete, parse_event, require_verified, split_entry, verify
from .tree import (
    PathStep, consistency_ranges, empty_root, event_hash, inclusion_ranges, leaf_hash, node_hash, run_root, verify_consistency,
    verify_inclusion, verify_run_path,
)

__all__ = [
    "Checkpoint", "Cosignature", "ForkError", "Key", "Note", "NoteSignature", "PathStep", "Pins", "Remembered", "Step", "Verification",
    "VerificationError", "VerifierKey", "consistency_ranges", "cosignatures", "empty_root", "event_hash", "inclusion_ranges", "incomplete",
    "keys_from", "leaf_hash", "node_hash", "open_checkpoint", "parse_checkpoint", "parse_event", "parse_log_keys", "parse_note",
    "parse_verifier_key", "parse_verifier_keys", "require_verified", "run_root", "split_entry", "verify", "verify_checkpoint",
    "verify_consistency", "verify_inclusion", "verify_run_path",
]
