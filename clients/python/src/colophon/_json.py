"""The ledger's JSON (spec: Canonical JSON; Numbers; Refused JSON). CPython's own writer is the reference."""

from __future__ import annotations

import json
import math
import re
import sys
from typing import Any

from .errors import VerificationError

MAX_DEPTH = 512  # open brackets
MAX_DIGITS = 4300  # of an integer

_string = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_other = re.compile(r"[^\[\]{}]+")


def wtf8(text: str) -> bytes:
    """Encodes a text as UTF-8. A lone surrogate takes three bytes (spec: UTF-8 and WTF-8)."""
    return text.encode("utf-8", "surrogatepass")


def canonical(value: Any, *, spaced: bool = False) -> str:
    """Returns canonical JSON: compact, or spaced as IPC payloads are hashed."""
    separators = (", ", ": ") if spaced else (",", ":")
    return json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False, separators=separators)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("an object has two members of one name")
    return members


def _double(token: str) -> float:
    value = float(token)
    if not math.isfinite(value):  # out of range, or NaN and Infinity as such
        raise ValueError("a number is out of the range of doubles")
    return value


def _integer(token: str) -> int:
    digits = len(token) - token.startswith("-")
    if digits > MAX_DIGITS:
        raise ValueError(f"an integer has more than {MAX_DIGITS} digits")
    limit = getattr(sys, "get_int_max_str_digits", lambda: 0)()
    if limit and digits > limit:  # the program has lowered the limit of this process
        value = 0
        for at in range(0, len(token), 500):
            part = token[at : at + 500].lstrip("-")
            value = value * 10 ** len(part) + int(part)
        return -value if token.startswith("-") else value
    return int(token)


def _depth(text: str) -> int:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return 0
    deepest = at = 0
    for c in _other.sub("", _string.sub("", text)):
        at += 1 if c in "[{" else -1
        deepest = max(deepest, at)
    return deepest


_decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_double, parse_int=_integer, parse_constant=_double)


def parse(text: str) -> Any:
    """Parses JSON, and refuses what the ledger refuses: a VerificationError "malformed"."""
    try:
        if _depth(text) > MAX_DEPTH:
            raise ValueError(f"it has more than {MAX_DEPTH} open brackets")
        return _decoder.decode(text)
    except (ValueError, RecursionError) as error:
        raise VerificationError("malformed", f"not JSON: {error}") from error


def has_lone_surrogate(value: Any) -> bool:
    """Reports whether a string in the value, or the name of a member, has a lone surrogate."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False
