"""The oracle of differential tests: what CPython makes of a batch of inputs.

Each line of standard input is a JSON array [operation, [input, ...]]; the
answer is one line with the JSON array of results. An operation is a function
of one input, registered with @operation. Bytes travel in base64; texts are
bytes in WTF-8.
"""

import base64
import json
import sys
import unicodedata

OPERATIONS = {}


def operation(function):
    OPERATIONS[function.__name__] = function
    return function


def raw(data):
    """The bytes that Go sent; a nil slice comes as null."""
    return base64.b64decode(data or "")


def decode(data):
    return raw(data).decode("utf-8", "surrogatepass")


def encode(text):
    return base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()


# Canonical JSON (specification 1.2).

MAX_DEPTH = 512


class Refused(ValueError):
    pass


def members(pairs):
    result = dict(pairs)
    if len(result) != len(pairs):
        raise Refused("duplicate member name")
    return result


def number(token):
    value = float(token)
    if value in (float("inf"), float("-inf")):
        raise Refused("out of range")
    return value


def constant(token):
    raise Refused(token)


def depth(source):
    """The largest number of open brackets outside strings."""
    deepest = level = 0
    quoted = escaped = False
    for c in source:
        if escaped:
            escaped = False
        elif quoted:
            escaped = c == "\\"
            quoted = c != '"'
        elif c == '"':
            quoted = True
        elif c in "[{":
            level += 1
            deepest = max(deepest, level)
        elif c in "]}":
            level -= 1
    return deepest


def load(source):
    if depth(source) > MAX_DEPTH:
        raise Refused("nested too deeply")
    return json.loads(source, object_pairs_hook=members, parse_float=number, parse_constant=constant)


def compact(value):
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def spaced(value):
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


@operation
def canonical(source):
    """Both canonical forms, compact and spaced, or null if source is refused."""
    try:
        value = load(raw(source).decode("utf-8"))
    except ValueError:
        return None
    return [encode(compact(value)), encode(spaced(value))]


@operation
def float_repr(token):
    """repr(float(token)), or null if that is an infinity."""
    try:
        return repr(number(token))
    except Refused:
        return None


# Text rules (specification 1.1, 1.4).


@operation
def strip(text):
    return encode(decode(text).strip())


@operation
def splitlines(text):
    return [encode(line) for line in decode(text).splitlines()]


@operation
def split(text):
    return [encode(word) for word in decode(text).split()]


@operation
def lower(text):
    return encode(decode(text).lower())


@operation
def nfc(text):
    return encode(unicodedata.normalize("NFC", decode(text)))


@operation
def spaces(block):
    """The code points of the 256 of a block for which str.isspace holds."""
    return [c for c in range(block * 256, block * 256 + 256) if chr(c).isspace()]


@operation
def assigned(block):
    """The code points of a block that CPython's Unicode version knows."""
    return [c for c in range(block * 256, block * 256 + 256) if unicodedata.category(chr(c)) != "Cn"]


def main():
    for line in sys.stdin.buffer:
        name, batch = json.loads(line)
        function = OPERATIONS[name]
        sys.stdout.write(json.dumps([function(item) for item in batch]) + "\n")
        sys.stdout.flush()


main()
