"""A log with entries and signed checkpoints that uses neither the server nor the client, but follows the definitions of RFC 6962 and RFC 8032."""

from __future__ import annotations

import base64
import hashlib
import json

P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P


def sha256(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


# Ed25519 in affine coordinates, which the client does not use.
def _add(p, q):
    (x1, y1), (x2, y2) = p, q
    k = D * x1 * x2 * y1 * y2 % P
    return (x1 * y2 + x2 * y1) * pow(1 + k, P - 2, P) % P, (y1 * y2 + x1 * x2) * pow(1 - k, P - 2, P) % P


def _times(n, p):
    q = (0, 1)
    for bit in bin(n)[2:]:
        q = _add(q, q)
        if bit == "1":
            q = _add(q, p)
    return q


_y = 4 * pow(5, P - 2, P) % P
_square = (_y * _y - 1) * pow(D * _y * _y + 1, P - 2, P) % P
_x = pow(_square, (P + 3) // 8, P)
if (_x * _x - _square) % P:
    _x = _x * pow(2, (P - 1) // 4, P) % P
BASE = (_x if _x % 2 == 0 else P - _x, _y)


def _encode(p) -> bytes:
    return (p[1] | (p[0] & 1) << 255).to_bytes(32, "little")


def _secret(seed: bytes):
    h = hashlib.sha512(seed).digest()
    return (int.from_bytes(h[:32], "little") & (1 << 254) - 8) | 1 << 254, h[32:]


def public_key(seed: bytes) -> bytes:
    return _encode(_times(_secret(seed)[0], BASE))


def sign(seed: bytes, message: bytes) -> bytes:
    a, prefix = _secret(seed)
    public = _encode(_times(a, BASE))
    r = int.from_bytes(hashlib.sha512(prefix + message).digest(), "little") % L
    point = _encode(_times(r, BASE))
    k = int.from_bytes(hashlib.sha512(point + public + message).digest(), "little") % L
    return point + ((r + k * a) % L).to_bytes(32, "little")


class Signer:
    """A signing key with a name. algorithm is 1 for logs and 4 for witnesses."""

    def __init__(self, name: str, seed: int, algorithm: int = 1) -> None:
        self.name, self.seed = name, bytes([seed]) * 32
        material = bytes([algorithm]) + public_key(self.seed)
        self.id = sha256(name.encode() + b"\n", material)[:4]
        self.key = f"{name}+{self.id.hex()}+{base64.b64encode(material).decode()}"

    def line(self, signature: bytes) -> str:
        return f"— {self.name} {base64.b64encode(self.id + signature).decode()}\n"

    def sign(self, text: str) -> str:
        return self.line(sign(self.seed, text.encode()))

    def cosign(self, text: str, time: int) -> str:
        return self.line(time.to_bytes(8, "big") + sign(self.seed, f"cosignature/v1\ntime {time}\n{text}".encode()))


def _half(n: int) -> int:
    k = 1
    while 2 * k < n:
        k *= 2
    return k


def root(leaves) -> bytes:
    if not leaves:
        return sha256()
    if len(leaves) == 1:
        return leaves[0]
    k = _half(len(leaves))
    return sha256(b"\1", root(leaves[:k]), root(leaves[k:]))


def path(index: int, leaves) -> list[bytes]:
    if len(leaves) == 1:
        return []
    k = _half(len(leaves))
    return path(index, leaves[:k]) + [root(leaves[k:])] if index < k else path(index - k, leaves[k:]) + [root(leaves[:k])]


def consistency(first: int, leaves, whole: bool = True) -> list[bytes]:
    if first == len(leaves):
        return [] if whole else [root(leaves)]
    k = _half(len(leaves))
    if first <= k:
        return consistency(first, leaves[:k], whole) + [root(leaves[k:])]
    return consistency(first - k, leaves[k:], False) + [root(leaves[:k])]


class Log:
    """A log of notes."""

    def __init__(self, signer: Signer) -> None:
        self.signer, self.entries, self.leaves, self.tip = signer, [], [], bytes(32)

    def grow(self, n: int, text: str = "event") -> Log:
        for _ in range(n):
            seq = len(self.leaves)
            body = ('{"actor":"lab","checks":{},"kind":"note","ledger":"default","record":{"text":"%s %d"},"rules":1,"seq":%d,'
                    '"time":"2026-01-02T03:04:05.000000Z","v":1}' % (text, seq, seq))
            entry = self.tip + body.encode()
            self.entries.append(entry)
            self.leaves.append(sha256(b"\0", entry))
            self.tip = sha256(entry)
        return self

    def text(self, size: int | None = None) -> str:
        size = len(self.leaves) if size is None else size
        return f"{self.signer.name}\n{size}\n{base64.b64encode(root(self.leaves[:size])).decode()}\n"

    def checkpoint(self, size: int | None = None) -> str:
        text = self.text(size)
        return text + "\n" + self.signer.sign(text)

    def receipt(self, seq: int, size: int | None = None, checkpoint: str | None = None) -> str:
        size = len(self.leaves) if size is None else size
        entry = self.entries[seq]
        head = {"ledger": "default", "seq": seq, "kind": "note", "time": "2026-01-02T03:04:05.000000Z", "event_hash": sha256(entry).hex(),
                "prev_event_hash": entry[:32].hex(), "leaf_hash": self.leaves[seq].hex(), "hashes": {}, "checks": {}}
        inclusion = {"leaf_index": seq, "tree_size": size, "hashes": [h.hex() for h in path(seq, self.leaves[:size])]}
        compact = {"ensure_ascii": False, "separators": (",", ":")}
        note = self.checkpoint(size) if checkpoint is None else checkpoint
        return (f"{json.dumps(head, **compact)[:-1]},\"event\":{entry[32:].decode()},\"inclusion\":{json.dumps(inclusion, **compact)},"
                f"\"checkpoint\":{json.dumps(note, **compact)}}}")
