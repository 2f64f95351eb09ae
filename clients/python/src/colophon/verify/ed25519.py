"""Verification of Ed25519 signatures (RFC 8032). The package `cryptography` does it if it is installed, else this module in Python.

Both take the same signatures: points and numbers must be written in their canonical form, and the equation is checked without the
cofactor. The Python version is slow (milliseconds), and its time depends on the input, which is public."""

from __future__ import annotations

import hashlib

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
_SQRT_M1 = pow(2, (P - 1) // 4, P)

_Point = tuple[int, int, int, int]  # extended coordinates


def _add(a: _Point, b: _Point) -> _Point:
    x = (a[1] - a[0]) * (b[1] - b[0]) % P
    y = (a[1] + a[0]) * (b[1] + b[0]) % P
    t = 2 * a[3] * b[3] * D % P
    z = 2 * a[2] * b[2] % P
    e, f, g, h = y - x, z - t, z + t, y + x
    return e * f % P, g * h % P, f * g % P, e * h % P


def _multiply(n: int, point: _Point) -> _Point:
    result = (0, 1, 1, 0)
    while n:
        if n & 1:
            result = _add(result, point)
        point = _add(point, point)
        n >>= 1
    return result


def _decompress(data: bytes) -> _Point | None:
    """Reads a point, or returns None if the bytes are not the canonical form of one."""
    y = int.from_bytes(data, "little") & ((1 << 255) - 1)
    sign = data[31] >> 7
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * _SQRT_M1 % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


_base = _decompress((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


def verify_in_python(public: bytes, signature: bytes, message: bytes) -> bool:
    """Reports whether the key has signed the message. It needs nothing but the standard library."""
    if len(public) != 32 or len(signature) != 64:
        return False
    s = int.from_bytes(signature[32:], "little")
    key, r = _decompress(public), _decompress(signature[:32])
    if key is None or r is None or _base is None or s >= L:
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % L
    a, b = _multiply(s, _base), _add(r, _multiply(k, key))
    return (a[0] * b[2] - b[0] * a[2]) % P == 0 and (a[1] * b[2] - b[1] * a[2]) % P == 0


def verify(public: bytes, signature: bytes, message: bytes) -> bool:
    """Reports whether the key has signed the message."""
    try:
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        return verify_in_python(public, signature, message)
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        return False
    except (ValueError, UnsupportedAlgorithm):  # a malformed key, or a library built without the algorithm
        return verify_in_python(public, signature, message)
    return True
