"""The background: lines go from a queue in memory to the spool, and from there to the ledger.

put is called from any thread, from signal handlers, and from finalizers that the garbage collector runs at any place. So it takes only
a reentrant lock, and wakes the writer through a SimpleQueue, whose put is reentrant. Everything else happens in two daemon threads,
which start with the first record: the writer and the sender."""

from __future__ import annotations

import contextlib
import json
import queue
import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Union

from . import hashes
from ._connection import Connection
from ._json import parse
from ._spool import Line, Segment, Spool, SpoolFullError
from .errors import TEMPORARY, ColophonError, LedgerError, UnreachableError, VerificationError, must, one_line, reason_of
from .types import Receipt
from .verify import VerifierKey, require_verified

_GROUPED = 256 << 10  # bytes after which lines are written at once
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 30.0  # seconds
_LONGEST_RETRY_AFTER = 600.0
_SCAN = 5.0  # seconds between looks at what other processes have left, and before a segment that failed is tried again
_WARN_EVERY = 60.0  # seconds between warnings of one kind
_HOLD = frozenset({401, 403, 404})  # a token or a name that someone will correct: records wait
_SERVER_ERRORS = 3  # answers 5xx to one line, after which it is refused
_ORDINARY, _URGENT, _END = 0, 1, 2  # what wakes the writer


class Deferred(Protocol):
    """A record whose line is made in the background, from a snapshot."""

    size: int  # bytes, about

    def line(self) -> bytes: ...


Item = Union[bytes, Deferred]


@dataclass
class Stats:
    """What became of the records so far, in this process."""

    accepted: int = 0  # records that were queued
    spooled: int = 0  # those of them that are in the spool, synced
    queued: int = 0  # those of them that wait in memory for the spool
    recorded: int = 0  # records that the ledger has acknowledged, also of earlier processes
    replayed: int = 0  # those of them that it had already
    rejected: int = 0  # records that the ledger refused; the spool keeps them
    dropped: int = 0  # records that were dropped: the queue was full, or the end of the process found no room on the disk
    invalid: int = 0  # records that are not JSON, or whose key is empty or blank
    repaired: int = 0  # records in which lone surrogates became U+FFFD
    unverified: int = 0  # receipts that do not verify; the spool keeps them
    last_error: str = ""  # the last failure to reach the ledger, or ""


@dataclass
class _Sent:
    line: Line
    errors: int = 0


@dataclass
class Settings:
    spool: Spool
    connection: Connection
    path: str  # of POST /batch
    max_queue_bytes: int
    flush_interval: float  # seconds
    keys: list[VerifierKey]
    on_receipt: Callable[[Receipt, str], None] | None
    warn: Callable[[str], None]


@dataclass
class _Mutable:
    """What a forked child begins without."""

    lock: Any = field(default_factory=threading.RLock)  # of the queue and the counters
    wake: queue.SimpleQueue[int] = field(default_factory=queue.SimpleQueue)
    done: threading.Condition = field(default_factory=threading.Condition)
    more: threading.Event = field(default_factory=threading.Event)  # something waits in the spool
    hurry: threading.Event = field(default_factory=threading.Event)  # ends a pause between attempts, but not before Retry-After
    ending: threading.Event = field(default_factory=threading.Event)
    queue: list[Item] = field(default_factory=list)
    under_way: list[bytes] = field(default_factory=list)
    queued_bytes: int = 0
    finished: int = 0  # of the accepted ones, those that are in the spool or came to nothing
    roused: bool = False
    pressed: bool = False
    own: set[str] = field(default_factory=set)  # segments that were written here and are not answered
    attempts: int = 0  # failed ones
    starting: bool = False
    writer: threading.Thread | None = None
    sender: threading.Thread | None = None
    warned: dict[str, float] = field(default_factory=dict)
    stats: Stats = field(default_factory=Stats)


class Recorder:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._closed = False
        self._m = _Mutable()

    def after_fork(self) -> None:
        """In the child: the parent sends what it has queued. Threads start with the child's first record."""
        self._m = _Mutable()
        self.settings.spool.abandon()
        self.settings.connection.forget()

    @property
    def stats(self) -> Stats:
        m = self._m
        with m.lock:
            return replace(m.stats, queued=m.stats.accepted - m.finished)

    def count(self, name: str) -> None:
        with self._m.lock:
            setattr(self._m.stats, name, getattr(self._m.stats, name) + 1)

    def put(self, item: Item) -> bool:
        """Queues an item and reports whether there was room. It never waits and never raises."""
        m = self._m
        size = len(item) if isinstance(item, bytes) else item.size
        with m.lock:
            full = m.queued_bytes + size > self.settings.max_queue_bytes and m.queued_bytes > 0
            if full:
                m.stats.dropped += 1
            else:
                m.queue.append(item)
                m.queued_bytes += size
                m.stats.accepted += 1
                if m.queued_bytes >= _GROUPED and not m.pressed:
                    m.pressed = m.roused = True
                    m.wake.put(_URGENT)
                elif not m.roused:
                    m.roused = True
                    m.wake.put(_ORDINARY)
        if full:
            self.warn("full", "the queue is full: the record is dropped, and so are others until the disk or the ledger takes records "
                      f"({m.stats.last_error or 'no error so far'})")
            return False
        if self._closed:
            self._write_rest()
        elif m.writer is None:
            self._start()
        return True

    def sync(self, timeout: float | None = None) -> bool:
        """Waits until all items that are queued now are in the spool, and reports whether they are."""
        m = self._m
        target = m.stats.accepted
        if m.finished < target and not self._closed:
            self._start()
            m.wake.put(_URGENT)
        return self._wait(lambda: m.finished >= target, timeout)

    def flush(self, timeout: float | None = None, attempts: int | None = None) -> bool:
        """Waits until the ledger has answered all items that are queued now, and reports whether it has. With attempts, it gives up after
        this number of failed ones."""
        m = self._m
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self.sync(timeout):
            return False
        names = set(m.own)
        if not names:
            return True
        last = None if attempts is None else m.attempts + attempts
        self._start()
        m.more.set()
        m.hurry.set()
        while True:
            # Another process may have sent one of them.
            names = {name for name in names if name in m.own and self.settings.spool.waits(name)}
            if not names:
                return True
            left = None if deadline is None else deadline - time.monotonic()
            if (left is not None and left <= 0) or (last is not None and m.attempts >= last) or self._closed:
                return False
            self._wait(lambda: not names <= m.own or (last is not None and m.attempts >= last), 0.2 if left is None else min(left, 0.2))

    def close(self, timeout: float) -> bool:
        """Tries for a time to send everything, and ends. Without an answer it gives up after one attempt; the rest stays in the spool."""
        if self._closed:
            return True
        done = self.flush(timeout, 1)
        self.end()
        return done

    def end(self) -> None:
        """Ends at once. What is queued goes to the spool."""
        m = self._m
        if self._closed:
            return
        self._closed = True
        m.wake.put(_END)
        m.ending.set()
        m.more.set()
        m.hurry.set()
        writer = m.writer
        if writer is not None and writer is not threading.current_thread():
            writer.join(5.0)  # a disk can take long, but the end of a process cannot wait for ever
        self._write_rest()
        self.settings.spool.close()
        self.settings.connection.close()
        self._changed()

    def start(self) -> None:
        """Begins to send what is in the spool."""
        self._m.more.set()
        self._start()

    def warn(self, name: str, message: str) -> None:
        """Writes a warning, at most once a minute for each name."""
        m, now = self._m, time.monotonic()
        if now - m.warned.get(name, -_WARN_EVERY) < _WARN_EVERY:
            return
        if len(m.warned) > 100:
            m.warned.clear()
        m.warned[name] = now
        # A logger of the caller must not stop records.
        with contextlib.suppress(Exception):
            self.settings.warn(one_line(f"colophon: {message}"))

    def _start(self) -> None:
        m = self._m
        with m.lock:
            if m.starting or m.writer is not None or self._closed:
                return  # a finalizer can come here while threads are being started
            m.starting = True
            writer = threading.Thread(target=self._write, args=(m,), name="colophon-writer", daemon=True)
            sender = threading.Thread(target=self._send, args=(m,), name="colophon-sender", daemon=True)
            try:
                writer.start()
                m.writer = writer
                sender.start()
                m.sender = sender
            except RuntimeError as error:  # the interpreter is shutting down, or the system has no more threads
                self.warn("threads", f"no thread can be started; records are written by the threads that make them: {error}")
            finally:
                m.starting = False
        if m.writer is None:
            self._write_rest()
            return
        self._finalize_in_child()

    def _finalize_in_child(self) -> None:
        # A child of multiprocessing ends without atexit.
        process = sys.modules.get("multiprocessing.process")
        util = sys.modules.get("multiprocessing.util")
        if process is not None and util is not None and process.parent_process() is not None:
            util.Finalize(None, self.close, args=(2.0,), exitpriority=0)

    # The writer.

    def _write(self, m: _Mutable) -> None:
        ended = False
        while not ended:
            ended = self._gather(m)
            m.roused = m.pressed = False
            try:
                self._write_queue(m)
            except Exception as error:
                self.warn("bug", f"unexpected error while records are written: {error!r}")

    def _gather(self, m: _Mutable) -> bool:
        """Waits for items, and then for others to write with them. It reports whether the recorder ends."""
        token = m.wake.get()
        deadline = time.monotonic() + self.settings.flush_interval
        while token == _ORDINARY:
            try:
                token = m.wake.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
        return token == _END

    def _write_queue(self, m: _Mutable) -> None:
        while True:
            with m.lock:
                items, m.queue = m.queue, []
            if not items:
                return
            size = sum(len(item) if isinstance(item, bytes) else item.size for item in items)
            lines = m.under_way = self._resolve(items)
            while m.under_way:
                try:
                    name = self.settings.spool.append(lines)
                except Exception as error:
                    if self._closed:
                        return  # _write_rest has them
                    if isinstance(error, SpoolFullError):
                        self.warn("spool", f"{error}; records stay in memory until there is room")
                    else:
                        self.warn("disk", f"records cannot be written to {self.settings.spool.folder} and stay in memory: {error!r}")
                    with contextlib.suppress(queue.Empty):
                        if m.wake.get(timeout=1.0) == _END:
                            m.wake.put(_END)
                    continue
                with m.lock:
                    m.own.add(name)
                    m.under_way = []
            self._written(m, len(items), len(lines), size)
            m.more.set()

    def _resolve(self, items: list[Item]) -> list[bytes]:
        lines = []
        for item in items:
            if isinstance(item, bytes):
                lines.append(item)
                continue
            try:
                lines.append(item.line())
            except Exception as error:
                self.count("invalid")
                self.warn("invalid", f"something is not recorded: {error}" if isinstance(error, ColophonError) else f"something is not recorded: {error!r}")
        return lines

    def _written(self, m: _Mutable, items: int, lines: int, size: int) -> None:
        with m.lock:
            m.queued_bytes -= size
            m.finished += items
            m.stats.spooled += lines
        self._changed()

    def _write_rest(self) -> None:
        """At the end of the process: writes without waiting. Lines that another thread writes now are written again, which is harmless."""
        m = self._m
        with m.lock:
            items, m.queue = m.queue, []
            lines, m.under_way = m.under_way, []
        count = len(lines) + len(items)
        lines = lines + self._resolve(items)
        if not lines:
            return
        try:
            name = self.settings.spool.append_now(lines)
        except Exception as error:
            with m.lock:
                m.stats.dropped += len(lines)
                m.finished += count
            self.warn("lost", f"{len(lines)} records cannot be written to {self.settings.spool.folder} and are lost: {error!r}")
            return
        with m.lock:
            if self._closed:
                m.own.add(name)  # nothing here sends it, so flush says that it is not answered
            m.queued_bytes = 0
            m.finished += count
            m.stats.spooled += len(lines)

    # The sender.

    def _send(self, m: _Mutable) -> None:
        folder = self.settings.spool.folder
        failed: list[tuple[float, Segment]] = []  # segments that are not sent before a time
        while not self._closed:
            while failed and failed[0][0] <= time.monotonic():
                failed.pop(0)[1].release()
            m.more.clear()
            try:
                segment = self.settings.spool.take()
            except Exception as error:
                if self._closed:
                    return
                self.warn("read", f"{folder} cannot be read: {error!r}")
                m.more.wait(1.0)
                continue
            if segment is None:
                m.more.wait(_SCAN)
                continue
            try:
                self._send_segment(m, segment)
            except Exception as error:
                if self._closed:
                    return
                self.warn("segment", f"{segment.name} in {folder} cannot be read or deleted, and is tried again in {_SCAN:.0f} s: {error!r}")
                failed.append((time.monotonic() + _SCAN, segment))  # until then, the others are sent
            else:
                segment.release()

    def _send_segment(self, m: _Mutable, segment: Segment) -> None:
        """Sends a segment until each of its lines has an answer."""
        pending = [_Sent(line) for line in segment.lines()]
        most, failures = len(pending), 0
        while pending:
            if self._closed:
                return
            part = pending[:most]
            settled, failure = self._post(m, part)
            pending = [sent for sent in pending if id(sent) not in settled]
            m.stats.last_error = "" if failure is None else str(failure)
            if settled and pending:
                segment.advance(pending[0].line.start)
            if failure is None:
                failures = 0
                continue
            if isinstance(failure, LedgerError) and failure.status == 413:  # a proxy limits the length of requests
                if len(part) == 1:
                    self._reject(pending.pop(0).line.text, failure.status, failure.reason)
                else:
                    most = (len(part) + 1) // 2
                continue
            m.attempts += 1
            self._changed()
            failures = 1 if settled else failures + 1
            wait = min(_FIRST_PAUSE * 2 ** min(failures - 1, 20), _LONGEST_PAUSE)
            stated = min(failure.retry_after, _LONGEST_RETRY_AFTER) if isinstance(failure, LedgerError) else 0.0
            pause = max(random.uniform(wait / 2, wait), stated)
            self.warn("ledger", f"{failure}; records wait in {self.settings.spool.folder}, next attempt in {pause:.1f} s")
            m.hurry.clear()
            if not m.ending.wait(stated):
                m.hurry.wait(pause - stated)
        segment.remove()
        with m.lock:
            m.own.discard(segment.name)
        self._changed()

    def _post(self, m: _Mutable, part: list[_Sent]) -> tuple[set[int], LedgerError | UnreachableError | None]:
        settled: set[int] = set()
        headers = {"Content-Type": "application/x-ndjson", "Prefer": "return=representation" if self.settings.keys else "return=minimal"}
        try:
            text = self.settings.connection.call("POST", self.settings.path, b"".join(sent.line.text + b"\n" for sent in part), headers)
            answers = [line for line in text.split("\n") if line]
            failure: LedgerError | UnreachableError | None = None
            for at, answer in enumerate(answers):
                read = json.loads(answer)
                must(isinstance(read, dict), "malformed", "an answer is not an object")
                if at >= len(part):  # about the body as a whole
                    if isinstance(read.get("status"), int):
                        failure = _problem(read)
                    break
                if failure is not None and isinstance(read.get("status"), int):
                    continue  # it may be due to the earlier line, which waits: only receipts count
                if self._settle(m, part[at], answer, read):
                    settled.add(id(part[at]))
                else:
                    failure = _problem(read)
            if failure is None and len(answers) < len(part):
                failure = UnreachableError(f"the server answered {len(answers)} of {len(part)} lines")
            return settled, failure
        except (LedgerError, UnreachableError) as error:
            return settled, error
        except Exception as error:
            return settled, UnreachableError(f"the answer cannot be read: {error!r}")

    def _settle(self, m: _Mutable, sent: _Sent, text: str, answer: dict[str, Any]) -> bool:
        """Takes the answer to a line, and reports whether the line is done with."""
        status = answer.get("status")
        if isinstance(status, int):
            if status in TEMPORARY or (status in _HOLD and status != 404):
                return False
            sent.errors += status >= 500
            if status >= 500 and sent.errors < _SERVER_ERRORS:
                return False
            self._reject(sent.line.text, status, reason_of(answer))
            return True
        must(isinstance(answer.get("seq"), int) and isinstance(answer.get("event_hash"), str), "malformed", "an answer is neither a receipt nor a problem")
        with m.lock:
            m.stats.recorded += 1
            m.stats.replayed += answer.get("replayed") is True
        if self.settings.keys:
            try:
                verify_answer(sent.line.text.decode(), text, self.settings.keys)
            except VerificationError as error:
                self.count("unverified")
                place = f"event {answer['seq']}"
                self.warn("receipt", f"the receipt of {place} does not verify: {error}; {self.settings.spool.folder} keeps it")
                self._keep(sent.line.text, 200, f"recorded as {place}, but its receipt does not verify: {error}; receipt: {text}")
                return True
        if self.settings.on_receipt is not None:
            try:
                self.settings.on_receipt(answer, text)  # type: ignore[arg-type]
            except Exception as error:
                self.warn("on_receipt", f"on_receipt failed for event {answer['seq']}: {error!r}")
        return True

    def _reject(self, line: bytes, status: int, reason: str) -> None:
        self.count("rejected")
        self.warn(f"rejected {status}", f"the ledger refuses a record with {status}: {reason}; {self.settings.spool.folder} keeps it")
        self._keep(line, status, reason)

    def _keep(self, line: bytes, status: int, reason: str) -> None:
        folder = self.settings.spool.folder
        try:
            if not self.settings.spool.reject(line, status, reason):
                self.warn("rejected full", f"there is no room for refused records in {folder}; they are not kept any more")
        except (OSError, ColophonError) as error:
            self.warn("rejected", f"a refused record cannot be written to {folder}: {error!r}")

    # Waiting.

    def _changed(self) -> None:
        with self._m.done:
            self._m.done.notify_all()

    def _wait(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        with self._m.done:
            self._m.done.wait_for(lambda: condition() or self._closed, timeout)
            return condition()


def _problem(answer: dict[str, Any]) -> LedgerError:
    return LedgerError("a line of a batch", int(answer["status"]), reason_of(answer), 0.0, answer)


def verify_answer(line: str, receipt: str, keys: list[VerifierKey]) -> None:
    """Verifies a receipt, and that its event has the kind and the idempotency key, or the run_id, that were sent. It does not compare the
    rest of the record."""
    event = require_verified(receipt, keys).event
    sent = parse(line)
    must(event is not None and isinstance(sent, dict) and isinstance(sent.get("record"), dict), "malformed", "the line is not a record")
    assert event is not None
    kind, key, run = sent.get("kind"), sent.get("idempotency_key"), sent["record"].get("run_id")
    must(event["kind"] == kind, "field", f"the event is of kind {event['kind']}, but the request was of another")
    digest = hashes.idempotency_key_digest(key) if isinstance(key, str) else hashes.run_key_digest(str(kind), run) if isinstance(run, str) else None
    must(digest in (None, event["record"].get("idempotency_key")), "field", "the event's idempotency key is not that of the request")
