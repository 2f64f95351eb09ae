"""Requests to a server, with http.client. They follow no redirects, because a redirect could give the token to another server."""

from __future__ import annotations

import email.utils
import http.client
import json
import os
import re
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from .errors import LedgerError, UnreachableError, one_line, reason_of

_MOST_IDLE = 4  # connections that are kept


def split_url(url: str, ledger: str | None) -> tuple[str, str]:
    """Returns the base URL and the name of the ledger. The URL may be that of a server or of a ledger (…/v1/ledgers/NAME)."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or port == -1:
        raise ValueError(f"{url} is not the URL of a server, such as https://ledger.example")
    if parts.username is not None or parts.password is not None:
        raise ValueError("the server's URL must not have a user and password; use token")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    usual = {"http": 80, "https": 443}[parts.scheme]
    base = f"{parts.scheme}://{host}" + (f":{port}" if port not in (None, usual) else "")
    found = re.fullmatch(r"(.*)/v1/ledgers/([^/]+)/?", parts.path)
    if not found:
        return (base + parts.path).rstrip("/"), ledger or os.environ.get("COLOPHON_LEDGER") or "default"
    name = unquote(found[2])
    if ledger is not None and ledger != name:
        raise ValueError(f"the URL names the ledger {name}, but ledger is {ledger}")
    return base + found[1], name


class Connection:
    """A server. Several threads can use it."""

    def __init__(self, base: str, token: str | None, timeout: float, context: ssl.SSLContext | None) -> None:
        self.base = base
        self._parts = urlsplit(base)
        self._token = token
        self._timeout = timeout  # seconds, for each wait
        self._context = context
        self._idle: list[http.client.HTTPConnection] = []
        self._closed = False

    def forget(self) -> None:
        """Leaves the open connections to the process from which this one was forked."""
        self._idle = []

    def close(self) -> None:
        self._closed = True  # a request that is under way does not leave its connection open
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def call(self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str | bytes] | None = None) -> str:
        """Makes one request and returns the text of the answer."""
        fields: dict[str, str | bytes] = dict(headers or {})
        if self._token:
            fields["Authorization"] = f"Bearer {self._token}"
        if body is not None:
            fields.setdefault("Content-Type", "application/json")
        request = f"{method} {path}"
        while True:
            try:
                connection, reused = self._idle.pop(), True
            except IndexError:
                connection, reused = self._open(), False
            try:
                return self._exchange(connection, request, self._parts.path + path, body, fields)
            except LedgerError:
                raise
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                # The server may have closed a connection that was idle. A repetition adds nothing, because records have keys.
                if reused and isinstance(error, (http.client.RemoteDisconnected, ConnectionError)):
                    continue
                why = f"no answer within {self._timeout:g} s" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
                raise UnreachableError(f"no answer from the server at {self.base}: {one_line(why)}") from error
            except BaseException:
                connection.close()
                raise

    def _open(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=self._timeout, context=self._context)
        return http.client.HTTPConnection(host, port, timeout=self._timeout)

    def _exchange(self, connection: http.client.HTTPConnection, request: str, path: str, body: bytes | None, headers: dict[str, str | bytes]) -> str:
        try:
            connection.request(request.split(" ", 1)[0], path, body=body, headers=headers)
        except (BrokenPipeError, ConnectionResetError):
            # The server may have answered before it read everything.
            if connection.sock is None:
                raise
        else:
            if connection.sock is not None:
                connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        response = connection.getresponse()
        data = response.read()
        if self._closed or response.will_close or len(self._idle) >= _MOST_IDLE:
            connection.close()
        else:
            self._idle.append(connection)
        if not 200 <= response.status <= 299:
            raise _refusal(request, response, data)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise UnreachableError(f"the server at {self.base} sent an answer that is not UTF-8") from error


def _refusal(request: str, response: http.client.HTTPResponse, data: bytes) -> LedgerError:
    problem: dict[str, Any] | None = None
    text = data.decode("utf-8", "replace")
    try:
        read = json.loads(text)
        problem = read if isinstance(read, dict) else None
    except (ValueError, RecursionError):
        pass  # An answer of a proxy, perhaps.
    if response.status < 400:
        reason = "the server redirects, and this client follows no redirects; use the URL of the right server"
    else:
        reason = reason_of(problem or {"detail": text.split("\n")[0].strip() or response.reason})
    return LedgerError(request, response.status, reason, _retry_after(response.headers.get("Retry-After")), problem)


def _retry_after(header: str | None) -> float:
    """Returns seconds. A header that is neither seconds nor a date counts as absent."""
    if header is None:
        return 0.0
    if re.fullmatch("[0-9]{1,9}", header.strip()):
        return float(header)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return 0.0
