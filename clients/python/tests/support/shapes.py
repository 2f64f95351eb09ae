"""Recorded responses of the model libraries, and classes with the same interfaces as the libraries' own.

The interfaces are those of openai 1.x and 2.x, anthropic 0.x, litellm 1.x, and langchain-core 0.3 and 1.x: resources as attributes, keyword
arguments, models with model_dump, streams that are iterators and context managers, and helpers that return managers of streams."""

from __future__ import annotations

import json


class Object:
    """The part of a pydantic model that callers of the libraries use: attributes for the members, iteration, and model_dump."""

    def __init__(self, members: dict) -> None:
        self._members = members

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return wrap_members(self._members[name])
        except KeyError:
            raise AttributeError(name) from None

    def __iter__(self):
        return iter(self._members.items())

    def model_dump(self, *, mode="python", warnings=True):
        assert mode == "json"
        return json.loads(json.dumps(self._members))


def wrap_members(value):
    if isinstance(value, dict):
        return Object(value)
    return [wrap_members(v) for v in value] if isinstance(value, list) else value


class NotGiven:
    pass


NOT_GIVEN = NotGiven()


def completion(content, **others):
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1767323045, "model": "gpt-4o-2024-08-06", "system_fingerprint": "fp_1", "service_tier": "default",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": content, "refusal": None, "annotations": []}, "logprobs": None, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 19, "completion_tokens": 5, "total_tokens": 24, "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0},
                  "completion_tokens_details": {"reasoning_tokens": 2}}, **others}


TOOL_CALL = {"id": "call_8aK2", "type": "function", "function": {"name": "look_up", "arguments": '{ "word":"quay" , "n": 1.0 }'}}


def choices(message, reason):
    return {"choices": [{"index": 0, "message": {"role": "assistant", **message}, "logprobs": None, "finish_reason": reason}]}


def chunk(delta, finish_reason=None, **others):
    return {"id": "chatcmpl-2", "object": "chat.completion.chunk", "created": 1767323045, "model": "gpt-4o-2024-08-06", "system_fingerprint": "fp_1",
            "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}], **others}


CHUNKS = [chunk({"role": "assistant", "content": "", "refusal": None}), chunk({"content": "The"}), chunk({"content": " keeper"}), chunk({"content": "."}), chunk({}, "stop"),
          {**chunk({}), "choices": [], "usage": {"prompt_tokens": 19, "completion_tokens": 3, "total_tokens": 22, "prompt_tokens_details": {"cached_tokens": 1}}}]
TOOL_CHUNKS = [
    chunk({"role": "assistant", "content": None, "tool_calls": [{"index": 0, "id": "call_9x", "type": "function", "function": {"name": "look_up", "arguments": ""}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"word":'}}]}), chunk({"tool_calls": [{"index": 0, "function": {"arguments": ' "quay"}'}}]}),
    chunk({}, "tool_calls")]


def response(text):
    return {
        "id": "resp_1", "object": "response", "created_at": 1767323045, "status": "completed", "model": "gpt-4o-2024-08-06", "error": None, "incomplete_details": None,
        "output": [{"type": "reasoning", "id": "rs_1", "summary": []}, {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
                                                                       "content": [{"type": "output_text", "text": text, "annotations": []}]}],
        "usage": {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 4, "output_tokens_details": {"reasoning_tokens": 1}, "total_tokens": 13}}


RESPONSE_EVENTS = [
    {"type": "response.created", "sequence_number": 0, "response": {**response(""), "status": "in_progress", "output": []}},
    {"type": "response.output_text.delta", "sequence_number": 3, "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": "By the "},
    {"type": "response.output_text.delta", "sequence_number": 4, "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": "sea."},
    {"type": "response.completed", "sequence_number": 5, "response": response("By the sea.")}]


def message(content, **others):
    return {"id": "msg_01", "type": "message", "role": "assistant", "model": "claude-sonnet-4-20250514", "content": content, "stop_reason": "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": 12, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 3, "output_tokens": 6, "service_tier": "standard"}, **others}


MESSAGE_EVENTS = [
    {"type": "message_start", "message": message([], stop_reason=None, usage={"input_tokens": 12, "output_tokens": 1})},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}, {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "The "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "tide."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 6}}, {"type": "message_stop"}]


class BadRequestError(Exception):
    pass


class APIConnectionError(Exception):
    pass


class Stream:
    """openai.Stream and anthropic.Stream."""

    def __init__(self, events, cut=None):
        self.response, self.closed = "the HTTP response", False
        self._iterator = self._events(events, cut)

    def _events(self, events, cut):
        for n, event in enumerate(events):
            if n == cut:
                raise APIConnectionError("cut")
            yield Object(event)

    def __iter__(self):
        yield from self._iterator

    def __next__(self):
        return next(self._iterator)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        self.closed = True


class AsyncStream:
    def __init__(self, events):
        self.closed = False
        self._iterator = iter(events)

    def __aiter__(self):
        return self

    async def __anext__(self):
        try:
            return Object(next(self._iterator))
        except StopIteration:
            raise StopAsyncIteration from None

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        await self.close()

    async def close(self):
        self.closed = True


class MessageStream(Stream):
    """anthropic.MessageStream: it keeps a snapshot, and has helpers that read the stream."""

    def __init__(self, events):
        super().__init__(events)
        self._text = ""

    def _events(self, events, cut):
        for event in super()._events(events, cut):
            if event.type == "content_block_delta":
                self._text += event.delta.text
            yield event

    @property
    def current_message_snapshot(self):
        assert self._text, "nothing has arrived"
        return Object(message([{"type": "text", "text": self._text}]))

    @property
    def text_stream(self):
        for event in self._iterator:
            if event.type == "content_block_delta":
                yield event.delta.text

    def get_final_message(self):
        for _ in self._iterator:
            pass
        return self.current_message_snapshot


class CompletionStream(Stream):
    """openai's ChatCompletionStream: its events wrap the chunks."""

    def __init__(self, events):
        super().__init__([{"type": "chunk", "chunk": c, "snapshot": {}} if n % 2 == 0 else e for c in events for n, e in enumerate((c, {"type": "content.delta", "delta": "x"}))])

    def get_final_completion(self):
        for _ in self._iterator:
            pass
        return Object(completion("The keeper."))


class Manager:
    def __init__(self, stream):
        self._stream, self.exited = stream, False

    def __enter__(self):
        return self._stream

    def __exit__(self, *error):
        self._stream.close()
        self.exited = True


class AsyncMessageManager:
    def __init__(self, stream):
        self._stream = stream

    async def __aenter__(self):
        return self._stream

    async def __aexit__(self, *error):
        await self._stream.close()


class Resource:
    def __init__(self, **members):
        self.__dict__.update(members)


def _asked(request):
    return json.dumps([v for n, v in request.items() if n in ("messages", "input", "prompt") and not isinstance(v, NotGiven)])


class Completions:
    def __init__(self, requests):
        self._requests = requests
        self.with_raw_response = Resource(create=lambda **request: ("raw", self._answer(request)))

    def _answer(self, request):
        self._requests.append(request)
        asked = _asked(request)
        if "break" in asked:
            raise BadRequestError("no such thing")
        if "cut off" in asked:
            return Stream(CHUNKS, 3)
        if "use a tool" in asked:
            return Stream(TOOL_CHUNKS) if request.get("stream") is True else Object(completion(None, **choices({"content": None, "tool_calls": [TOOL_CALL]}, "tool_calls")))
        if "refuse" in asked:
            return Object(completion(None, **choices({"content": None, "refusal": "No."}, "stop")))
        return Stream(CHUNKS) if request.get("stream") is True else Object(completion("The keeper."))

    def create(self, *, messages, model, **more):
        return self._answer({"messages": messages, "model": model, **more})

    def parse(self, *, messages, model, **more):
        self._requests.append({"messages": messages, "model": model, **more})
        return Object(completion('{"word":"quay"}'))

    def stream(self, *, messages, model, **more):
        return Manager(CompletionStream(CHUNKS))


class OpenAI:
    def __init__(self, base_url="https://api.example/v1", timeout=600):
        self.base_url, self.timeout, self.requests, self.entered = base_url, timeout, [], False
        self.chat = Resource(completions=Completions(self.requests))
        self.completions = Resource(create=lambda **request: Object({
            "id": "cmpl-1", "object": "text_completion", "created": 1, "model": request["model"],
            "choices": [{"index": 0, "text": " upon a time", "logprobs": None, "finish_reason": "length"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 3, "total_tokens": 4}}))
        self.responses = Resource(create=lambda **request: Stream(RESPONSE_EVENTS) if request.get("stream") is True else Object(response("By the sea.")))
        self.models = Resource(list=lambda: ["gpt-4o"])

    def with_options(self, **options):
        return OpenAI(self.base_url, **options)

    def __enter__(self):
        self.entered = True
        return self

    def __exit__(self, *error):
        self.entered = False


class AsyncOpenAI:
    def __init__(self):
        async def create(**request):
            if "break" in _asked(request):
                raise BadRequestError("no such thing")
            return AsyncStream(CHUNKS) if request.get("stream") is True else Object(completion("The keeper."))
        self.chat = Resource(completions=Resource(create=create))


class Anthropic:
    def __init__(self):
        def create(**request):
            asked = _asked(request)
            if "break" in asked:
                raise BadRequestError("no such thing")
            if "use a tool" in asked:
                return Object(message([{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "I look."},
                                       {"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {"word": "quay"}}], stop_reason="tool_use"))
            return Stream(MESSAGE_EVENTS) if request.get("stream") is True else Object(message([{"type": "text", "text": "The tide."}]))
        self.messages = Resource(create=create, stream=lambda **request: Manager(MessageStream(MESSAGE_EVENTS)))


class AsyncAnthropic:
    def __init__(self):
        async def create(**request):
            return AsyncStream(MESSAGE_EVENTS) if request.get("stream") is True else Object(message([{"type": "text", "text": "The tide."}]))
        self.messages = Resource(create=create, stream=lambda **request: AsyncMessageManager(AsyncStream(MESSAGE_EVENTS)))


class LangChainMessage:
    """A message of langchain-core."""

    def __init__(self, type, content, **more):
        self.type, self.content, self.name, self.id = type, content, None, None
        self.tool_calls, self.usage_metadata, self.response_metadata = [], None, {}
        self.__dict__.update(more)
