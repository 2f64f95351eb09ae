"""The exceptions of this package."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

TEMPORARY = frozenset({408, 429, 502, 503, 504})  # statuses after which the same request might succeed

# Characters that would add lines to a log, or move a terminal's cursor.
_control = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class ColophonError(Exception):
    """The base of all exceptions of this package."""


class LedgerError(ColophonError):
    """An answer with an error status (RFC 9457)."""

    def __init__(self, request: str, status: int, reason: str, retry_after: float = 0.0, problem: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{request}: {status} {reason}")
        self.request = request
        self.status = status
        self.reason = reason  # in one line
        self.retry_after = retry_after  # seconds; 0 if the server sent none
        self.problem = problem  # the problem document, or None if the answer was none

    @property
    def temporary(self) -> bool:
        """Whether the same request might succeed later."""
        return self.status in TEMPORARY


class UnreachableError(ColophonError):
    """The server could not be reached, or its answer broke off. A write might have been recorded."""


class SpoolError(ColophonError):
    """The spool folder cannot be used."""


class RecordError(ColophonError, ValueError):
    """A record cannot be written as JSON."""


class VerificationError(ColophonError):
    """A check that does not hold. The codes are those of the Go package `proofs` and of the TypeScript client."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def must(holds: object, code: str, message: str) -> None:
    """Raises a VerificationError unless the condition holds."""
    if not holds:
        raise VerificationError(code, message)


def shown(text: object) -> str:
    """Shortens a text that came from elsewhere, for a message."""
    given = text if isinstance(text, str) else repr(text)
    return json.dumps(given[:100] + "…" if len(given) > 100 else given)


def one_line(text: str) -> str:
    """Returns at most 1,000 characters of a text, in one line."""
    return _control.sub(" ", text)[:1000].encode("utf-8", "replace").decode()


def reason_of(problem: Mapping[str, Any]) -> str:
    """Returns in one line what a problem says."""
    places = problem.get("errors")
    parts = []
    for place in places if isinstance(places, list) else []:
        if isinstance(place, dict):
            parts.append(": ".join(p for p in (place.get("pointer"), place.get("detail")) if isinstance(p, str)))
    text = "; ".join(parts)
    for name in ("detail", "title"):
        if not text and isinstance(problem.get(name), str):
            text = problem[name]
    return one_line(text or "no reason given")
