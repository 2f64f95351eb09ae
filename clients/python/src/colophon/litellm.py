"""A callback for LiteLLM: litellm.callbacks = [litellm_logger(ledger)]. LiteLLM is imported when a callback is made."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ._encode import Copy, copy_answer, copy_leniently, restore_json
from ._generation import Generation
from .chat import READ, Names, get, openai_request, read_answer
from .ledger import Ledger
from .wrap import with_model

_OPERATIONS = {"completion": "chat", "acompletion": "chat", "atext_completion": "text_completion"}
_MOST_SEEN = 10_000  # ids of calls that were recorded


class _Call:
    """A copy of a call and its answer, which the background reads."""

    def __init__(self, request: Mapping[str, Any], answer: Any) -> None:
        self._request: Copy = copy_leniently(request)
        self._answer: Copy | None = None if answer is None else copy_answer(answer)
        self.size = len(self._request) + len(self._answer or "")

    def __call__(self) -> dict[str, Any]:
        names: Names = {}
        fields = openai_request(restore_json(self._request), names)
        if self._answer is None:
            return fields
        return {**fields, **with_model(read_answer(restore_json(self._answer), names), fields["model"])}


class _Calls:
    """What the callback does. No method raises."""

    def __init__(self, ledger: Ledger, fields: Mapping[str, Any]) -> None:
        self.ledger = ledger
        self.fields = dict(fields)
        self.seen: OrderedDict[str, None] = OrderedDict()  # LiteLLM reports some calls twice: sync and async

    def take(self, kwargs: Any, response: Any, start: Any, end: Any, failed: bool) -> None:
        try:
            self._take(kwargs, response, start, end, failed)
        except Exception as error:
            self.ledger.warn(f"a call of LiteLLM was not recorded: {error!r}")

    def _take(self, kwargs: Mapping[str, Any], response: Any, start: Any, end: Any, failed: bool) -> None:
        call_id = kwargs.get("litellm_call_id")
        if kwargs.get("stream") is True and not failed:
            # Each chunk is reported, and the whole answer at the end.
            whole = kwargs.get("complete_streaming_response") or kwargs.get("async_complete_streaming_response")
            response = whole if whole is not None else response
            if whole is None and get(response, "object") == "chat.completion.chunk":
                return
        if isinstance(call_id, str):
            if call_id in self.seen:
                return
            self.seen[call_id] = None
            if len(self.seen) > _MOST_SEEN:
                self.seen.popitem(last=False)
        optional = kwargs.get("optional_params")
        request = {n: v for n, v in (optional.items() if isinstance(optional, Mapping) else ()) if n in READ}
        for name in "model", "messages":
            request[name] = kwargs.get(name)
        if request["messages"] is None:
            request["messages"] = kwargs.get("input")
        provider = kwargs.get("custom_llm_provider") or get(kwargs.get("litellm_params"), "custom_llm_provider")
        call_type = str(kwargs.get("call_type") or "completion")
        labels = {"provider": provider if isinstance(provider, str) else "litellm", "operation": _OPERATIONS.get(call_type, call_type),
                  **(self.fields.get("labels") or {})}
        generation = Generation(self.ledger, {**self.fields, "labels": labels})
        generation.set_later(_Call(request, None if failed else response))
        if isinstance(start, datetime) and isinstance(end, datetime):
            generation.set(timestamp=start.astimezone().isoformat())
            generation.duration = (end - start).total_seconds()
        error = kwargs.get("exception") if failed else None
        generation.end(error if isinstance(error, BaseException) else RuntimeError("unknown") if failed else None)


def litellm_logger(ledger: Ledger, fields: Mapping[str, Any] | None = None) -> Any:
    """Returns a callback for litellm.callbacks. fields are members of every record, such as labels. It needs the package litellm."""
    from litellm.integrations.custom_logger import CustomLogger

    calls = _Calls(ledger, fields or {})

    class ColophonLogger(CustomLogger):  # type: ignore[misc]
        """Records each call. It never raises."""

        def log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
            calls.take(kwargs, response_obj, start_time, end_time, False)

        def log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
            calls.take(kwargs, response_obj, start_time, end_time, True)

        async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
            calls.take(kwargs, response_obj, start_time, end_time, False)

        async def async_log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
            calls.take(kwargs, response_obj, start_time, end_time, True)

    return ColophonLogger()
