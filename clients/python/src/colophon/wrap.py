"""Clients of OpenAI-style and Anthropic-style APIs that record what they generate.

Nothing here imports those libraries: a client is recognised by the methods that it has, and is not changed. The request is copied before
the call, because callers append to their lists of messages. It is read in the background."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

from ._encode import Copy, copy_answer, copy_leniently, restore_json
from ._generation import Generation
from .chat import READ, Answer, Names, Stream, anthropic_request, completion_request, openai_request, read_answer, responses_request
from .ledger import Ledger

C = TypeVar("C")
Reader = Callable[[Mapping[str, Any], Names], dict[str, Any]]


class _Method:
    def __init__(self, read: Reader, provider: str, operation: str = "chat") -> None:
        self.read, self.provider, self.operation = read, provider, operation


# From the client: the way to each recorded method, and what reads its arguments.
_methods: dict[str, _Method] = {"completions.create": _Method(completion_request, "openai", "text_completion")}
for _prefix in "", "beta.":
    for _name in "create", "parse", "stream":
        _methods[f"{_prefix}chat.completions.{_name}"] = _Method(openai_request, "openai")
        _methods[f"{_prefix}messages.{_name}"] = _Method(anthropic_request, "anthropic")
        _methods[f"{_prefix}responses.{_name}"] = _Method(responses_request, "openai")
_ways = {".".join(way.split(".")[:n]) for way in _methods for n in range(1, way.count(".") + 1)}
_ABSENT = frozenset({"NotGiven", "Omit"})  # the libraries' words for arguments that are not given
_FINAL = frozenset({"get_final_completion", "get_final_message", "get_final_response"})  # methods of stream helpers that return the answer


def wrap(client: C, ledger: Ledger, *, fields: Mapping[str, Any] | None = None, provider: str | None = None) -> C:
    """Returns a client that behaves as the given one, and records each generation in the ledger: chat.completions, completions, responses,
    and messages, also as streams, sync and async. Everything else is passed on, also with_raw_response, which is not recorded.

    fields are members of every record, such as labels. provider is a label (default: "openai" or "anthropic", by the API).

    A generation is recorded in the background when its answer has been read. No error of the recording reaches the caller. A stream that is
    left gets the label stream=interrupted; one that is never read is not recorded."""
    if not any(_follow(client, way) for way in _methods):
        raise TypeError("the client has neither chat.completions, completions, responses, nor messages, so there is nothing to record")
    return cast(C, _Proxy(client, "", _Context(ledger, dict(fields or {}), provider)))


def _follow(client: Any, way: str) -> bool:
    for name in way.split("."):
        client = getattr(client, name, None)
    return client is not None


class _Context:
    def __init__(self, ledger: Ledger, fields: dict[str, Any], provider: str | None) -> None:
        self.ledger, self.fields, self.provider = ledger, fields, provider


class _Passing:
    """An object in the place of another, for isinstance too."""

    __slots__ = ("_colophon_inner", "__weakref__")

    def __init__(self, inner: Any) -> None:
        object.__setattr__(self, "_colophon_inner", inner)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # type: ignore[override]
        return type(self._colophon_inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_colophon_inner"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._colophon_inner, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._colophon_inner, name)

    def __dir__(self) -> Any:
        return dir(self._colophon_inner)

    def __repr__(self) -> str:
        return repr(self._colophon_inner)


class _Proxy(_Passing):
    """A client, or a resource of one."""

    __slots__ = ("_colophon_way", "_colophon_context")

    def __init__(self, inner: Any, way: str, context: _Context) -> None:
        super().__init__(inner)
        object.__setattr__(self, "_colophon_way", way)
        object.__setattr__(self, "_colophon_context", context)

    def __getattr__(self, name: str) -> Any:
        value = getattr(object.__getattribute__(self, "_colophon_inner"), name)
        way = f"{self._colophon_way}.{name}".lstrip(".")
        method = _methods.get(way)
        if method is not None and callable(value):
            return _recording(value, method, self._colophon_context)
        if way in _ways:
            return _Proxy(value, way, self._colophon_context)
        if way in ("with_options", "copy") and callable(value):
            return lambda *args, **kwargs: _Proxy(value(*args, **kwargs), "", self._colophon_context)
        return value

    def __enter__(self) -> Any:
        self._colophon_inner.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._colophon_inner.__exit__(*error)

    async def __aenter__(self) -> Any:
        await self._colophon_inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._colophon_inner.__aexit__(*error)


def _recording(function: Callable[..., Any], method: _Method, context: _Context) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        # A list of messages may be an iterator, which can be read only once.
        kwargs = {name: list(value) if name in ("messages", "input") and isinstance(value, Iterator) else value for name, value in kwargs.items()}
        observed = _Observed(context, method, args, kwargs)
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            observed.end(error)
            raise
        return observed.returned(result)

    call.__name__ = getattr(function, "__name__", "call")
    call.__doc__ = getattr(function, "__doc__", None)
    return call


class _Request:
    """A copy of a request, which the background reads. The answer needs the names of its tool calls."""

    def __init__(self, copied: Copy, method: _Method) -> None:
        self.size = len(copied)
        self._copy, self._method = copied, method
        self.names: Names = {}
        self.model: Any = None

    def __call__(self) -> dict[str, Any]:
        fields = self._method.read(restore_json(self._copy), self.names)
        self.model = fields["model"]
        return fields


class _Response:
    """A copy of an answer, which the background reads after the request."""

    def __init__(self, copied: Copy, request: _Request) -> None:
        self.size = len(copied)
        self._copy, self._request = copied, request

    def __call__(self) -> dict[str, Any]:
        return with_model(read_answer(restore_json(self._copy), self._request.names), self._request.model)


def with_model(answer: Answer, asked: Any) -> dict[str, Any]:
    """Returns the fields of an answer, with the model that answered if it is another one than the one that was asked for."""
    digest = " ".join(part for part in ("" if answer.model == asked else answer.model, answer.fingerprint) if part)
    return {**({"environment": {"model_digest": digest}} if digest else {}), **answer.fields}


def is_stream(value: Any, asked: bool) -> bool:
    kind = type(value)
    if hasattr(kind, "__next__") or hasattr(kind, "__anext__"):
        return True
    # A class of answers may be iterable too: over its members.
    plain = isinstance(value, (str, bytes, Mapping)) or hasattr(kind, "model_dump") or hasattr(value, "choices") or hasattr(value, "content")
    return asked and not plain and (hasattr(kind, "__iter__") or hasattr(kind, "__aiter__"))


class _Observed:
    """One call. No method raises."""

    def __init__(self, context: _Context, method: _Method, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.ledger = context.ledger
        self.generation: Generation | None = None
        self.asked = False
        try:
            given: dict[str, Any] = {}
            for source in (*args[:1], kwargs.get("extra_body"), kwargs):
                if isinstance(source, Mapping):
                    given.update(source)
            self.asked = given.get("stream") is True
            request = {name: value for name, value in given.items() if name in READ and value is not None and type(value).__name__ not in _ABSENT}
            self.request = _Request(copy_leniently(request), method)
            labels = {"provider": context.provider or method.provider, "operation": method.operation, **(context.fields.get("labels") or {})}
            generation = Generation(self.ledger, {**context.fields, "labels": labels})
            generation.set_later(self.request)
            self.generation = generation
        except Exception as error:
            self._warn(error)

    def returned(self, result: Any) -> Any:
        """The call has returned. It returns what the caller gets: the library's own object, except for streams."""
        if self.generation is None:
            return result
        if inspect.isawaitable(result):
            return self._awaited(result)
        return self._answered(result)

    async def _awaited(self, result: Any) -> Any:
        try:
            answer = await result
        except BaseException as error:
            self.end(error)
            raise
        return self._answered(answer)

    def _answered(self, answer: Any) -> Any:
        try:
            if hasattr(type(answer), "__enter__") and not hasattr(type(answer), "__next__") and not hasattr(type(answer), "model_dump"):
                return _Manager(answer, self)
            if hasattr(type(answer), "__aenter__") and not hasattr(type(answer), "__anext__") and not hasattr(type(answer), "model_dump"):
                return _AsyncManager(answer, self)
            if is_stream(answer, self.asked):
                return watch(answer, self)
            self.take(answer)
            self.end()
        except Exception as error:
            self._warn(error)
        return answer

    def take(self, answer: Any) -> None:
        if self.generation is not None:
            self.generation.set_later(_Response(copy_answer(answer), self.request))

    def end(self, error: BaseException | None = None) -> None:
        if self.generation is not None:
            self.generation.end(error)

    def _warn(self, error: BaseException) -> None:
        self.ledger.warn(f"a call was not recorded as it should: {error!r}")


class _Watched:
    """What a stream has said. It records once, when the stream ends, is closed, or is forgotten."""

    def __init__(self, observed: _Observed, inner: Any) -> None:
        self.observed = observed
        self.inner = inner
        self.stream = Stream()
        self.done = False

    def chunk(self, chunk: Any) -> None:
        try:
            self.stream.add(chunk)
        except Exception as error:
            self.observed._warn(error)

    def whole(self, answer: Any) -> None:
        """A helper of the library has returned the whole answer."""
        if self.done:
            return
        self.done = True
        try:
            self.observed.take(answer)
        except Exception as error:
            self.observed._warn(error)
        self.observed.end()

    def end(self, error: BaseException | None = None, *, left: bool = False) -> None:
        if self.done:
            return
        self.done = True
        try:
            answer, seen = self._answer()
            if left and not seen:
                return  # never read: nothing was generated, as far as the caller knows
            if seen:
                self.observed.take(answer)
            if left and error is None and not self.stream.ended and self.observed.generation is not None:
                self.observed.generation.labels["stream"] = "interrupted"
        except Exception as failure:
            self.observed._warn(failure)
        self.observed.end(error)

    def _answer(self) -> tuple[Any, bool]:
        if self.stream.chunks:
            return self.stream.answer(), True
        # The caller used a helper of the library, such as text_stream. The library has put the answer together.
        for name in "current_message_snapshot", "current_completion_snapshot":
            try:
                snapshot = getattr(self.inner, name, None)
            except Exception:  # nothing has arrived
                snapshot = None
            if snapshot is not None:
                return snapshot, True
        return None, False


class _Watching(_Passing):
    """A stream of a library that is watched."""

    __slots__ = ("_colophon_watched", "_colophon_iterator")

    def __init__(self, inner: Any, watched: _Watched) -> None:
        super().__init__(inner)
        object.__setattr__(self, "_colophon_watched", watched)
        object.__setattr__(self, "_colophon_iterator", None)

    def __getattr__(self, name: str) -> Any:
        value = getattr(object.__getattribute__(self, "_colophon_inner"), name)
        watched: _Watched = object.__getattribute__(self, "_colophon_watched")
        if name in _FINAL and callable(value):
            return _final(value, watched)
        if name == "close" and callable(value):
            return _closing(value, watched)
        return value

    def __del__(self) -> None:
        try:
            object.__getattribute__(self, "_colophon_watched").end(left=True)
        except Exception:  # at the end of the interpreter, or half built
            pass


class _SyncStream(_Watching):
    __slots__ = ()

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        watched = self._colophon_watched
        try:
            if self._colophon_iterator is None:
                object.__setattr__(self, "_colophon_iterator", iter(self._colophon_inner))
            chunk = next(self._colophon_iterator)
        except StopIteration:
            watched.end()
            raise
        except BaseException as error:
            watched.end(error)
            raise
        watched.chunk(chunk)
        return chunk

    def __enter__(self) -> Any:
        if hasattr(type(self._colophon_inner), "__enter__"):
            self._colophon_inner.__enter__()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Any:
        self._colophon_watched.end(left=True)
        if hasattr(type(self._colophon_inner), "__exit__"):
            return self._colophon_inner.__exit__(kind, error, trace)
        return None


class _AsyncStream(_Watching):
    __slots__ = ()

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        watched = self._colophon_watched
        try:
            if self._colophon_iterator is None:
                object.__setattr__(self, "_colophon_iterator", self._colophon_inner.__aiter__())
            chunk = await self._colophon_iterator.__anext__()
        except StopAsyncIteration:
            watched.end()
            raise
        except BaseException as error:
            watched.end(error)
            raise
        watched.chunk(chunk)
        return chunk

    async def __aenter__(self) -> Any:
        if hasattr(type(self._colophon_inner), "__aenter__"):
            await self._colophon_inner.__aenter__()
        return self

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> Any:
        self._colophon_watched.end(left=True)
        if hasattr(type(self._colophon_inner), "__aexit__"):
            return await self._colophon_inner.__aexit__(kind, error, trace)
        return None


def watch(stream: Any, observed: _Observed) -> Any:
    watched = _Watched(observed, stream)
    asynchronous = hasattr(type(stream), "__anext__") or hasattr(type(stream), "__aiter__")
    return (_AsyncStream if asynchronous else _SyncStream)(stream, watched)


def _final(function: Callable[..., Any], watched: _Watched) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if not inspect.isawaitable(result):
            watched.whole(result)
            return result

        async def wait() -> Any:
            answer = await result
            watched.whole(answer)
            return answer

        return wait()

    return call


def _closing(function: Callable[..., Any], watched: _Watched) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        watched.end(left=True)
        return function(*args, **kwargs)

    return call


class _Manager(_Passing):
    """What messages.stream and chat.completions.stream return: it begins the stream when it is entered."""

    __slots__ = ("_colophon_observed", "_colophon_stream")

    def __init__(self, inner: Any, observed: _Observed) -> None:
        super().__init__(inner)
        object.__setattr__(self, "_colophon_observed", observed)
        object.__setattr__(self, "_colophon_stream", None)

    def __enter__(self) -> Any:
        try:
            stream = self._colophon_inner.__enter__()
        except BaseException as error:
            self._colophon_observed.end(error)
            raise
        object.__setattr__(self, "_colophon_stream", watch(stream, self._colophon_observed))
        return self._colophon_stream

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Any:
        if self._colophon_stream is not None:
            self._colophon_stream._colophon_watched.end(left=True)
        return self._colophon_inner.__exit__(kind, error, trace)


class _AsyncManager(_Passing):
    __slots__ = ("_colophon_observed", "_colophon_stream")

    def __init__(self, inner: Any, observed: _Observed) -> None:
        super().__init__(inner)
        object.__setattr__(self, "_colophon_observed", observed)
        object.__setattr__(self, "_colophon_stream", None)

    async def __aenter__(self) -> Any:
        try:
            stream = await self._colophon_inner.__aenter__()
        except BaseException as error:
            self._colophon_observed.end(error)
            raise
        object.__setattr__(self, "_colophon_stream", watch(stream, self._colophon_observed))
        return self._colophon_stream

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> Any:
        if self._colophon_stream is not None:
            self._colophon_stream._colophon_watched.end(left=True)
        return await self._colophon_inner.__aexit__(kind, error, trace)
