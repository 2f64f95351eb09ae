"""The Merkle tree of RFC 6962 (spec: Merkle tree; Inclusion and consistency proofs), and the tree of a run (spec: Run tree)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import must


def sha256(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def leaf_hash(entry: bytes) -> bytes:
    return sha256(b"\0", entry)


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\1", left, right)


def event_hash(entry: bytes) -> bytes:
    """Returns the chain hash of an entry (spec: Entry and chain)."""
    return sha256(entry)


def empty_root() -> bytes:
    """The root of the tree without leaves."""
    return sha256()


@dataclass(frozen=True)
class PathStep:
    """One step of a path, from a node to its parent. A range is the first leaf, and the one after the last."""

    sibling: bytes
    sibling_side: str  # "left" or "right"
    sibling_range: tuple[int, int]
    node: bytes  # the parent, computed
    range: tuple[int, int]


def _split(n: int) -> int:
    """Returns the largest power of two that is smaller than n; n is at least 2."""
    return 1 << (n - 1).bit_length() - 1


def inclusion_ranges(index: int, size: int) -> list[tuple[int, int]]:
    """Returns the subtrees whose hashes form the inclusion proof of a leaf, from the leaf upwards."""
    must(0 <= index < size, "range", f"event {index} is beyond the end of the signed tree, which has {size} events")
    path: list[tuple[int, int]] = []
    start, end = 0, size
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            path.append((middle, end))
            end = middle
        else:
            path.append((start, middle))
            start = middle
    return path[::-1]


def consistency_ranges(first: int, second: int) -> list[tuple[int, int]]:
    """Returns the subtrees whose hashes form the consistency proof, in the order of the proof. 1 ≤ first ≤ second."""
    must(1 <= first <= second, "range", f"there is no consistency proof from size {first} to size {second}")
    proof: list[tuple[int, int]] = []
    start, end = 0, second
    while first != end:
        middle = start + _split(end - start)
        if first <= middle:
            proof.append((middle, end))
            end = middle
        else:
            proof.append((start, middle))
            start = middle
    # The proof begins with the subtree that ends the first tree, unless that is the whole tree.
    return ([(start, end)] if start > 0 else []) + proof[::-1]


def verify_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> list[PathStep]:
    """Verifies that a leaf is at an index of a tree. It returns the steps of the path."""
    ranges = inclusion_ranges(index, size)
    must(len(path) <= len(ranges), "inclusion", "its path in the tree is too long")
    must(len(path) == len(ranges), "inclusion", "its path in the tree is too short")
    steps: list[PathStep] = []
    node, span = leaf, (index, index + 1)
    for sibling, of in zip(path, ranges):
        left = of[0] < span[0]
        node = node_hash(sibling, node) if left else node_hash(node, sibling)
        span = (of[0], span[1]) if left else (span[0], of[1])
        steps.append(PathStep(sibling, "left" if left else "right", of, node, span))
    must(node == root, "inclusion", f"the path does not lead to the signed root: it leads to {node.hex()}, and the checkpoint signs "
         f"{root.hex()}; the event or its proof was changed, or it is not in the log")
    return steps


def verify_consistency(first: int, first_root: bytes, second: int, second_root: bytes, proof: Sequence[bytes]) -> None:
    """Verifies that the tree of size first is the beginning of the tree of size second (RFC 6962, 2.1.2)."""
    ranges = consistency_ranges(first, second)
    must(len(proof) == len(ranges), "consistency", f"the consistency proof has {len(proof)} hashes, but {len(ranges)} are needed")
    rest = list(zip(proof, ranges))
    # A complete first tree is a node of the second, and its root is known.
    before, (start, _) = rest.pop(0) if ranges and ranges[0][1] == first else (first_root, (0, first))
    after = before
    for sibling, of in rest:
        if of[0] < start:
            before, after, start = node_hash(sibling, before), node_hash(sibling, after), of[0]
        else:
            after = node_hash(after, sibling)
    for size, got, want in (first, before, first_root), (second, after, second_root):
        must(got == want, "consistency", f"the proof leads to the root {got.hex()} at size {size}, but that tree has {want.hex()}")


def run_root(leaves: Sequence[bytes]) -> bytes:
    """Returns the root of a run's own tree, over the hashes of its stages (spec: Run tree)."""
    must(leaves, "malformed", "a run has no stages")
    level = [sha256(b"\0", leaf) for leaf in leaves]
    while len(level) > 1:
        level = [sha256(b"\3", level[i], level[min(i + 1, len(level) - 1)]) for i in range(0, len(level), 2)]
    return level[0]


def verify_run_path(leaf: bytes, index: int, stages: int, path: Sequence[tuple[bytes, bool]], root: bytes) -> None:
    """Verifies the path of a stage in the tree of its run (spec: Nested proofs). A step is a sibling, and whether it is on the left."""
    node, at, width = sha256(b"\0", leaf), index, stages
    for sibling, is_left in path:
        must(width > 1 and is_left == (at % 2 == 1), "path", "the path of the stage has steps that its place in the run does not give")
        must(at != width - 1 or is_left or sibling == node, "path", "the last node of a level has another sibling than itself")
        node = sha256(b"\3", sibling, node) if is_left else sha256(b"\3", node, sibling)
        at, width = at // 2, (width + 1) // 2
    must(width == 1, "path", "the path of the stage is too short")
    must(node == root, "path", f"the path of the stage leads to {node.hex()}, but the run's root is {root.hex()}")
