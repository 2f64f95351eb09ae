"""One ledger of a server."""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import itertools
import json
import logging
import os
import random
import re
import secrets
import ssl
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, TypeVar, cast
from urllib.parse import quote, urlencode, urlsplit

from . import _generation, hashes
from ._connection import Connection, split_url
from ._encode import Copy, copy, encode, encode_leniently, restore, to_utf8, where_not_json
from ._generation import F, Generation, require_key, rfc3339
from ._recorder import Deferred, Recorder, Settings, Stats, verify_answer
from ._spool import Spool
from .errors import LedgerError, RecordError, UnreachableError
from .types import Comparison, Effects, Group, Kind, Query, Receipt, Row, SearchAnswer, TimelineRow
from .verify import Key, parse_verifier_keys

_ROUTES = {"ipc_record": "ipc-records", "run_dag": "run-dags", "citation_set": "citation-sets", "path_fingerprint": "path-fingerprints"}
_ATTEMPTS = 5  # of a call that waits for its answer
_LONGEST_RETRY_AFTER = 30.0  # seconds

_log = logging.getLogger("colophon")
_open: set[Recorder] = set()  # until they are closed, so that records of a forgotten Ledger are not lost
_ledgers: weakref.WeakSet[Ledger] = weakref.WeakSet()
_exit_timeout: dict[Recorder, float] = {}

T = TypeVar("T")


def _at_exit() -> None:
    deadline = time.monotonic() + max(_exit_timeout.values(), default=0.0)
    for recorder in list(_open):
        recorder.close(max(0.0, min(_exit_timeout.get(recorder, 0.0), deadline - time.monotonic())))


def _after_fork() -> None:
    for recorder in list(_open):
        recorder.after_fork()
    for ledger in list(_ledgers):
        ledger._after_fork()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def spool_folder(spool: str | os.PathLike[str] | None, base: str, ledger: str) -> str:
    """Returns the folder of one ledger. Its name has a digest, so that records never reach another ledger. The TypeScript client uses the
    same names."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    parent = spool or os.environ.get("COLOPHON_SPOOL") or os.path.join(state, "colophon", "spool")
    digest = hashlib.sha256(f"{base}\0{ledger}".encode()).hexdigest()[:8]
    readable = re.sub("[^A-Za-z0-9.-]+", "-", f"{urlsplit(base).netloc}-{ledger}")[:80]
    return os.path.join(os.path.abspath(os.fspath(parent)), f"{readable}-{digest}")


class Ledger:
    """One ledger of a server. One object serves a whole process, and all its threads.

    record, generation, recorded, and the wrappers record in the background: the call takes microseconds, never waits for the ledger or the
    disk, and raises nothing. post waits for the receipt, and raises."""

    def __init__(
        self,
        url: str | None = None,
        *,
        ledger: str | None = None,
        token: str | None = None,
        spool: str | os.PathLike[str] | None = None,
        labels: Mapping[str, str] | None = None,
        producer: str | None = None,
        hashes_only: bool = False,
        verifier_keys: Iterable[Key] | Key = (),
        on_receipt: Callable[[Receipt, str], None] | None = None,
        timeout: float = 30.0,
        flush_interval: float = 0.1,
        exit_timeout: float = 2.0,
        max_queue_bytes: int = 64 << 20,
        max_spool_bytes: int = 1 << 30,
        ssl_context: ssl.SSLContext | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        """Times are in seconds.

        url: the server, such as https://ledger.example, or a ledger (…/v1/ledgers/NAME). Default: COLOPHON_SERVER, else http://127.0.0.1:8080.
        ledger: the ledger's name. Default: COLOPHON_LEDGER, else "default".
        token: an API token. Default: COLOPHON_TOKEN.
        spool: a folder on a local disk for records that the ledger does not have yet; several processes may share it. Each ledger has a
            folder of its own in it, readable only by its owner, because records hold prompts and answers. Default: COLOPHON_SPOOL, else
            ~/.local/state/colophon/spool.
        labels: labels of every record.
        producer: numbers the records of this object that have neither a key nor a run_id, so that the ledger can tell if some were lost.
        hashes_only: sends hashes in place of the content of IPC records.
        verifier_keys: verifies every receipt. A receipt that does not verify is logged, counted, and kept.
        on_receipt: is called in the background with every receipt, and with its text as the ledger sent it.
        timeout: for each wait for the server.
        flush_interval: after this time, records are written and synced to the spool. A crash loses at most what was recorded since.
        exit_timeout: how long the end of the process may wait for the ledger.
        max_queue_bytes: what may wait in memory for the spool. max_spool_bytes: what may wait in the spool of the ledger, of all processes.
        warn: takes warnings, at most one a minute of each kind. Default: the logger "colophon".

        It raises a ValueError for a bad URL, a VerificationError for a bad key, and a SpoolError if the folder cannot be used."""
        base, self.name = split_url(url or os.environ.get("COLOPHON_SERVER") or "http://127.0.0.1:8080", ledger)
        self.labels = dict(labels or {})
        self._path = f"/v1/ledgers/{quote(self.name, safe='')}"
        self._keys = parse_verifier_keys(verifier_keys)
        self._hashes_only = hashes_only
        self._producer_name = producer
        self._connection = Connection(base, token or os.environ.get("COLOPHON_TOKEN"), timeout, ssl_context)
        store = Spool(spool_folder(spool, base, self.name), max_spool_bytes)
        background = Connection(base, token or os.environ.get("COLOPHON_TOKEN"), timeout, ssl_context)
        self._recorder = Recorder(Settings(store, background, f"{self._path}/batch", max_queue_bytes, flush_interval, self._keys, on_receipt,
                                           warn or _log.warning))
        self._exit_timeout = exit_timeout
        self._after_fork()
        _exit_timeout[self._recorder] = exit_timeout
        _open.add(self._recorder)
        _ledgers.add(self)
        if store.bytes() > 0:  # an earlier process has left records
            self._recorder.start()

    def _after_fork(self) -> None:
        self._connection.forget()
        self._producer = None if self._producer_name is None else f"{self._producer_name}/{secrets.token_hex(4)}"
        self._numbers = itertools.count(1)
        self._key_prefix = secrets.token_hex(16)
        self._keys_made = itertools.count()

    # In the background.

    def record(self, kind: Kind, record: Mapping[str, Any], *, key: str | None = None) -> bool:
        """Records something in the background, and reports whether it was queued. It never waits and raises nothing.

        The record is copied at once, so it may change afterwards. Without a key and a run_id it gets a random key, and the time as its
        timestamp. False means that it cannot be copied, that the key is empty or blank, or that the queue and the spool are full. It is written
        as JSON in the background: if it turns out not to be JSON, that is counted (invalid) and logged."""
        try:
            require_key(key)
            given = record if type(record) is dict else dict(record)
            anonymous = key is None and given.get("run_id") is None
            line = _Line(self, kind, copy(given), self._next_key() if anonymous else key, time.time_ns() if anonymous else None,
                         self.next_producer() if anonymous else None)
        except Exception as error:
            self._recorder.count("invalid")
            self._recorder.warn("invalid", f"a record of kind {kind} is not recorded: {_named(record, error)}")
            return False
        return self._recorder.put(line)

    def generation(self, **fields: Any) -> Generation:
        """Begins a generation, which is recorded when the block ends:

            with ledger.generation(model="gemma2:2b", payload={"question": question}, system_prompt=PROMPT) as g:
                g.output = generate(question)

        fields are members of an IPC record. They are copied at once."""
        return Generation(self, fields)

    def recorded(self, **fields: Any) -> Callable[[F], F]:
        """Records each call of a function, of a coroutine function, or of a generator that yields texts:

            @ledger.recorded(model="gemma2:2b", system_prompt=PROMPT)
            def answer(question): ...

        Arguments named system_prompt, model, temperature, max_tokens, or seed become these fields, unless fields has them. The
        payload is the other arguments by name, unless fields has a payload. If an argument named messages is a chat that begins with
        system messages, these become the system prompt. The output is the result, if it is a text."""
        return _generation.recorded(self, fields)

    def sync(self, timeout: float | None = None) -> bool:
        """Waits until everything recorded so far is on the disk, synced, and reports whether it is."""
        return self._recorder.sync(timeout)

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until the ledger has answered everything recorded so far, and reports whether it has. Refused records count as answered."""
        return self._recorder.flush(timeout)

    def close(self, timeout: float | None = None) -> bool:
        """Tries to send everything for a time (default: exit_timeout), and reports whether the ledger has answered everything. The rest stays
        in the spool."""
        done = self._recorder.close(self._exit_timeout if timeout is None else timeout)
        _open.discard(self._recorder)
        _exit_timeout.pop(self._recorder, None)
        self._connection.close()
        return done

    def stats(self) -> Stats:
        """What became of the records so far."""
        return self._recorder.stats

    def warn(self, message: str) -> None:
        """Logs a warning of a wrapper."""
        self._recorder.warn(message[:40], message)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # With an answer.

    def post(self, kind: Kind, record: Mapping[str, Any], *, key: str | None = None, on_mismatch: str | None = None, derive: bool = False) -> Receipt:
        """Posts a record and returns its receipt. The record is then durable on the server. With verifier_keys, the receipt is verified.

        key is an idempotency key: with the same key, or the same run_id in the record, the ledger takes a record only once. It raises a
        ValueError for a key that is empty or blank, or that a header cannot have. on_mismatch
        "reject" refuses a record whose claimed hashes are wrong. derive adds what caused a change, and the like, to the receipt.

        Failed connections and the statuses 408, 429, 502, 503, and 504 are repeated up to four times: the key makes that harmless. It raises a
        LedgerError, an UnreachableError (the record might have been recorded), a RecordError (the record is not JSON), or a
        VerificationError (the server says that it was recorded)."""
        return cast(Receipt, json.loads(self.post_text(kind, record, key=key, on_mismatch=on_mismatch, derive=derive)))

    def post_text(self, kind: Kind, record: Mapping[str, Any], *, key: str | None = None, on_mismatch: str | None = None, derive: bool = False) -> str:
        """As post, but returns the receipt's text, which verify takes and which can be kept."""
        if kind not in _ROUTES:
            raise ValueError(f"{kind} cannot be posted alone; use {', '.join(_ROUTES)}, or record")
        require_key(key)
        anonymous = key is None and record.get("run_id") is None
        own = self._next_key() if anonymous else key
        try:
            body = self._complete(kind, record, time.time_ns() if anonymous else None, self.next_producer() if anonymous else None)
        except Exception as error:
            raise RecordError(f"the record is not JSON: {_named(record, error)}") from error
        query = {"on_mismatch": on_mismatch, "derive": derive or None}
        headers = {} if own is None else {"Idempotency-Key": _header(own)}
        answer = self._call("POST", _path(f"{self._path}/{_ROUTES[kind]}", query), to_utf8(body, keep_surrogates=True)[0], headers)
        if self._keys:
            verify_answer(_join(kind, body, own), answer, self._keys)
        return answer

    def get(self, path: str, **query: Query) -> Any:
        """Makes a GET request below the ledger and returns its JSON: ledger.get("/records", model="gemma2:2b").

        A parameter that is no name in Python is given as **{"label:config": "plain"}."""
        return json.loads(self.get_text(path, **query))

    def get_text(self, path: str, **query: Query) -> str:
        """As get, but returns the text: for receipts, checkpoints, and everything that is verified."""
        return self._call("GET", _path(self._path + path, query))

    def rows(self, path: str, **query: Query) -> Iterator[Row]:
        """Yields all rows of a list, page by page."""
        while True:
            page = self.get(path, **query)
            yield from page["rows"]
            if not page.get("next"):
                return
            query["cursor"] = page["next"]

    # The main questions. docs/users.md and openapi.yaml describe parameters and answers.

    def records(self, **filters: Query) -> Iterator[Row]:
        """Yields records, the newest first: ledger.records(kind="ipc_record", model="gemma2:2b")."""
        return self.rows("/records", **filters)

    def show(self, seq: int, **query: Query) -> Row:
        """Returns one record with its event, checks, and state."""
        return cast(Row, self.get(f"/records/{seq}", **query))

    def content(self, seq: int, name: str) -> str:
        """Returns a text of a record, such as "output"."""
        return self.get_text(f"/records/{seq}/content/{name}")

    def receipt(self, seq: int, tree_size: int | None = None) -> str:
        """Returns the text of a receipt, which verify takes."""
        return self.get_text(f"/records/{seq}/receipt", tree_size=tree_size)

    def run(self, run_id: str) -> dict[str, Any]:
        """Returns all records of one run: the answer of GET /runs/{run_id}, with the rows of all pages."""
        path = f"/runs/{_escape_run_id(run_id)}"
        answer = cast("dict[str, Any]", self.get(path))
        if following := answer.pop("next", None):
            answer["rows"].extend(self.rows(path, cursor=following))
        return answer

    def compare(self, a: int, b: int, **query: Query) -> Comparison:
        """Tells what differs between two IPC records, and what caused the change. text=True adds how far the texts changed."""
        return cast(Comparison, self.get("/drift/attribution", a=a, b=b, **query))

    def effects(self, variable: str, a: str, b: str, **query: Query) -> Effects:
        """Returns the effect of one variable alone: system_prompt_hash, model, temperature, label:NAME, …"""
        return cast(Effects, self.get("/drift/effects", variable=variable, a=a, b=b, **query))

    def timeline(self, **query: Query) -> Iterator[TimelineRow]:
        """Yields the runs that have a value in common, the oldest first, each with its cause: ledger.timeline(input=HASH)."""
        return cast("Iterator[TimelineRow]", self.rows("/drift/timeline", **query))

    def groups(self, by: str, **query: Query) -> Iterator[Group]:
        """Yields groups of runs, and how their outputs differ: ledger.groups("input", min_outputs=2)."""
        return cast("Iterator[Group]", self.rows("/drift/groups", by=by, **query))

    def search(self, text: str, **query: Query) -> SearchAnswer:
        """Finds what a text can mean: a hash, a run, a label, words of a prompt."""
        return cast(SearchAnswer, self.get("/search", q=text, **query))

    # asyncio. These run in a thread, so that the event loop never waits. record and generation need none: they do not wait.

    async def apost(self, kind: Kind, record: Mapping[str, Any], *, key: str | None = None, on_mismatch: str | None = None, derive: bool = False) -> Receipt:
        return await asyncio.to_thread(self.post, kind, record, key=key, on_mismatch=on_mismatch, derive=derive)

    async def aget(self, path: str, **query: Query) -> Any:
        return await asyncio.to_thread(lambda: self.get(path, **query))

    async def arows(self, path: str, **query: Query) -> AsyncIterator[Row]:
        while True:
            page = await self.aget(path, **query)
            for row in page["rows"]:
                yield row
            if not page.get("next"):
                return
            query["cursor"] = page["next"]

    async def async_(self, method: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Runs any of the other methods in a thread: await ledger.async_(ledger.compare, 1, 2)."""
        return await asyncio.to_thread(lambda: method(*args, **kwargs))

    async def async_sync(self, timeout: float | None = None) -> bool:
        return await asyncio.to_thread(self.sync, timeout)

    async def aflush(self, timeout: float | None = None) -> bool:
        return await asyncio.to_thread(self.flush, timeout)

    async def aclose(self, timeout: float | None = None) -> bool:
        return await asyncio.to_thread(self.close, timeout)

    async def __aenter__(self) -> Ledger:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    # For this package.

    def _next_key(self) -> str:
        return f"{self._key_prefix}{next(self._keys_made):08x}"

    def next_producer(self) -> dict[str, Any] | None:
        return None if self._producer is None else {"id": self._producer, "seq": next(self._numbers)}

    def _put(self, record: Deferred) -> bool:
        return self._recorder.put(record)

    def _generated_line(self, record: dict[str, Any], key: str) -> bytes:
        text = encode_leniently(self._hashed(record, encode_leniently) if self._hashes_only else record)
        return self._utf8("ipc_record", _join("ipc_record", text, key))

    def _utf8(self, kind: str, text: str) -> bytes:
        line, repaired = to_utf8(text, keep_surrogates=kind == "run_dag")
        if repaired:
            self._repaired(kind)
        return line

    def _repaired(self, kind: str) -> None:
        self._recorder.count("repaired")
        self._recorder.warn("repaired", f"a record of kind {kind} has text that is not Unicode (lone surrogates), which are replaced by U+FFFD")

    def _hashed(self, record: Mapping[str, Any], write: Callable[[Any], str]) -> dict[str, Any]:
        """Replaces the content of a record by its hashes. They are hashes of the text without lone surrogates."""
        text, repaired = to_utf8(write(record), keep_surrogates=False)
        if not repaired:
            return _without_content(record)
        self._repaired("ipc_record")
        return _without_content(json.loads(text))

    def _complete(self, kind: str, record: Mapping[str, Any], at: int | None, producer: dict[str, Any] | None, repairs: bool = False) -> str:
        """Returns a record as JSON. at and producer are of a record without a key of the caller: one with a key must stay the same when it is
        posted again. With repairs, hashes_only replaces lone surrogates before it hashes."""
        members = {name: value for name, value in record.items() if value is not None}
        if kind in _ROUTES:
            if at is not None:
                members.setdefault("timestamp", rfc3339(at))
            if producer is not None:
                members.setdefault("producer", producer)
            if self.labels:
                members["labels"] = {**self.labels, **members.get("labels", {})}
            if self._hashes_only and kind == "ipc_record":
                members = self._hashed(members, encode) if repairs else _without_content(members)
        return encode(members)

    def _call(self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str | bytes] | None = None) -> str:
        for attempt in itertools.count():
            try:
                return self._connection.call(method, path, body, headers)
            except (LedgerError, UnreachableError) as error:
                after = error.retry_after if isinstance(error, LedgerError) else 0.0
                lasting = isinstance(error, LedgerError) and not error.temporary
                if lasting or attempt == _ATTEMPTS - 1 or after > _LONGEST_RETRY_AFTER:
                    raise
                wait = 0.25 * 2**attempt
                time.sleep(max(after, random.uniform(wait / 2, wait)))
        raise AssertionError("unreachable")


class _Line:
    """A record whose line is made in the background (Deferred)."""

    __slots__ = ("size", "_ledger", "_kind", "_copy", "_key", "_at", "_producer")

    def __init__(self, ledger: Ledger, kind: str, copied: Copy, key: str | None, at: int | None, producer: dict[str, Any] | None) -> None:
        self.size = len(copied) + 200  # with what the line adds
        self._ledger, self._kind, self._copy, self._key, self._at, self._producer = ledger, kind, copied, key, at, producer

    def line(self) -> bytes:
        record = restore(self._copy)
        try:
            text = self._ledger._complete(self._kind, record, self._at, self._producer, repairs=True)
        except Exception as error:
            raise RecordError(f"a record of kind {self._kind} is not JSON: {_named(record, error)}") from error
        return self._ledger._utf8(self._kind, _join(self._kind, text, self._key))


def _named(record: Any, error: Exception) -> str:
    place = where_not_json(record)
    return f"{place}: {error}" if place else str(error) or type(error).__name__


def _join(kind: str, record: str, key: str | None) -> str:
    return f'{{"kind":{json.dumps(kind)},"record":{record}{"" if key is None else ","}{"" if key is None else _key_member(key)}}}'


def _header(key: str) -> bytes:
    """Returns an idempotency key as the value of a header. The server reads headers as UTF-8, but http.client writes a str as Latin-1."""
    if key != key.strip() or any(c < " " or c == "\x7f" for c in key):
        raise ValueError("a header cannot have a key with control characters, or with spaces at its ends; give another key, or use record")
    return key.encode()


def _key_member(key: str) -> str:
    return f'"idempotency_key":{json.dumps(key, ensure_ascii=False)}'


def _escape_run_id(run_id: str) -> str:
    """Escapes a run_id for a path. /runs/compare is another route, and proxies remove the elements "." and ".."."""
    if run_id == "compare":
        return "%63ompare"
    return run_id.replace(".", "%2E") if run_id in (".", "..") else quote(run_id, safe="")


def _path(path: str, query: Mapping[str, Query]) -> str:
    given = {name: str(value).lower() if isinstance(value, bool) else value for name, value in query.items() if value is not None}
    return path + ("?" + urlencode(given) if given else "")


def _without_content(record: Mapping[str, Any]) -> dict[str, Any]:
    """Replaces the content of an IPC record by its hashes."""
    members = dict(record)
    if (given := members.pop("payload", None)) is not None:
        if "payload_schema" in members:
            raise RecordError("hashes_only cannot hash a payload with a payload_schema")
        payload = json.loads(encode(given))
        seed = payload.get("seed")
        # Beside a hash, the ledger cannot take the seed out of the input.
        if seed is not None and members.get("seed", seed) == seed:
            members["seed"] = payload.pop("seed")
        members["input_hash"] = hashes.input_hash(payload)
    for name, compute in ("system_prompt", hashes.system_prompt_hash), ("output", hashes.output_hash):
        if isinstance(text := members.pop(name, None), str):
            members[f"{name}_hash"] = compute(text)
    if "usage" in members:
        members["usage"] = _numbers(json.loads(encode(members["usage"]))) or None
    return {name: value for name, value in members.items() if value is not None}


def _numbers(usage: Any) -> dict[str, Any]:
    """Returns the numbers of a usage, also within its members."""
    kept = {}
    for name, value in usage.items() if isinstance(usage, dict) else ():
        inner = value if isinstance(value, (int, float)) and not isinstance(value, bool) else _numbers(value)
        if inner or inner == 0:
            kept[name] = inner
    return kept
