"""A callback handler for LangChain that records what its language models generate. LangChain is imported when a handler is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ._encode import Copy, copy_answer, copy_leniently, restore_json
from ._generation import Generation
from .chat import READ, Names, get, openai_request, read_answer
from .ledger import Ledger
from .wrap import with_model

_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "HumanMessageChunk": "user", "SystemMessageChunk": "system"}
_MOST_OPEN = 10_000  # runs that began and did not end


class _Start:
    """A copy of what a run was asked, which the background reads."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._copy: Copy = copy_leniently(request)
        self.size = len(self._copy)
        self.names: Names = {}
        self.model: Any = None

    def __call__(self) -> dict[str, Any]:
        fields = openai_request(restore_json(self._copy), self.names)
        self.model = fields["model"]
        return fields


class _End:
    def __init__(self, answer: Any, start: _Start) -> None:
        self._copy: Copy = copy_answer(answer)
        self.size = len(self._copy)
        self._start = start

    def __call__(self) -> dict[str, Any]:
        answer = read_answer(restore_json(self._copy), self._start.names)
        answer.fingerprint = ""
        return with_model(answer, self._start.model)


class _Runs:
    """What the handler does. No method raises."""

    def __init__(self, ledger: Ledger, fields: Mapping[str, Any]) -> None:
        self.ledger = ledger
        self.fields = dict(fields)
        self.open: dict[Any, tuple[Generation, _Start]] = {}

    def safely(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            self.ledger.warn(f"a run of LangChain was not recorded: {error!r}")

    def start(self, serialized: Any, messages: list[Any], run_id: Any, metadata: Any, extra: Mapping[str, Any]) -> None:
        given = extra.get("invocation_params")
        request = {name: value for name, value in (given if isinstance(given, Mapping) else {}).items()}
        models = (request.get("model"), request.get("model_name"), request.get("model_id"), get(metadata, "ls_model_name"),
                  get(get(serialized, "kwargs"), "model"), get(get(serialized, "kwargs"), "model_name"))
        request["model"] = next((model for model in models if isinstance(model, str)), None)
        for name, stated in ("temperature", "ls_temperature"), ("max_tokens", "ls_max_tokens"):
            if request.get(name) is None:
                request[name] = get(metadata, stated)
        if request.get("stop") is None:
            request["stop"] = get(metadata, "ls_stop")
        request["messages"] = messages
        provider = get(metadata, "ls_provider")
        labels = {"provider": provider if isinstance(provider, str) else "langchain", "operation": "chat", **(self.fields.get("labels") or {})}
        generation = Generation(self.ledger, {**self.fields, "labels": labels})
        start = _Start({name: value for name, value in request.items() if name in READ})
        generation.set_later(start)
        if len(self.open) >= _MOST_OPEN:
            self.open.pop(next(iter(self.open)), None)
        self.open[run_id] = generation, start

    def end(self, result: Any, run_id: Any) -> None:
        generation, start = self.open.pop(run_id, (None, None))
        if generation is not None and start is not None:
            generation.set_later(_End(_answer(result), start))
            generation.end()

    def fail(self, error: BaseException, run_id: Any) -> None:
        generation, _ = self.open.pop(run_id, (None, None))
        if generation is not None:
            generation.end(error)


def langchain_handler(ledger: Ledger, fields: Mapping[str, Any] | None = None) -> Any:
    """Returns a handler for callbacks: model.invoke(messages, config={"callbacks": [langchain_handler(ledger)]}).

    fields are members of every record, such as labels. It needs the package langchain-core."""
    from langchain_core.callbacks import BaseCallbackHandler

    runs = _Runs(ledger, fields or {})

    class ColophonHandler(BaseCallbackHandler):  # type: ignore[misc]
        """Records each run of a language model. It never raises."""

        run_inline = True  # in the order of the calls, also under asyncio

        def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: Any, metadata: Any = None, **kwargs: Any) -> None:
            conversation = messages[0] if messages else []
            runs.safely(lambda: runs.start(serialized, [_message(m) for m in conversation], run_id, metadata, kwargs))

        def on_llm_start(self, serialized: Any, prompts: Any, *, run_id: Any, metadata: Any = None, **kwargs: Any) -> None:
            content = [{"role": "user", "content": prompts[0]}] if prompts else []
            runs.safely(lambda: runs.start(serialized, content, run_id, metadata, kwargs))

        def on_llm_end(self, response: Any, *, run_id: Any, **kwargs: Any) -> None:
            runs.safely(lambda: runs.end(response, run_id))

        def on_llm_error(self, error: BaseException, *, run_id: Any, **kwargs: Any) -> None:
            runs.safely(lambda: runs.fail(error, run_id))

    return ColophonHandler()


def _calls(message: Any) -> list[dict[str, Any]]:
    calls = get(message, "tool_calls")
    return [{"id": get(c, "id"), "name": get(c, "name"), "arguments": get(c, "args")} for c in calls] if isinstance(calls, list) else []


def _message(message: Any) -> Any:
    """Returns a message of LangChain as one of an OpenAI-style API."""
    kind = get(message, "type")
    if not isinstance(kind, str):
        return message
    role = get(message, "role") if kind in ("chat", "ChatMessageChunk") else _ROLES.get(kind, kind)
    form = {"role": role, "content": get(message, "content"), "name": get(message, "name"), "tool_call_id": get(message, "tool_call_id"),
            "tool_calls": _calls(message)}
    return {name: value for name, value in form.items() if value is not None and value != []}


def _answer(result: Any) -> dict[str, Any]:
    """Returns the first generation of an LLMResult as an answer of an OpenAI-style API."""
    lists = get(result, "generations")
    generations = lists[0] if lists else []
    first = generations[0] if generations else None
    message = get(first, "message")
    facts: dict[str, Any] = {}
    for source in get(result, "llm_output"), get(message, "response_metadata"), get(first, "generation_info"):
        if isinstance(source, Mapping):
            facts.update(source)
    usage = get(message, "usage_metadata") or facts.get("token_usage") or facts.get("usage")
    content = get(first, "text") if message is None else get(message, "content")
    form = {"content": _text(content), "tool_calls": [{"id": c["id"], "function": {"name": c["name"], "arguments": c["arguments"]}} for c in _calls(message)]}
    choices = [{"finish_reason": facts.get("finish_reason") or facts.get("stop_reason"), "message": {n: v for n, v in form.items() if v not in (None, [])}}]
    return {"id": facts.get("id") or get(message, "id"), "model": facts.get("model_name") or facts.get("model"), "usage": usage,
            "choices": choices if first is not None else None}


def _text(content: Any) -> str | None:
    """Returns the text of a content, which may have other parts, such as calls of tools."""
    if isinstance(content, str):
        return content
    parts = [part if isinstance(part, str) else get(part, "text") for part in content] if isinstance(content, list) else []
    texts = [part for part in parts if isinstance(part, str)]
    return "".join(texts) if texts else None
