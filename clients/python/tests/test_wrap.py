"""Tests of the wrappers and handlers with recorded responses, because the libraries need not be installed (see support/shapes.py)."""

import asyncio
import datetime
import gc
import json
import sys
import types
import unittest
import uuid
from unittest import mock

from colophon import Ledger, labels, langchain_handler, litellm_logger, wrap
from colophon.chat import openai_request, read_answer, responses_request

from .support import shapes
from .support.server import Server
from .test_client import Scratch

CHAT = {"model": "gpt-4o", "temperature": 0.2, "max_completion_tokens": 50, "seed": 7, "top_p": 0.9, "user": "u1", "metadata": {"a": "b"}, "n": 1, "stop": "END",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "developer", "content": [{"type": "text", "text": "Never guess."}]},
                     {"role": "user", "content": "Who keeps it?"}]}
CHAT_RECORD = {"model": "gpt-4o", "temperature": 0.2, "max_tokens": 50, "seed": 7, "system_prompt": "Be brief.\n\nNever guess.",
               "payload": {"messages": [{"role": "user", "content": "Who keeps it?"}], "top_p": 0.9, "stop": ["END"]}}


class Recorded(Scratch):
    """Records go to a real server, which must accept all of them."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server().start()
        cls.addClassCleanup(cls.server.remove)

    def setUp(self):
        self.warnings, self.receipts = [], []
        self.ledger: Ledger = self.open(self.server.url, warn=self.warnings.append, on_receipt=lambda r, text: self.receipts.append(r["seq"]))

    def tearDown(self):
        self.assertEqual(self.warnings, [])

    def records(self, n):
        """Returns the next n records from the ledger, with their content."""
        self.assertTrue(self.ledger.flush(60))
        self.stats(self.ledger, rejected=0, invalid=0)
        found = []
        for seq in self.receipts:
            event = self.ledger.show(seq)["event"]["record"]
            record = {name: event.get(name) for name in ("model", "temperature", "max_tokens", "seed", "labels", "environment", "usage")}
            for name in "payload", "system_prompt", "output":
                text = self.ledger.content(seq, name) if name in event["content"] else None
                record[name] = json.loads(text) if text is not None and name == "payload" else text
            found.append(record)
        self.receipts.clear()
        self.assertEqual(len(found), n, found)
        return found

    def only(self, expected):
        [record] = self.records(1)
        for name, value in expected.items():
            self.assertEqual({**record["labels"], **value} if name == "labels" else value, record[name], f"{name} of {record}")
        self.assertGreaterEqual(record["usage"]["duration_ms"], 0)
        return record


class OpenAI(Recorded):
    def setUp(self):
        super().setUp()
        self.inner = shapes.OpenAI()
        self.client = wrap(self.inner, self.ledger)

    def create(self, content="Who keeps it?", **more):
        return self.client.chat.completions.create(**{"model": "gpt-4o", "messages": [{"role": "user", "content": content}], **more})

    def test_chat_completions(self):
        asked = {**CHAT, "messages": list(CHAT["messages"]), "presence_penalty": shapes.NOT_GIVEN}
        answer = self.client.chat.completions.create(**asked)
        asked["messages"].append({"role": "user", "content": "later"})
        self.assertIs(type(answer), shapes.Object)
        self.assertEqual(answer.choices[0].message.content, "The keeper.")
        record = self.only({**CHAT_RECORD, "output": "The keeper.", "environment": {"model_digest": "gpt-4o-2024-08-06 fp_1"},
                            "labels": {"provider": "openai", "operation": "chat", "response_id": "chatcmpl-1", "finish_reason": "stop"}})
        self.assertEqual({**record["usage"], "duration_ms": 0},
                         {"input_tokens": 19, "output_tokens": 5, "cache_read_tokens": 4, "reasoning_tokens": 2, "duration_ms": 0})

    def test_it_is_the_client_otherwise(self):
        self.assertIsInstance(self.client, shapes.OpenAI)
        self.assertEqual((self.client.base_url, self.client.models.list(), repr(self.client)), (self.inner.base_url, ["gpt-4o"], repr(self.inner)))
        self.client.timeout = 5
        self.assertEqual(self.inner.timeout, 5)
        with self.client as client:
            self.assertTrue(self.inner.entered)
            client.chat.completions.create(**CHAT)
        self.assertFalse(self.inner.entered)
        raw = self.client.chat.completions.with_raw_response.create(**CHAT)
        self.assertEqual(raw[0], "raw")
        with self.assertRaises(TypeError):
            self.client.chat.completions.create(modell="typo")
        other = self.client.with_options(timeout=7)
        self.assertEqual(other.timeout, 7)
        other.chat.completions.create(**CHAT)
        first, wrong, second = self.records(3)
        self.assertEqual((first["output"], wrong["labels"]["error"], second["output"]), ("The keeper.", "TypeError", "The keeper."))
        with self.assertRaises(TypeError):
            wrap(object(), self.ledger)

    def test_fields_and_labels(self):
        client = wrap(self.inner, self.ledger, fields={"labels": {"service": "chat"}, "environment": {"host_platform": "linux"}}, provider="vllm")
        with labels(conversation="c1"):
            client.chat.completions.create(**CHAT, extra_body={"top_k": 5})
        record = self.only({"labels": {"service": "chat", "provider": "vllm", "conversation": "c1"}})
        self.assertEqual(record["payload"]["top_k"], 5)

    def test_messages_that_can_be_read_once(self):
        self.client.chat.completions.create(model="gpt-4o", messages=iter(CHAT["messages"]))
        self.assertEqual(self.inner.requests[-1]["messages"], CHAT["messages"])
        self.only({"system_prompt": "Be brief.\n\nNever guess."})

    def test_streams(self):
        stream = self.client.chat.completions.create(**CHAT, stream=True, stream_options={"include_usage": True})
        self.assertIsInstance(stream, shapes.Stream)
        self.assertEqual(stream.response, "the HTTP response")
        text = "".join(c.choices[0].delta.content or "" for c in stream if c.choices and "content" in dict(c.choices[0].delta))
        self.assertEqual(text, "The keeper.")
        record = self.only({**CHAT_RECORD, "output": "The keeper.", "labels": {"finish_reason": "stop", "response_id": "chatcmpl-2"}})
        self.assertEqual((record["usage"]["input_tokens"], record["usage"]["output_tokens"], record["usage"]["cache_read_tokens"]), (19, 3, 1))
        self.assertNotIn("stream", record["labels"])

    def test_streams_that_the_caller_leaves(self):
        for part in self.create(stream=True):
            if part.choices[0].delta.content == " keeper":
                break
        del part
        gc.collect()
        self.only({"output": "The keeper", "labels": {"stream": "interrupted"}})
        with self.create(stream=True) as stream:
            next(stream), next(stream)
        self.only({"output": "The", "labels": {"stream": "interrupted"}})
        self.assertTrue(stream.closed)
        stream = self.create(stream=True)
        next(stream), next(stream)
        stream.close()
        self.only({"output": "The", "labels": {"stream": "interrupted"}})
        self.create(stream=True)  # never read
        gc.collect()
        self.records(0)

    def test_streams_that_break_off(self):
        with self.assertRaises(shapes.APIConnectionError):
            for _ in self.create("cut off", stream=True):
                pass
        self.only({"output": "The keeper", "labels": {"error": "APIConnectionError"}})

    def test_helpers(self):
        with self.client.chat.completions.stream(**CHAT) as stream:
            self.assertEqual(stream.get_final_completion().choices[0].message.content, "The keeper.")
        self.only({**CHAT_RECORD, "output": "The keeper.", "labels": {"finish_reason": "stop"}})
        with self.client.chat.completions.stream(**CHAT) as stream:
            for _ in stream:
                pass
        self.only({**CHAT_RECORD, "output": "The keeper.", "labels": {"response_id": "chatcmpl-2"}})

        class Word:
            @classmethod
            def model_json_schema(cls):
                return {"title": "Word"}

        self.client.chat.completions.parse(model="gpt-4o", messages=[], response_format=Word)
        self.only({"output": '{"word":"quay"}', "payload": {"messages": [], "response_format": {"title": "Word"}}})

    def test_tools(self):
        messages = [{"role": "user", "content": "use a tool"},
                    {"role": "assistant", "content": None, "tool_calls": [{"id": "call_q1", "type": "function", "function": {"name": "look_up", "arguments": '{"word": "sea"}'}}]},
                    {"role": "tool", "tool_call_id": "call_q1", "content": "water"}]
        self.create(messages=messages)
        stated = {"name": "look_up", "arguments": '{"word":"sea"}'}
        self.only({"payload": {"messages": [messages[0], {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": stated}]},
                                            {"role": "tool", "tool_call_id": "call_1", "content": "water"}]},
                   "output": '[{"role":"assistant","tool_calls":[{"function":{"arguments":"{\\"n\\":1.0,\\"word\\":\\"quay\\"}","name":"look_up"},"id":"call_2","type":"function"}]}]'})
        for _ in self.create(messages=messages, stream=True):
            pass
        self.only({"output": '[{"role":"assistant","tool_calls":[{"function":{"arguments":"{\\"word\\":\\"quay\\"}","name":"look_up"},"id":"call_2","type":"function"}]}]',
                   "labels": {"finish_reason": "tool_calls"}})

    def test_refusals_completions_and_responses(self):
        self.create("refuse")
        self.only({"output": "No."})
        self.client.completions.create(model="davinci", prompt="Once", max_tokens=3)
        self.only({"payload": {"prompt": "Once"}, "output": " upon a time", "max_tokens": 3, "labels": {"operation": "text_completion"}, "environment": None})
        self.client.responses.create(model="gpt-4o", instructions="Be brief.", input="Where?", reasoning={"effort": "low"})
        self.only({"system_prompt": "Be brief.", "payload": {"messages": [{"role": "user", "content": "Where?"}], "reasoning": {"effort": "low"}}, "output": "By the sea."})
        for _ in self.client.responses.create(model="gpt-4o", input="Where?", stream=True):
            pass
        self.only({"output": "By the sea.", "labels": {"response_id": "resp_1", "finish_reason": "completed"}})

    def test_failures(self):
        with self.assertRaises(shapes.BadRequestError):
            self.create("break")
        self.only({"output": None, "labels": {"error": "BadRequestError"}})

    def test_asyncio(self):
        client = wrap(shapes.AsyncOpenAI(), self.ledger)

        async def main():
            answer = await client.chat.completions.create(**CHAT)
            self.assertEqual(answer.choices[0].message.content, "The keeper.")
            stream = await client.chat.completions.create(**CHAT, stream=True)
            self.assertEqual(len([c async for c in stream]), len(shapes.CHUNKS))
            async with await client.chat.completions.create(**CHAT, stream=True) as stream:
                await stream.__anext__()
                await stream.__anext__()
            self.assertTrue(stream.closed)
            with self.assertRaises(shapes.BadRequestError):
                await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "break"}])

        asyncio.run(main())
        whole, streamed, left, failed = self.records(4)
        for record in whole, streamed:
            self.assertEqual({name: record[name] for name in CHAT_RECORD}, CHAT_RECORD)
            self.assertEqual(record["output"], "The keeper.")
        self.assertEqual((left["output"], left["labels"]["stream"], failed["labels"]["error"]), ("The", "interrupted", "BadRequestError"))

    def test_answers_of_clients_without_models(self):
        for answer in (shapes.completion("The keeper."), types.SimpleNamespace(choices=[types.SimpleNamespace(message=types.SimpleNamespace(content="The keeper."))])):
            client = wrap(types.SimpleNamespace(chat=types.SimpleNamespace(completions=types.SimpleNamespace(create=lambda answer=answer, **request: answer))), self.ledger)
            self.assertIs(client.chat.completions.create(**CHAT), answer)
            self.only({**CHAT_RECORD, "output": "The keeper."})


class Anthropic(Recorded):
    asked = {"model": "claude-sonnet-4-0", "max_tokens": 64, "temperature": 1, "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
             "stop_sequences": ["END"], "messages": [{"role": "user", "content": [{"type": "text", "text": "What comes?"}]}], "metadata": {"user_id": "u"}}
    expected = {"model": "claude-sonnet-4-0", "max_tokens": 64, "temperature": 1, "system_prompt": "Be brief.",
                "payload": {"messages": [{"role": "user", "content": "What comes?"}], "stop": ["END"]}, "output": "The tide.",
                "environment": {"model_digest": "claude-sonnet-4-20250514"}, "labels": {"provider": "anthropic", "response_id": "msg_01", "finish_reason": "end_turn"}}

    def setUp(self):
        super().setUp()
        self.client = wrap(shapes.Anthropic(), self.ledger)

    def test_messages_and_streams(self):
        self.client.messages.create(**self.asked)
        record = self.only(self.expected)
        self.assertEqual([record["usage"][n] for n in ("input_tokens", "cache_read_tokens", "output_tokens")], [12, 3, 6])
        for _ in self.client.messages.create(**self.asked, stream=True):
            pass
        self.only(self.expected)

    def test_helpers(self):
        with self.client.messages.stream(**self.asked) as stream:
            self.assertEqual("".join(stream.text_stream), "The tide.")
        self.only(self.expected)
        with self.client.messages.stream(**self.asked) as stream:
            self.assertEqual(stream.get_final_message().content[0].text, "The tide.")
        self.only(self.expected)
        with self.client.messages.stream(**self.asked) as stream:
            for event in stream:
                if event.type == "content_block_delta":
                    break
        self.only({"output": "The ", "labels": {"stream": "interrupted"}})
        with self.client.messages.stream(**self.asked):
            pass
        self.records(0)

    def test_thinking_and_tools(self):
        self.client.messages.create(**{**self.asked, "messages": [
            {"role": "user", "content": "use a tool"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_0", "name": "look_up", "input": {"word": "sea"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_0", "content": "water"}, {"type": "text", "text": "Go on."}]}]})
        record = self.only({"output": '[{"content":"I look.","role":"assistant","tool_calls":[{"function":{"arguments":"{\\"word\\":\\"quay\\"}",'
                                      '"name":"look_up"},"id":"call_2","type":"function"}]}]'})
        self.assertEqual(record["payload"]["messages"][1:], [
            {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "look_up", "arguments": '{"word":"sea"}'}, "id": "call_1"}]},
            {"role": "tool", "content": "water", "tool_call_id": "call_1"}, {"role": "user", "content": "Go on."}])

    def test_failures_and_asyncio(self):
        with self.assertRaises(shapes.BadRequestError):
            self.client.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "break"}])
        self.only({"output": None, "labels": {"error": "BadRequestError"}})
        client = wrap(shapes.AsyncAnthropic(), self.ledger)

        async def main():
            await client.messages.create(**self.asked)
            async for _ in await client.messages.create(**self.asked, stream=True):
                pass
            async with client.messages.stream(**self.asked) as stream:
                async for _ in stream:
                    pass

        asyncio.run(main())
        for record in self.records(3):
            self.assertEqual(record["output"], "The tide.")


class LangChain(Recorded):
    def setUp(self):
        super().setUp()
        core, callbacks = types.ModuleType("langchain_core"), types.ModuleType("langchain_core.callbacks")
        callbacks.BaseCallbackHandler = type("BaseCallbackHandler", (), {"raise_error": False, "run_inline": False})
        with mock.patch.dict(sys.modules, {"langchain_core": core, "langchain_core.callbacks": callbacks}):
            self.handler = langchain_handler(self.ledger, {"labels": {"chain": "c"}})
        self.assertIsInstance(self.handler, callbacks.BaseCallbackHandler)
        self.run = uuid.uuid4()

    def start(self, **metadata):
        messages = [shapes.LangChainMessage("system", "Be brief."), shapes.LangChainMessage("human", "Who keeps it?")]
        self.handler.on_chat_model_start({"id": ["x"], "kwargs": {"model": "from serialized"}}, [messages], run_id=self.run, parent_run_id=None, tags=[], metadata=metadata,
                                         invocation_params={"model": "t-1", "temperature": 0.5, "top_p": 0.9, "api_key": "secret", "_type": "t"}, options={}, name="T")

    def test_answers(self):
        self.start(ls_provider="tester", ls_max_tokens=9)
        answer = shapes.LangChainMessage("ai", "Ana keeps it.", usage_metadata={"input_tokens": 4, "output_tokens": 2, "total_tokens": 6},
                                         response_metadata={"model_name": "t-1-large", "finish_reason": "stop"}, id="run-1")
        self.handler.on_llm_end(types.SimpleNamespace(generations=[[types.SimpleNamespace(text="Ana keeps it.", message=answer, generation_info=None)]], llm_output=None), run_id=self.run)
        record = self.only({"model": "t-1", "temperature": 0.5, "max_tokens": 9, "system_prompt": "Be brief.", "output": "Ana keeps it.",
                            "payload": {"messages": [{"role": "user", "content": "Who keeps it?"}], "top_p": 0.9}, "environment": {"model_digest": "t-1-large"},
                            "labels": {"chain": "c", "provider": "tester", "finish_reason": "stop"}})
        self.assertEqual(record["usage"]["input_tokens"], 4)
        self.assertNotIn("secret", json.dumps(record))

    def test_tools_texts_and_failures(self):
        self.start()
        answer = shapes.LangChainMessage("ai", "", tool_calls=[{"id": "x", "name": "look_up", "args": {"word": "quay"}}])
        self.handler.on_llm_end(types.SimpleNamespace(generations=[[types.SimpleNamespace(text="", message=answer, generation_info={"finish_reason": "tool_calls"})]], llm_output={}),
                                run_id=self.run)
        self.only({"output": '[{"content":"","role":"assistant","tool_calls":[{"function":{"arguments":"{\\"word\\":\\"quay\\"}","name":"look_up"},"id":"call_1","type":"function"}]}]'})
        self.handler.on_llm_start({}, ["Once"], run_id=self.run, metadata=None, invocation_params={"model_name": "d"})
        self.handler.on_llm_end(types.SimpleNamespace(generations=[[types.SimpleNamespace(text=" upon", generation_info=None)]],
                                                      llm_output={"token_usage": {"prompt_tokens": 1, "completion_tokens": 2}}), run_id=self.run)
        self.assertEqual(self.only({"model": "d", "output": " upon"})["usage"]["output_tokens"], 2)
        self.start()
        self.handler.on_llm_error(RuntimeError("no"), run_id=self.run)
        self.only({"output": None, "labels": {"error": "RuntimeError"}})
        self.handler.on_llm_end(None, run_id=uuid.uuid4())
        self.records(0)

    def test_without_the_library(self):
        with mock.patch.dict(sys.modules, {"langchain_core": None, "langchain_core.callbacks": None}), self.assertRaises(ImportError):
            langchain_handler(self.ledger)


class LiteLLM(Recorded):
    def setUp(self):
        super().setUp()
        names = "litellm", "litellm.integrations", "litellm.integrations.custom_logger"
        modules = {name: types.ModuleType(name) for name in names}
        modules[names[2]].CustomLogger = type("CustomLogger", (), {"__init__": lambda self, message_logging=True: None})
        with mock.patch.dict(sys.modules, modules):
            self.logger = litellm_logger(self.ledger)
        self.kwargs = {"litellm_call_id": "c-1", "model": "gpt-4o", "messages": CHAT["messages"], "call_type": "acompletion", "custom_llm_provider": "azure", "stream": False,
                       "optional_params": {"temperature": 0.2, "top_p": 0.9, "max_tokens": 50, "seed": 7, "stop": "END", "extra_headers": {"api-key": "secret"}},
                       "litellm_params": {"api_key": "secret"}}
        self.start = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
        self.end = self.start + datetime.timedelta(seconds=1.5)

    def test_answers_once(self):
        answer = shapes.Object(shapes.completion("The keeper."))
        self.logger.log_success_event(self.kwargs, answer, self.start, self.end)
        asyncio.run(self.logger.async_log_success_event(self.kwargs, answer, self.start, self.end))
        record = self.only({**CHAT_RECORD, "output": "The keeper.", "labels": {"provider": "azure", "operation": "chat"}})
        self.assertEqual(record["usage"]["duration_ms"], 1500)
        self.assertNotIn("secret", json.dumps(record))

    def test_streams_and_failures(self):
        kwargs = {**self.kwargs, "stream": True}
        self.logger.log_success_event(kwargs, shapes.Object(shapes.CHUNKS[1]), self.start, self.end)
        self.logger.log_success_event({**kwargs, "complete_streaming_response": shapes.Object(shapes.completion("Whole."))}, None, self.start, self.end)
        self.only({"output": "Whole."})
        self.logger.log_failure_event({**self.kwargs, "litellm_call_id": "c-2", "exception": shapes.BadRequestError("no")}, None, self.start, self.end)
        self.only({"output": None, "labels": {"error": "BadRequestError"}})
        self.logger.log_success_event({**self.kwargs, "litellm_call_id": "c-3"}, None, self.start, self.end)
        self.only({"output": None})
        with mock.patch.dict(sys.modules, {"litellm": None}), self.assertRaises(ImportError):
            litellm_logger(self.ledger)


class Rules(unittest.TestCase):
    def test_the_same_chat_is_the_same_input_in_all_apis(self):
        chat = openai_request({"model": "m", "messages": [{"role": "system", "content": "p"}, {"role": "user", "content": "q"}]})
        responses = responses_request({"model": "m", "instructions": "p", "input": "q"})
        items = responses_request({"model": "m", "instructions": "p", "input": [{"role": "user", "content": [{"type": "input_text", "text": "q"}]}]})
        self.assertEqual(chat, responses)
        self.assertEqual(chat, items)

    def test_strange_requests(self):
        self.assertEqual(openai_request({}), {"model": "unknown", "payload": {"messages": []}})
        odd = openai_request({"model": 3, "messages": "hi", "temperature": True, "max_tokens": -1, "seed": 1.5, "n": 2})
        self.assertEqual(odd, {"model": "unknown", "payload": {"messages": [{"role": "user", "content": "hi"}], "n": 2}})
        self.assertEqual(openai_request({"model": "m", "seed": 10**400, "temperature": float("nan")})["seed"], 10**400)
        self.assertEqual(read_answer("text").fields, {"labels": {}})
        self.assertEqual(read_answer({"choices": []}).fields["output"], "[]")


if __name__ == "__main__":
    unittest.main()
