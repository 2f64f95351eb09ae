"""Generations in progress, and the labels of the present context."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from ._encode import Copy, copy_leniently, restore_json
from ._json import has_lone_surrogate
from .chat import split_instructions

if TYPE_CHECKING:
    from .ledger import Ledger

_LONGEST_LABEL = 128  # bytes
_MOST_LABELS = 32

F = TypeVar("F", bound=Callable[..., Any])

_context: contextvars.ContextVar[Mapping[str, str]] = contextvars.ContextVar("colophon_labels", default={})


@contextlib.contextmanager
def labels(**given: str) -> Iterator[None]:
    """Adds labels to all generations that begin inside, also in asyncio tasks that begin there.

    Labels stay in the log for ever: put no personal data into them."""
    token = _context.set({**_context.get(), **given})
    try:
        yield
    finally:
        _context.reset(token)


def context_labels() -> Mapping[str, str]:
    return _context.get()


def rfc3339(at: int) -> str:
    """Returns a time in nanoseconds since 1970 as the ledger takes it."""
    # Not strftime, which imports a module and so fails at the end of the interpreter.
    second = datetime.fromtimestamp(at // 1_000_000_000, timezone.utc).isoformat()
    return f"{second[:19]}.{at // 1_000_000 % 1000:03d}Z"


def clip(text: object) -> str:
    """Returns as much of a text as a label can have."""
    data = str(text).encode("utf-8", "replace")
    return data[:_LONGEST_LABEL].decode("utf-8", "ignore")


def require_key(key: object) -> None:
    """Raises a ValueError for an idempotency key with which the ledger would record something twice. None is no key."""
    if key is None:
        return
    if not isinstance(key, str) or not key.strip():
        raise ValueError("key must be a text that is not empty or blank, because the ledger ignores such a key; leave it out for a random one")
    if has_lone_surrogate(key):
        raise ValueError("key must be Unicode text, but it has a lone surrogate; give another key, or leave it out for a random one")


Build = Callable[[], Mapping[str, Any]]


class Generation:
    """One generation in progress: a context manager, for with and for async with.

    Its members can be set until it ends. What is given at the beginning is copied at once. Nothing that goes wrong with the record reaches
    the caller: it is logged. An exception inside is recorded as the label "error", without output unless it was set, and goes on."""

    def __init__(self, ledger: Ledger, fields: Mapping[str, Any] | None = None) -> None:
        self._ledger = ledger
        self._began = copy_leniently({n: v for n, v in (fields or {}).items() if n != "labels" and v is not None})
        self._later: list[Build] = []
        self._started = time.time_ns()
        self._begun = time.monotonic()
        self._ended = False
        self.fields: dict[str, Any] = {}  # members of the IPC record, in place of those from the beginning
        self.labels: dict[str, Any] = {**context_labels(), **((fields or {}).get("labels") or {})}
        self.duration: float | None = None  # seconds, in place of the time until the end
        self.key: str | None = None  # an idempotency key, in place of a random one

    @property
    def output(self) -> str | None:
        found = self.fields.get("output")
        return found if isinstance(found, str) else None

    @output.setter
    def output(self, text: str | None) -> None:
        self.fields["output"] = text

    def set(self, **fields: Any) -> None:
        """Sets members of the IPC record; labels are added to those that are there."""
        self.labels.update(fields.pop("labels", None) or {})
        self.fields.update(fields)

    def set_later(self, build: Build) -> None:
        """Has members computed in the background, from what build has copied. It may return labels too."""
        self._later.append(build)

    def end(self, error: BaseException | None = None) -> None:
        """Records the generation. Later calls do nothing."""
        if self._ended:
            return
        self._ended = True
        try:
            if error is not None:
                self.labels["error"] = type(error).__name__
            seconds = time.monotonic() - self._begun if self.duration is None else self.duration
            key = self.key
            try:
                require_key(key)
            except ValueError as refused:
                self._ledger.warn(f"a generation gets a random key: {refused}")
                key = None
            changed = copy_leniently(self.fields)
            record = _Record(self._ledger, self._began, changed, self._later, dict(self.labels), self._started, round(seconds * 1000), key)
            self._ledger._put(record)
        except Exception as failure:
            self._ledger.warn(f"a generation was not recorded: {failure!r}")

    def __enter__(self) -> Generation:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end(error)

    async def __aenter__(self) -> Generation:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end(error)


class _Record:
    """The snapshot of a generation, whose line is made in the background (Deferred)."""

    def __init__(self, ledger: Ledger, began: Copy, changed: Copy, later: list[Build], labels: dict[str, Any], started: int, duration: int,
                 key: str | None) -> None:
        self.size = len(began) + len(changed) + sum(getattr(build, "size", 500) for build in later) + 500
        self._ledger, self._began, self._changed, self._later, self._labels = ledger, began, changed, later, labels
        self._started, self._duration = started, duration
        self._key = ledger._next_key() if key is None else key  # now, so that it is the same however often the record is sent
        self._producer = ledger.next_producer() if key is None else None

    def line(self) -> bytes:
        fields, labels = restore_json(self._began), {}
        for build in self._later:
            try:
                built = dict(build())
            except Exception as error:
                self._ledger.warn(f"a call was not recorded as it should: {error!r}")
                labels["colophon"] = "incomplete"
                continue
            labels.update(built.pop("labels", None) or {})
            fields.update(built)
        fields.update(restore_json(self._changed))
        labels.update(self._labels)
        usage = fields.get("usage")
        record = {"timestamp": rfc3339(self._started), **{n: v for n, v in fields.items() if v is not None}}
        record["usage"] = {"duration_ms": self._duration, **(usage if isinstance(usage, dict) else {})}
        if not isinstance(record.get("model"), str) or not record["model"]:
            record["model"] = "unknown"
        if "payload" not in record and "input_hash" not in record:
            record["payload"] = {}
        if self._producer is not None:
            record.setdefault("producer", self._producer)
        labels = {**self._ledger.labels, **labels}
        clipped = {clip(name): clip(value) for name, value in labels.items() if name and value is not None}
        if clipped:
            record["labels"] = dict(list(clipped.items())[:_MOST_LABELS])
        return self._ledger._generated_line(record, self._key)


# Arguments with these names and types are conditions of a generation, so they are fields of the record and not part of its input.
_CONDITIONS: dict[str, tuple[type, ...]] = {
    "system_prompt": (str,), "model": (str,), "temperature": (int, float), "max_tokens": (int,), "seed": (int,),
}


def _arguments(signature: inspect.Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    if signature is None:
        return {"args": list(args), **kwargs}
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return {"args": list(args), **kwargs}  # the call raises it
    bound.apply_defaults()
    return {name: value for name, value in bound.arguments.items() if name not in ("self", "cls")}


class _Chunks:
    """The texts that a generator yields, until it ends or is left."""

    def __init__(self, generation: Generation) -> None:
        self.generation = generation
        self.texts: list[str] = []

    def add(self, chunk: Any) -> None:
        if isinstance(chunk, str):
            self.texts.append(chunk)

    def end(self, error: BaseException | None) -> None:
        if isinstance(error, GeneratorExit):
            self.generation.labels["stream"] = "interrupted"
            error = None
        if self.texts and self.generation.output is None:
            self.generation.output = "".join(self.texts)
        self.generation.end(error)


def recorded(ledger: Ledger, fields: Mapping[str, Any]) -> Callable[[F], F]:
    """See Ledger.recorded."""

    def decorate(function: F) -> F:
        try:
            signature: inspect.Signature | None = inspect.signature(function)
        except (TypeError, ValueError):
            signature = None

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Generation:
            given = dict(fields)
            if "payload" not in given and "input_hash" not in given:
                given["payload"] = payload = _arguments(signature, args, kwargs)
                for name, kinds in _CONDITIONS.items():
                    if name in payload and name not in given and isinstance(payload[name], kinds) and not isinstance(payload[name], bool):
                        given[name] = payload.pop(name)
                if "system_prompt" not in given and isinstance(payload.get("messages"), list):
                    try:
                        system_prompt, others = split_instructions(payload["messages"])
                    except Exception:  # not a chat; the payload stays as it is
                        system_prompt = None
                    if system_prompt is not None:
                        given["system_prompt"], payload["messages"] = system_prompt, others
            return Generation(ledger, given)

        def finish(generation: Generation, result: Any) -> None:
            if isinstance(result, str) and generation.output is None:
                generation.output = result
            generation.end()

        if inspect.isasyncgenfunction(function):
            @functools.wraps(function)
            async def yielding_async(*args: Any, **kwargs: Any) -> Any:
                chunks = _Chunks(begin(args, kwargs))
                inner = function(*args, **kwargs)
                try:
                    async for chunk in inner:
                        chunks.add(chunk)
                        yield chunk
                except BaseException as error:
                    await inner.aclose()
                    chunks.end(error)
                    raise
                chunks.end(None)
            wrapper: Any = yielding_async
        elif inspect.isgeneratorfunction(function):
            @functools.wraps(function)
            def yielding(*args: Any, **kwargs: Any) -> Any:
                chunks = _Chunks(begin(args, kwargs))

                def pass_on() -> Any:
                    inner = function(*args, **kwargs)
                    value: Any = None
                    try:
                        chunk = next(inner)
                        while True:
                            chunks.add(chunk)
                            try:
                                value = yield chunk
                            except GeneratorExit:
                                inner.close()
                                raise
                            except BaseException as thrown:
                                chunk = inner.throw(thrown)
                            else:
                                chunk = inner.send(value)
                    except StopIteration as stop:
                        return stop.value

                try:
                    result = yield from pass_on()
                except BaseException as error:
                    chunks.end(error)
                    raise
                chunks.end(None)
                return result
            wrapper = yielding
        elif inspect.iscoroutinefunction(function):
            @functools.wraps(function)
            async def asynchronous(*args: Any, **kwargs: Any) -> Any:
                generation = begin(args, kwargs)
                try:
                    result = await function(*args, **kwargs)
                except BaseException as error:
                    generation.end(error)
                    raise
                finish(generation, result)
                return result
            wrapper = asynchronous
        else:
            @functools.wraps(function)
            def synchronous(*args: Any, **kwargs: Any) -> Any:
                generation = begin(args, kwargs)
                try:
                    result = function(*args, **kwargs)
                except BaseException as error:
                    generation.end(error)
                    raise
                finish(generation, result)
                return result
            wrapper = synchronous
        return wrapper  # type: ignore[no-any-return]

    return decorate
