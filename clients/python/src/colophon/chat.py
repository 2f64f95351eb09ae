"""How a chat call becomes an IPC record, for OpenAI-style and Anthropic-style APIs.

The rules are those of the ledger's OTLP receiver and of the TypeScript client, so that the same chat has the same hashes whichever way
it is recorded.

- system_prompt is the text of the instructions that a request has apart from its messages (system, instructions), and of the messages
  at the beginning whose role is system or developer, joined by an empty line.
- payload is {"messages": [the other messages], …} and the parameters that shape the output. Messages have the form of OpenAI's chat
  completions. The random ids of tool calls become call_1, call_2, …: the same conversation would otherwise never be the same input.
  Other parameters, such as user and metadata, are left out.
- model is the one that was asked for. If another one answered, it is in environment.model_digest, with the answer's fingerprint.
- output is the text of the only answer, without the model's reasoning. Several answers, and answers that call tools, are a JSON array of
  messages.

All functions take what json.loads returns. Only Stream takes the libraries' own objects."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ._json import canonical, parse
from .errors import VerificationError

Json = Any
Names = dict[str, str]  # of tool calls by their ids: one for each call, shared by its request and its answer

_INSTRUCTION_ROLES = ("system", "developer")
_ROLES = {"human": "user", "ai": "assistant", "model": "assistant"}
_ITEMS = ("function_call", "custom_tool_call", "function_call_output", "custom_tool_call_output", "reasoning")
# The parameters that become members of the payload. All others stay out: some carry credentials.
PARAMETERS = frozenset(
    "candidate_count frequency_penalty function_call functions logit_bias logprobs min_p n parallel_tool_calls presence_penalty reasoning "
    "reasoning_effort repetition_penalty response_format stop stop_sequences text thinking tool_choice tools top_k top_logprobs top_p verbosity".split())
# All members of a request that are read.
READ = PARAMETERS | {"model", "messages", "input", "prompt", "system", "instructions", "temperature", "max_tokens", "max_completion_tokens",
                     "max_output_tokens", "seed", "random_seed"}
_COUNTS = (
    ("input_tokens", (("input_tokens",), ("prompt_tokens",))),
    ("output_tokens", (("output_tokens",), ("completion_tokens",))),
    ("cache_creation_tokens", (("cache_creation_input_tokens",),)),
    ("cache_read_tokens", (("cache_read_input_tokens",), ("prompt_tokens_details", "cached_tokens"), ("input_tokens_details", "cached_tokens"),
                           ("input_token_details", "cache_read"))),
    ("reasoning_tokens", (("completion_tokens_details", "reasoning_tokens"), ("output_tokens_details", "reasoning_tokens"),
                          ("output_token_details", "reasoning"))),
)


@dataclass
class Answer:
    """What an answer says: fields of the record, and who answered."""

    fields: dict[str, Any]
    model: str = ""
    fingerprint: str = ""


@dataclass
class _Call:
    id: str | None
    name: str
    arguments: str | None  # JSON


@dataclass
class _Message:
    role: str
    name: str | None = None
    answers: str | None = None  # the id of the tool call that it answers
    parts: list[tuple[str, Any]] = field(default_factory=list)  # text, reasoning, or other; and the value
    calls: list[_Call] = field(default_factory=list)


def get(value: Any, name: str) -> Any:
    """Returns a member of a mapping or of an object, and None of anything else."""
    if isinstance(value, Mapping):
        return value.get(name)
    if value is None or isinstance(value, (str, bytes, int, float, list, tuple)):
        return None
    return getattr(value, name, None)


def _first(value: Mapping[str, Any], *names: str) -> str | None:
    return next((value[name] for name in names if isinstance(value.get(name), str)), None)


def _number(value: Any) -> float | None:
    """Returns a finite number, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if isinstance(value, int) or math.isfinite(value) else None


# Requests


def openai_request(request: Mapping[str, Json], names: Names | None = None) -> dict[str, Any]:
    """Reads the arguments of chat.completions.create."""
    return _read_request(request, [], request.get("messages"), names)


def responses_request(request: Mapping[str, Json], names: Names | None = None) -> dict[str, Any]:
    """Reads the arguments of responses.create."""
    return _read_request(request, _instructions(request.get("instructions")), request.get("input"), names)


def anthropic_request(request: Mapping[str, Json], names: Names | None = None) -> dict[str, Any]:
    """Reads the arguments of Anthropic's messages.create."""
    return _read_request(request, _instructions(request.get("system")), request.get("messages"), names)


def completion_request(request: Mapping[str, Json], names: Names | None = None) -> dict[str, Any]:
    """Reads the arguments of completions.create, which has a text in place of messages."""
    return {**_sampling(request), "payload": {"prompt": request.get("prompt"), **_parameters(request)}}


def _read_request(request: Mapping[str, Json], system: list[str], given: Json, names: Names | None) -> dict[str, Any]:
    names = {} if names is None else names
    messages = _messages(given if given is not None else [], "user")
    while messages and messages[0].role in _INSTRUCTION_ROLES:
        text = _plain_text(messages.pop(0))
        if system != [text]:  # some libraries send it twice
            system.append(text)
    fields = _sampling(request)
    if system:
        fields["system_prompt"] = "\n\n".join(system)
    fields["payload"] = {"messages": [_chat_message(message, names) for message in messages], **_parameters(request)}
    return fields


def split_instructions(messages: list[Any]) -> tuple[str | None, list[Any]]:
    """Splits a chat into its system prompt (None if it has none) and the other messages, which stay as they are."""
    texts: list[str] = []
    instructions = 0
    for message in messages:
        read = _messages(message, "user")  # a message with answers of tools reads as several
        if not read or any(part.role not in _INSTRUCTION_ROLES for part in read):
            break
        texts.extend(map(_plain_text, read))
        instructions += 1
    return ("\n\n".join(texts) if texts else None), messages[instructions:]


def _instructions(given: Json) -> list[str]:
    return [] if given is None else [_plain_text(m) for m in _messages({"role": "system", "content": given}, "system")]


def _sampling(request: Mapping[str, Json]) -> dict[str, Any]:
    model = request.get("model")
    fields: dict[str, Any] = {"model": model if isinstance(model, str) and model else "unknown"}
    temperature = _number(request.get("temperature"))
    if temperature is not None:
        fields["temperature"] = temperature
    for member, places in ("max_tokens", ("max_tokens", "max_completion_tokens", "max_output_tokens")), ("seed", ("seed", "random_seed")):
        for place in places:
            value = _number(request.get(place))
            if value is not None and value == int(value) and (member == "seed" or value >= 0):
                fields[member] = int(value)
                break
    return fields


def _parameters(request: Mapping[str, Json]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in request.items():
        if name not in PARAMETERS or value is None:
            continue
        member = "stop" if name == "stop_sequences" else name
        given = [value] if member == "stop" and isinstance(value, str) else value
        if not (member == "n" and given == 1):
            found.setdefault(member, given)
    return found


# Messages


def _messages(given: Json, role: str) -> list[_Message]:
    found: list[_Message] = []
    for value in given if isinstance(given, list) else [given]:
        _add_message(found, value, role)
    return found


def _add_message(found: list[_Message], given: Json, role: str) -> None:
    message = _Message(role)
    if not isinstance(given, dict):
        if given is not None:
            _add_part(found, message, given)
            found.append(message)
        return
    value = given
    if "role" not in value and value.get("type") in _ITEMS:  # an item of OpenAI's Responses
        message.role = "assistant"
        value = {"content": [value]}
    stated = _first(value, "role")
    if stated:
        message.role = _ROLES.get(stated, stated)
    message.name = _first(value, "name")
    message.answers = _first(value, "tool_call_id")
    if message.answers is None and message.role == "tool":
        message.answers = _first(value, "id")
    before = len(found)
    _add_content(found, message, value)
    calls = value.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        _add_call(message, call)
    if isinstance(value.get("function_call"), dict):
        _add_call(message, value["function_call"])
    # Else it had only answers of tools.
    if len(found) == before or message.parts or message.calls:
        found.append(message)


def _add_content(found: list[_Message], message: _Message, value: dict[str, Any]) -> None:
    for name in "parts", "contents", "content", "text":
        content = value.get(name)
        if isinstance(content, list):
            for part in content:
                _add_part(found, message, part)
            return
        if isinstance(content, (str, dict)):
            _add_part(found, message, content)
            return


def _add_part(found: list[_Message], message: _Message, part: Json) -> None:
    """Adds one part. Tool calls go to the message. Answers of tools, which are parts in some APIs, become messages."""
    if part is None:
        return
    if not isinstance(part, dict):
        message.parts.append(("text" if isinstance(part, str) else "other", part))
        return
    kind = part.get("type") or ""
    if kind in ("text", "input_text", "output_text", ""):
        text = _first(part, "content", "text")
        if text is not None:
            message.parts.append(("text", text))
            return
    elif kind in ("reasoning", "thinking"):
        text = _first(part, "content", "text", "thinking")
        if text is not None:
            message.parts.append(("reasoning", text))
            return
    elif kind in ("tool_call", "tool_use", "function_call", "tool-call", "custom_tool_call"):
        _add_call(message, part)
        return
    elif kind in ("tool_call_response", "tool_result", "function_call_output", "tool-result", "custom_tool_call_output"):
        # An item of Responses has an id of its own besides that of the call.
        ids = ("call_id", "id") if message.role == "assistant" else ("id", "tool_use_id", "call_id", "tool_call_id", "toolCallId")
        answer = _Message("tool", _first(part, "name"), _first(part, *ids))
        result = next((part[name] for name in ("response", "result", "content", "output") if part.get(name) is not None), None)
        if result is not None:
            answer.parts = [("text", result if isinstance(result, str) else canonical(result))]
        found.append(answer)
        return
    message.parts.append(("other", part))


def _add_call(message: _Message, call: Json) -> None:
    if not isinstance(call, dict):
        return
    inner = call.get("function") if call.get("function") is not None else call.get("custom")
    body = inner if isinstance(inner, dict) else call
    given = next((body[name] for name in ("arguments", "input", "args") if body.get(name) is not None), None)
    message.calls.append(_Call(_first(call, "call_id", "id", "toolCallId"), _first(body, "name", "toolName") or "", _call_arguments(given)))


def _call_arguments(given: Json) -> str | None:
    """Returns arguments in one form, whether they were sent as JSON or as a text with JSON."""
    if not isinstance(given, str):
        return None if given is None else canonical(given)
    try:
        return canonical(parse(given))
    except (VerificationError, RecursionError):
        return given


def _plain_text(message: _Message) -> str:
    """Returns the text of a message. Parts that are not text are in it as JSON."""
    return "\n\n".join(canonical(value) if kind == "other" else value for kind, value in message.parts)


def _chat_message(message: _Message, names: Names) -> dict[str, Any]:
    """Returns a message in the form of OpenAI's chat completions."""
    form: dict[str, Any] = {"role": message.role}
    if message.parts or not message.calls:
        form["content"] = _chat_content(message.parts)
    if message.name is not None:
        form["name"] = message.name
    if message.answers is not None:
        form["tool_call_id"] = _call_name(message.answers, names)
    if message.calls:
        form["tool_calls"] = [_chat_call(call, names) for call in message.calls]
    return form


def _chat_call(call: _Call, names: Names) -> dict[str, Any]:
    function = {"name": call.name, **({} if call.arguments is None else {"arguments": call.arguments})}
    return {"type": "function", "function": function, **({} if call.id is None else {"id": _call_name(call.id, names)})}


def _call_name(call_id: str, names: Names) -> str:
    return names.setdefault(call_id, f"call_{len(names) + 1}")


def _chat_content(parts: list[tuple[str, Any]]) -> Json:
    """Returns the parts of a message: a single text as a string."""
    if not parts:
        return ""
    if len(parts) == 1 and parts[0][0] == "text":
        return parts[0][1]
    return [value if kind == "other" else {"type": kind, "text": value} for kind, value in parts]


# Answers


def read_answer(response: Json, names: Names | None = None) -> Answer:
    """Reads the answer of any of the APIs. It has no output if the response has the form of none of them."""
    names = {} if names is None else names
    model, fingerprint, response_id = (get(response, name) for name in ("model", "system_fingerprint", "id"))
    messages, reasons = _answers(response)
    fields: dict[str, Any] = {"labels": {}}
    if messages is not None:
        fields["output"] = _output(messages, names)
    if usage := _usage(get(response, "usage")):
        fields["usage"] = usage
    if isinstance(response_id, str) and response_id:
        fields["labels"]["response_id"] = response_id
    if reasons:
        fields["labels"]["finish_reason"] = ",".join(dict.fromkeys(reasons))
    return Answer(fields, model if isinstance(model, str) else "", fingerprint if isinstance(fingerprint, str) else "")


def _answers(response: Json) -> tuple[list[_Message] | None, list[str]]:
    choices, output, blocks = (get(response, name) for name in ("choices", "output", "content"))
    messages: list[_Message] | None = None
    reasons: list[Any] = []
    if isinstance(choices, list):
        reasons = [get(choice, "finish_reason") for choice in choices]
        messages = [message for choice in choices for message in _messages(_choice(choice), "assistant")]
    elif isinstance(output, list):
        reasons = [get(get(response, "incomplete_details"), "reason") or get(response, "status")]
        items = _messages([_item(item) for item in output], "assistant")
        messages = [_Message("assistant", parts=[p for m in items for p in m.parts], calls=[c for m in items for c in m.calls])]
    elif isinstance(blocks, list):
        reasons = [get(response, "stop_reason")]
        messages = _messages({"role": "assistant", "content": blocks}, "assistant")
    return messages, [reason for reason in reasons if isinstance(reason, str)]


def _choice(choice: Json) -> Json:
    message = get(choice, "message")
    if message is None:
        return {"content": get(choice, "text")}
    if isinstance(message, dict) and not message.get("content") and isinstance(message.get("refusal"), str):
        return {**message, "content": message["refusal"]}
    return message


def _item(item: Json) -> Json:
    """Returns an item of OpenAI's Responses, with its refusals as texts."""
    if not isinstance(item, dict) or not isinstance(item.get("content"), list):
        return item
    content = [{"type": "text", "text": part["refusal"]} if isinstance(part, dict) and "refusal" in part else part for part in item["content"]]
    return {**item, "content": content, "role": item.get("role") or "assistant"}


def _output(messages: list[_Message], names: Names) -> str:
    """Returns the text of the only answer, or else all answers as a JSON array of messages, without the reasoning of the model."""
    for message in messages:
        message.parts = [(kind, value) for kind, value in message.parts
                         if kind != "reasoning" and get(value, "type") not in ("reasoning", "redacted_thinking")]
    only = messages[0] if len(messages) == 1 else None
    if only is not None and not only.calls and all(kind == "text" for kind, _ in only.parts):
        return "".join(value for _, value in only.parts)
    return canonical([_chat_message(message, names) for message in messages])


def _usage(usage: Json) -> dict[str, int]:
    found: dict[str, int] = {}
    for member, places in _COUNTS:
        for place in places:
            value = usage
            for name in place:
                value = get(value, name)
            if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53:
                found[member] = value
                break
    return found


# Streams


class _ChoiceSoFar:
    def __init__(self) -> None:
        self.texts: list[str] = []
        self.calls: dict[int, dict[str, str]] = {}
        self.reason: Any = None

    def call(self, index: Any, call_id: Any, name: Any, given: Any) -> None:
        call = self.calls.setdefault(index if isinstance(index, int) else len(self.calls), {"id": "", "name": "", "arguments": ""})
        for member, value in ("id", call_id), ("name", name), ("arguments", given):
            if isinstance(value, str):
                call[member] += value

    def text(self, value: Any) -> None:
        if isinstance(value, str):
            self.texts.append(value)

    def message(self) -> dict[str, Any]:
        text = "".join(self.texts)
        message: dict[str, Any] = {"role": "assistant"}
        if text or not self.calls:
            message["content"] = text
        if self.calls:
            message["tool_calls"] = [{**({"id": c["id"]} if c["id"] else {}), "name": c["name"], "arguments": c["arguments"] or "{}"}
                                     for _, c in sorted(self.calls.items())]
        return message


class Stream:
    """What the chunks of a stream say so far, as the answer that the API would have given at once: chunks of chat.completions and
    completions, events of Responses, and events of Anthropic's messages, as dicts or as the libraries' objects."""

    def __init__(self) -> None:
        self._facts: dict[str, Any] = {}
        self._choices: dict[int, _ChoiceSoFar] = {}
        self._usage: dict[str, Any] = {}
        self._final: Any = None
        self.chunks = 0

    def add(self, chunk: Any) -> None:
        self.chunks += 1
        kind = get(chunk, "type")
        if kind == "message_start":
            message = get(chunk, "message")
            self._name(message)
            self._count(message)
            self._choice()
        elif kind == "content_block_start":
            block = get(chunk, "content_block")
            if get(block, "type") == "tool_use":
                self._choice().call(get(chunk, "index"), get(block, "id"), get(block, "name"), None)
            elif get(block, "type") == "text":
                self._choice().text(get(block, "text"))
        elif kind == "content_block_delta":
            delta = get(chunk, "delta")
            self._choice().text(get(delta, "text"))
            if isinstance(get(delta, "partial_json"), str):
                self._choice().call(get(chunk, "index"), None, None, get(delta, "partial_json"))
        elif kind == "message_delta":
            self._count(chunk)
            choice = self._choice()
            choice.reason = get(get(chunk, "delta"), "stop_reason") or choice.reason
        elif kind == "response.created":
            self._name(get(chunk, "response"))
        elif kind in ("response.output_text.delta", "response.refusal.delta"):
            self._choice().text(get(chunk, "delta"))
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            self._final = get(chunk, "response")
        elif kind == "chunk":  # an event of the helpers of chat.completions.stream
            self._completion(get(chunk, "chunk"))
        elif isinstance(get(chunk, "choices"), (list, tuple)):
            self._completion(chunk)

    @property
    def ended(self) -> bool:
        """Whether the API has said that the answer is complete."""
        return self._final is not None or any(choice.reason is not None for choice in self._choices.values())

    def answer(self) -> Any:
        """Returns the answer so far, for read_answer. It has no output if nothing has arrived."""
        if self._final is not None:
            return self._final
        answer: dict[str, Any] = {**self._facts, "usage": self._usage}
        if self._choices:
            answer["choices"] = [{"message": c.message(), "finish_reason": c.reason} for _, c in sorted(self._choices.items())]
        return answer

    def _choice(self, index: Any = 0) -> _ChoiceSoFar:
        return self._choices.setdefault(index if isinstance(index, int) else 0, _ChoiceSoFar())

    def _name(self, source: Any) -> None:
        for name in "id", "model", "system_fingerprint":
            value = get(source, name)
            if isinstance(value, str) and value:
                self._facts[name] = value

    def _count(self, source: Any) -> None:
        usage = get(source, "usage")
        if usage is None:
            return
        for member, places in _COUNTS:
            for place in places:
                value = usage
                for name in place:
                    value = get(value, name)
                if isinstance(value, int) and not isinstance(value, bool):
                    at = self._usage
                    for name in place[:-1]:
                        at = at.setdefault(name, {})
                    at[place[-1]] = value

    def _completion(self, chunk: Any) -> None:
        self._name(chunk)
        self._count(chunk)
        for given in get(chunk, "choices") or ():
            choice = self._choice(get(given, "index"))
            delta = get(given, "delta")
            if delta is None:
                choice.text(get(given, "text"))
            else:
                choice.text(get(delta, "content"))
                choice.text(get(delta, "refusal"))
            for call in get(delta, "tool_calls") or ():
                function = get(call, "function")
                choice.call(get(call, "index"), get(call, "id"), get(function, "name"), get(function, "arguments"))
            reason = get(given, "finish_reason")
            choice.reason = choice.reason if reason is None else reason
