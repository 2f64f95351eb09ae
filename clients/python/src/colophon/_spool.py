"""A folder of records that wait for the ledger.

Records are lines of POST /batch in segments: files to which one process appends. The owner of a segment is part of its name. An owner
holds a lock on a file of its own for as long as it lives: the kernel takes the lock away when the process ends, however it ends. A
process that gets the lock of another owner therefore knows that it is dead, and renames its segments to its own.

Beside a segment, a cursor file has the number of bytes that the ledger has answered. It may be lost: a record that is sent twice is
recorded once, by its key.

The folder may be shared with the TypeScript client, whose segments have other names. Each client sends its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from .errors import SpoolError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

SEGMENT_BYTES = 4 << 20  # a segment is sealed at this size; one request sends it
MAX_REJECTED_BYTES = 64 << 20  # of all files of refused records
_segment = re.compile(r"python-(\d{15})-([0-9a-f]{16})-(\d{6})\.ndjson")
_lock_file = re.compile(r"\.python-([0-9a-f]{16})\.lock")


class SpoolFullError(SpoolError):
    """The folder has as many bytes as it may have."""


def _try_lock(fd: int) -> bool:
    """Takes the lock of a file that is open, and reports whether nothing else holds it."""
    try:
        if fcntl is not None:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            import msvcrt  # pragma: no cover

            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    except (BlockingIOError, PermissionError):
        return False
    return True


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _same_file(path: str, fd: int) -> bool:
    try:
        named, opened = os.stat(path), os.fstat(fd)
    except FileNotFoundError:
        return False
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)


_sync = getattr(os, "fdatasync", os.fsync)


@dataclass
class _Current:
    fd: int
    name: str
    size: int = 0


@dataclass(frozen=True)
class Line:
    text: bytes  # without the line end
    start: int  # its place in the segment


class Segment:
    """Lines that are sent and deleted together. It belongs to this process until it is removed or released."""

    def __init__(self, spool: Spool, name: str) -> None:
        self._spool = spool
        self.name = name

    def lines(self) -> list[Line]:
        """Returns the complete lines that the ledger has not answered. The end of a segment whose process died while it was writing is
        left out: it was never synced."""
        try:
            with open(self._spool.path(self.name), "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return []
        found, at = [], 0
        for text in data.split(b"\n")[:-1]:
            if text:
                found.append(Line(text, at))
            at += len(text) + 1
        begin = self._cursor()
        return [line for line in found if line.start >= begin]

    def _cursor(self) -> int:
        try:
            with open(self._spool.cursor(self.name), "rb") as file:
                return int(file.read(20))
        except (OSError, ValueError):
            return 0

    def advance(self, to: int) -> None:
        """Remembers that the ledger has answered everything before a place. Without it, these lines are only sent again."""
        path = self._spool.cursor(self.name)
        with contextlib.suppress(OSError):
            with open(path + ".new", "wb") as file:
                file.write(str(to).encode())
            os.replace(path + ".new", path)

    def remove(self) -> None:
        """Deletes the segment, whose records the ledger has."""
        # The cursor first: a process that ends when the segment is gone would leave the cursor for ever. One that ends in between
        # sends the records again, and notes refused ones again.
        for path in self._spool.cursor(self.name), self._spool.path(self.name):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        self.release()

    def release(self) -> None:
        """Leaves the segment to be taken again."""
        self._spool.taken.discard(self.name)


class Spool:
    """Several threads can use it. After a fork, call abandon in the child."""

    def __init__(self, folder: str, max_bytes: int) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self.taken: set[str] = set()
        self._mutex = threading.RLock()
        self._owner = ""
        self._lock_fd = -1
        self._current: _Current | None = None
        self._numbered = 0
        self._latest = 0  # milliseconds in the name of the last segment
        self._total = 0  # bytes of all segments when last counted, and what was appended since
        self._closed = False
        try:
            with self._alone():
                pass
        except OSError as error:
            raise SpoolError(f"the spool folder {folder} cannot be used: {error.strerror or error}; set spool, or COLOPHON_SPOOL, "
                             "to a folder on a local disk that this process can write") from error

    # Writing.

    def append(self, lines: Sequence[bytes]) -> str:
        """Keeps lines, and returns the name of their segment. They then survive a crash of the process and a loss of power."""
        data = b"\n".join(lines) + b"\n"
        with self._alone():
            self._require_room(len(data))
            while True:
                current = self._current or self._create()
                try:
                    _write_all(current.fd, data)
                    _sync(current.fd)
                except BaseException:
                    # Nothing is certain about these lines. If they stay, the last one is torn, so nothing may follow it.
                    with contextlib.suppress(OSError):
                        os.ftruncate(current.fd, current.size)
                    self._seal()
                    raise
                current.size += len(data)
                self._total += len(data)
                own = _same_file(self.path(current.name), current.fd)
                if not own or current.size >= SEGMENT_BYTES:
                    self._seal()
                if own:
                    return current.name
                # The folder was deleted: the lines are written again.

    def append_now(self, lines: Sequence[bytes]) -> str:
        """Does the same at the end of the process, in a segment of its own, without waiting for other threads."""
        owner = self._owner or secrets.token_hex(8)  # without a lock, it belongs to a dead process at once
        name = f"python-{time.time_ns() // 1_000_000:015d}-{owner}-{secrets.randbelow(10**6):06d}.ndjson"
        hidden = self.path("." + name)
        data = b"\n".join(lines) + b"\n"
        self._require_room(len(data))
        fd = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        try:
            _write_all(fd, data)
            os.fsync(fd)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(hidden)
            raise
        finally:
            os.close(fd)
        os.replace(hidden, self.path(name))
        with contextlib.suppress(OSError):  # the file is there, and only a power failure could lose its name
            self._sync_folder()
        return name

    def reject(self, line: bytes, status: int, reason: str) -> bool:
        """Keeps a line that the ledger refuses, with the reason. It reports whether there was room."""
        text = line.decode("utf-8", "replace")
        try:
            json.loads(text)  # JSON stays as it is: another writer changes numbers
        except (ValueError, RecursionError):
            text = json.dumps(text)
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        entry = f'{json.dumps({"time": now, "status": status, "reason": reason})[:-1]}, "line": {text}}}\n'.encode()
        with self._alone():
            names = [n for n in os.listdir(self.folder) if n.startswith("rejected-python-")]
            if self._size_of(names) + len(entry) > MAX_REJECTED_BYTES:
                return False
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
            fd = os.open(self.path(f"rejected-python-{self._owner}.ndjson"), flags, 0o600)
            try:
                _write_all(fd, entry)
                _sync(fd)
            finally:
                os.close(fd)
        return True

    # Reading.

    def take(self) -> Segment | None:
        """Takes the oldest segment that this process may send and does not send yet, or returns None."""
        with self._alone():
            living: set[str] = set()
            for name in self._segments():
                if name in self.taken:
                    continue
                owner = _segment.fullmatch(name)[2]  # type: ignore[index]
                if owner == self._owner:
                    if self._current is None or name != self._current.name:
                        return self._take(name)
                elif owner not in living:
                    adopted: list[str] = []
                    with contextlib.suppress(OSError):  # of another user, perhaps
                        adopted = self._adopt(owner)
                    if adopted:
                        return self._take(adopted[0])
                    living.add(owner)
            current = self._current
            if current is None or current.size == 0:
                return None
            self._seal()
            return self._take(current.name)

    def waits(self, name: str) -> bool:
        """Reports whether a segment still exists."""
        return os.path.exists(self.path(name))

    def bytes(self) -> int:
        """Counts the bytes that wait, of all processes."""
        return self._size_of(self._segments())

    # The life of this process.

    def close(self) -> None:
        """Gives up the folder. What waits is sent by another process, or at the next start."""
        with self._mutex:
            self._closed = True
            self._seal()
            if self._lock_fd >= 0:
                with contextlib.suppress(OSError):
                    os.unlink(self._lock_path(self._owner))
                os.close(self._lock_fd)
                self._lock_fd, self._owner = -1, ""

    def abandon(self) -> None:
        """In the child of a fork: leaves files and lock to the parent."""
        self._mutex = threading.RLock()
        # Closing the descriptors of the child leaves the lock with the parent.
        for fd in (self._current.fd if self._current else -1, self._lock_fd):
            if fd >= 0:
                with contextlib.suppress(OSError):
                    os.close(fd)
        self._current, self._lock_fd, self._owner, self.taken = None, -1, "", set()

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def cursor(self, name: str) -> str:
        return self.path(f".{name}.cursor")

    def _lock_path(self, owner: str) -> str:
        return self.path(f".python-{owner}.lock")

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One thread at a time, with a lock file of this process."""
        with self._mutex:
            if self._closed:
                raise SpoolError(f"the spool folder {self.folder} is closed")
            while not self._owner:
                self._become_owner()
            yield

    def _become_owner(self) -> None:
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        owner = secrets.token_hex(8)
        fd = os.open(self._lock_path(owner), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(fd, str(os.getpid()).encode())  # for people
            # Another process may have taken it for the file of a dead one before it was locked.
            if _try_lock(fd) and _same_file(self._lock_path(owner), fd):
                self._owner, self._lock_fd = owner, fd
        finally:
            if self._lock_fd != fd:
                os.close(fd)

    def _segments(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self.folder) if _segment.fullmatch(name))
        except FileNotFoundError:
            return []

    def _size_of(self, names: Sequence[str]) -> int:
        total = 0
        for name in names:
            with contextlib.suppress(OSError):
                total += os.path.getsize(self.path(name))
        return total

    def _require_room(self, more: int) -> None:
        if self._total + more > self.max_bytes:
            self._total = self.bytes()
        if self._total + more > self.max_bytes:
            raise SpoolFullError(f"the spool folder {self.folder} has {self._total} bytes of {self.max_bytes}")

    def _name(self, milliseconds: int) -> str:
        self._numbered = (self._numbered + 1) % 10**6
        return f"python-{milliseconds:015d}-{self._owner}-{self._numbered:06d}.ndjson"

    def _create(self) -> _Current:
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        # Never before the last one, even if the clock was set back: segments are sent in the order of their names.
        self._latest = max(self._latest, time.time_ns() // 1_000_000)
        name = self._name(self._latest)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self._current = _Current(os.open(self.path(name), flags, 0o600), name)
        self._sync_folder()
        self._total = self.bytes()
        return self._current

    def _sync_folder(self) -> None:
        if os.name == "nt":
            return
        fd = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def _seal(self) -> None:
        current, self._current = self._current, None
        if current is not None:
            os.close(current.fd)

    def _take(self, name: str) -> Segment:
        self.taken.add(name)
        return Segment(self, name)

    def _adopt(self, owner: str) -> list[str]:
        """Makes the segments of an owner this process's own, if the owner is dead. It returns their new names."""
        path = self._lock_path(owner)
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not _try_lock(fd):
                return []
            adopted = []
            for name in self._segments():
                found = _segment.fullmatch(name)
                if found is None or found[2] != owner:
                    continue
                own = self._name(int(found[1]))
                with contextlib.suppress(FileNotFoundError):
                    os.replace(self.cursor(name), self.cursor(own))
                with contextlib.suppress(FileNotFoundError):
                    os.replace(self.path(name), self.path(own))
                    adopted.append(own)
            with contextlib.suppress(OSError):
                os.unlink(path)
            self._tidy()
            return sorted(adopted)
        finally:
            os.close(fd)

    def _tidy(self) -> None:
        """Removes the lock files of dead owners without segments."""
        names = os.listdir(self.folder)
        owners = {found[2] for found in map(_segment.fullmatch, names) if found}
        for name in names:
            found = _lock_file.fullmatch(name)
            if found is None or found[1] in owners or found[1] == self._owner:
                continue
            with contextlib.suppress(OSError):
                fd = os.open(self.path(name), os.O_RDWR)
                try:
                    if _try_lock(fd):
                        os.unlink(self.path(name))
                finally:
                    os.close(fd)
