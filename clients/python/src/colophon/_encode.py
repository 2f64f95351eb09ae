"""Copies of values, and values as JSON.

A copy is made on the calling thread, so it must be cheap: marshal copies what JSON has in a third of the time that the JSON encoder needs
(bench/measure.py). What marshal does not know is copied as JSON text. The copies never leave the process."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import json
import marshal
import math
import os
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Union

_surrogate = re.compile("[\ud800-\udfff]")
_MAX_DEPTH = 200  # of what lenient walks


def known_type(value: Any) -> Any:
    """Returns a value of a well-known type as one that JSON has, and raises a TypeError for others."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (uuid.UUID, os.PathLike)):
        return str(value)
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, type):
        if callable(schema := getattr(value, "model_json_schema", None)):  # the format of an answer
            return schema()
    elif callable(method := getattr(type(value), "model_dump", None)):  # pydantic 2
        return method(value, mode="json", warnings=False)
    elif callable(method := getattr(type(value), "to_dict", None)) or callable(method := getattr(type(value), "dict", None)):
        return method(value)
    elif hasattr(value, "dtype") and callable(method := getattr(value, "tolist", None)):  # numpy
        return method()
    raise TypeError(f"a value of the type {type(value).__module__}.{type(value).__qualname__} is not JSON")


def _any_type(value: Any) -> Any:
    try:
        return known_type(value)
    except Exception:
        # Not repr: it can hold addresses, which differ from run to run, and secrets.
        return f"<{type(value).__module__}.{type(value).__qualname__}>"


def _members(value: Any) -> Any:
    try:
        return known_type(value)
    except Exception:
        members = getattr(value, "__dict__", None)
        if isinstance(members, dict) and not isinstance(value, type) and not callable(value):
            return {name: member for name, member in members.items() if not name.startswith("_")}
        return _any_type(value)


def _encoder(default: Callable[[Any], Any]) -> Callable[[Any], str]:
    return json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=default).encode


encode = _encoder(known_type)
_encode_any = _encoder(_any_type)
_encode_members = _encoder(_members)


def encode_leniently(value: Any) -> str:
    """Returns JSON of any value, for what libraries hand over. Unknown objects become the names of their types, NaN and Infinity null.

    It raises nothing but what the value's own methods raise that are not exceptions."""
    try:
        return _encode_any(value)
    except Exception:
        return _encode_any(_plain(value, 0, set()))


def encode_answer(value: Any) -> str:
    """As encode_leniently, but an unknown object becomes its public members: answers of clients that have classes of their own."""
    try:
        return _encode_members(value)
    except Exception:
        return encode_leniently(value)


def _plain(value: Any, depth: int, above: set[int]) -> Any:
    """Copies a value as far as JSON has it."""
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return value if value.bit_length() < 14_000 else f"<integer of {value.bit_length()} bits>"  # about 4,300 digits
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth > _MAX_DEPTH or id(value) in above:
        return f"<{type(value).__module__}.{type(value).__qualname__}>"
    above = above | {id(value)}
    for _ in range(3):  # another thread may change it meanwhile
        try:
            if isinstance(value, Mapping):
                return {str(k): _plain(v, depth + 1, above) for k, v in list(value.items())}
            if isinstance(value, (list, tuple)):
                return [_plain(v, depth + 1, above) for v in list(value)]
            return _plain(_any_type(value), depth + 1, above)
        except RuntimeError:
            continue
    return f"<{type(value).__module__}.{type(value).__qualname__}>"


Copy = Union[bytes, str]  # marshal, or JSON


def copy(value: Any) -> Copy:
    """Copies a value. It raises what encode raises."""
    try:
        return marshal.dumps(value, 2)  # this version has no table of references, which takes longer than it saves
    except ValueError:
        return encode(value)


def copy_leniently(value: Any) -> Copy:
    """Copies any value, as encode_leniently writes it."""
    try:
        return marshal.dumps(value, 2)
    except Exception:
        return encode_leniently(value)


def copy_answer(value: Any) -> Copy:
    """Copies an answer, as encode_answer writes it."""
    try:
        return marshal.dumps(known_type(value) if hasattr(type(value), "model_dump") else value, 2)
    except Exception:
        return encode_answer(value)


def restore(copied: Copy) -> Any:
    """Returns the value of a copy. It may hold what JSON does not have, such as tuples, bytes, and NaN."""
    return json.loads(copied) if isinstance(copied, str) else marshal.loads(copied)


def restore_json(copied: Copy) -> Any:
    """Returns the value of a lenient copy, as json.loads would."""
    return json.loads(copied if isinstance(copied, str) else encode_leniently(marshal.loads(copied)))


def to_utf8(text: str, *, keep_surrogates: bool) -> tuple[bytes, bool]:
    """Returns JSON text as UTF-8, and whether it was changed.

    A lone surrogate is not UTF-8. Where a hash covers it (run-DAGs), it becomes an escape; elsewhere the ledger would refuse the record, so
    it becomes U+FFFD."""
    try:
        return text.encode(), False
    except UnicodeEncodeError:
        if keep_surrogates:
            return _surrogate.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode(), False
        return _surrogate.sub("\ufffd", text).encode(), True


def where_not_json(value: Any, pointer: str = "", depth: int = 0) -> str:
    """Returns the JSON pointer of the first value that is not JSON, for a message. It returns "" if it finds none."""
    if depth > 50:
        return pointer
    try:
        items = list(value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, (list, tuple)) else ())
    except Exception:
        return pointer
    for name, member in items:
        at = f"{pointer}/{str(name).replace('~', '~0').replace('/', '~1')}"
        try:
            encode(member)
        except Exception:
            return where_not_json(member, at, depth + 1)
    return pointer
