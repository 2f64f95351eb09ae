// Tests of the wrappers with the real libraries and an endpoint that sends recorded responses.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach, describe, it } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { AIMessage, HumanMessage, SystemMessage } from "@langchain/core/messages";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { FakeListChatModel, FakeStreamingChatModel } from "@langchain/core/utils/testing";
import OpenAI from "openai";
import { Ledger, langchainHandler, wrap } from "../dist/index.js";
import { openaiRequest, readAnswer, responsesRequest } from "../dist/chat/chat.js";
import { models } from "./support/models.mjs";
import { Server, eventually } from "./support/server.mjs";

const scratch = mkdtempSync(join(tmpdir(), "colophon-ts-wrap-"));
let server;
let endpoint;
let ledger;
let openai;
let anthropic;
let records = []; // what was given to the ledger

before(async () => {
  [server, endpoint] = await Promise.all([new Server().start(), models()]);
  ledger = new Ledger({ url: server.url, spool: scratch, warn: (message) => assert.fail(message) });
  const record = ledger.record.bind(ledger);
  ledger.record = (kind, body, options) => {
    records.push(body);
    return record(kind, body, options);
  };
  openai = wrap(new OpenAI({ apiKey: "sk", baseURL: `${endpoint.url}/v1`, maxRetries: 0 }), ledger);
  anthropic = wrap(new Anthropic({ apiKey: "sk", baseURL: endpoint.url, maxRetries: 0 }), ledger);
});
beforeEach(() => (records = []));
after(async () => {
  // The ledger accepts every record of these tests.
  const done = await ledger.flush(20_000);
  const { accepted, recorded, rejected } = ledger.stats();
  await ledger.close();
  await Promise.all([server.remove(), endpoint.close()]);
  rmSync(scratch, { recursive: true, force: true });
  assert.deepEqual([done, rejected, recorded], [true, 0, accepted]);
});

const chat = { model: "gpt-4o", temperature: 0.2, max_completion_tokens: 50, seed: 7, top_p: 0.9, user: "u1", metadata: { a: "b" }, n: 1, stop: "END",
  messages: [{ role: "system", content: "Be brief." }, { role: "developer", content: [{ type: "text", text: "Never guess." }] }, { role: "user", content: "Who keeps it?" }] };
const chatRecord = { model: "gpt-4o", temperature: 0.2, max_tokens: 50, seed: 7, system_prompt: "Be brief.\n\nNever guess.",
  payload: { messages: [{ role: "user", content: "Who keeps it?" }], top_p: 0.9, stop: ["END"] } };

/** Requires exactly one record, and that it has the expected members. */
function only(expected) {
  assert.equal(records.length, 1, JSON.stringify(records));
  const [record] = records;
  for (const [name, value] of Object.entries(expected)) assert.deepEqual(name === "labels" ? { ...record.labels, ...value } : record[name], name === "labels" ? record.labels : value, `${name}: ${JSON.stringify(record)}`);
  assert.ok(record.timestamp && record.usage.duration_ms >= 0);
  return record;
}

describe("openai", () => {
  it("records chat completions, and returns the library's own objects", async () => {
    const asked = structuredClone(chat);
    const promise = openai.chat.completions.create(asked);
    asked.messages.push({ role: "user", content: "later" }); // callers keep appending to their list
    const answer = await promise;
    assert.equal(answer.choices[0].message.content, "The keeper.");
    assert.equal(answer._request_id, "req_1");
    const record = only({ ...chatRecord, output: "The keeper.", environment: { model_digest: "gpt-4o-2024-08-06 fp_1" }, labels: { provider: "openai", operation: "chat", response_id: "chatcmpl-1", finish_reason: "stop" } });
    assert.deepEqual({ ...record.usage, duration_ms: 0 }, { input_tokens: 19, output_tokens: 5, cache_read_tokens: 4, reasoning_tokens: 2, duration_ms: 0 });
    assert.ok(openai instanceof OpenAI);
  });

  it("records once, however the promise is used, and leaves raw responses alone", async () => {
    const promise = openai.chat.completions.create(chat);
    const { data, response } = await promise.withResponse();
    assert.equal((await promise).id, data.id);
    assert.equal(response.status, 200);
    only({ output: "The keeper." });
    records = [];
    const raw = await openai.chat.completions.create(chat).asResponse();
    assert.equal((await raw.json()).id, "chatcmpl-1");
    assert.equal(records.length, 0);
  });

  it("records streams", async () => {
    const stream = await openai.chat.completions.create({ ...chat, stream: true, stream_options: { include_usage: true } });
    let text = "";
    for await (const part of stream) text += part.choices[0]?.delta.content ?? "";
    assert.equal(text, "The keeper.");
    const record = only({ ...chatRecord, output: "The keeper.", labels: { finish_reason: "stop", response_id: "chatcmpl-2" } });
    assert.deepEqual([record.usage.input_tokens, record.usage.output_tokens, record.labels.stream], [19, 3, undefined]);
  });

  it("records what has arrived of a stream that the caller leaves", async () => {
    for await (const part of await openai.chat.completions.create({ ...chat, stream: true })) if (part.choices[0].delta.content === " keeper") break;
    only({ output: "The keeper", labels: { stream: "interrupted" } });
  });

  it("records a stream that breaks off, and passes the error on", async () => {
    const stream = await openai.chat.completions.create({ model: "gpt-4o", stream: true, messages: [{ role: "user", content: "cut off" }] });
    await assert.rejects(async () => {
      for await (const part of stream) assert.ok(part);
    });
    const record = only({ output: "The keeper" });
    assert.ok(record.labels.error, JSON.stringify(record));
  });

  it("records the streams of the library's helpers", async () => {
    const stream = openai.chat.completions.stream(chat);
    const final = await stream.finalChatCompletion();
    assert.equal(final.choices[0].message.content, "The keeper.");
    only({ ...chatRecord, output: "The keeper.", labels: { finish_reason: "stop" } });
  });

  it("records parsed answers, with the format in the payload", async () => {
    const format = { type: "json_schema", json_schema: { name: "w", schema: { type: "object", properties: { word: { type: "string" } } } } };
    const answer = await openai.chat.completions.parse({ model: "gpt-4o", messages: [{ role: "user", content: "A word." }], response_format: format });
    assert.ok(answer.choices[0].message);
    only({ output: '{"word":"quay"}', payload: { messages: [{ role: "user", content: "A word." }], response_format: format } });
  });

  it("records calls of tools in one form, streamed or not, without random ids", async () => {
    const messages = [{ role: "user", content: "use a tool" }, { role: "assistant", content: null, tool_calls: [{ id: "call_q1", type: "function", function: { name: "look_up", arguments: '{"word": "sea"}' } }] },
      { role: "tool", tool_call_id: "call_q1", content: "water" }];
    await openai.chat.completions.create({ model: "gpt-4o", messages });
    const stated = { name: "look_up", arguments: '{"word":"sea"}' };
    only({ payload: { messages: [{ role: "user", content: "use a tool" }, { role: "assistant", tool_calls: [{ id: "call_1", type: "function", function: stated }] }, { role: "tool", tool_call_id: "call_1", content: "water" }] },
      output: '[{"role":"assistant","tool_calls":[{"function":{"arguments":"{\\"n\\":1.0,\\"word\\":\\"quay\\"}","name":"look_up"},"id":"call_2","type":"function"}]}]' });
    records = [];
    for await (const part of await openai.chat.completions.create({ model: "gpt-4o", messages, stream: true })) assert.ok(part);
    only({ output: '[{"role":"assistant","tool_calls":[{"function":{"arguments":"{\\"word\\":\\"quay\\"}","name":"look_up"},"id":"call_2","type":"function"}]}]', labels: { finish_reason: "tool_calls" } });
  });

  it("records refusals, completions, and responses", async () => {
    await openai.chat.completions.create({ model: "gpt-4o", messages: [{ role: "user", content: "refuse" }] });
    only({ output: "No." });
    records = [];
    await openai.completions.create({ model: "davinci", prompt: "Once", max_tokens: 3 });
    only({ payload: { prompt: "Once" }, output: " upon a time", max_tokens: 3, labels: { operation: "text_completion" }, environment: undefined });
    records = [];
    const answer = await openai.responses.create({ model: "gpt-4o", instructions: "Be brief.", input: "Where?", reasoning: { effort: "low" } });
    assert.equal(answer.output_text, "By the sea.");
    only({ system_prompt: "Be brief.", payload: { messages: [{ role: "user", content: "Where?" }], reasoning: { effort: "low" } }, output: "By the sea." });
    records = [];
    for await (const event of await openai.responses.create({ model: "gpt-4o", input: "Where?", stream: true })) assert.ok(event.type);
    only({ output: "By the sea.", labels: { response_id: "resp_1", finish_reason: "completed" } });
    records = [];
    await openai.responses.stream({ model: "gpt-4o", input: "Where?" }).finalResponse();
    only({ output: "By the sea." });
  });

  it("records failures without output, and passes them on", async () => {
    await assert.rejects(openai.chat.completions.create({ model: "gpt-4o", messages: [{ role: "user", content: "break" }] }), OpenAI.BadRequestError);
    only({ output: undefined, labels: { error: "BadRequestError" } });
  });

  it("passes everything else on", async () => {
    await assert.rejects(openai.models.list(), OpenAI.NotFoundError);
    assert.equal(records.length, 0);
    const other = openai.withOptions({ timeout: 5000 });
    assert.equal(other.timeout, 5000);
    await other.chat.completions.create(chat);
    only({ output: "The keeper." });
    assert.equal(openai.baseURL, `${endpoint.url}/v1`);
    assert.throws(() => wrap({}, ledger), TypeError);
  });
});

describe("anthropic", () => {
  const asked = { model: "claude-sonnet-4-0", max_tokens: 64, temperature: 1, system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } }], stop_sequences: ["END"],
    messages: [{ role: "user", content: [{ type: "text", text: "What comes?" }] }], metadata: { user_id: "u" } };
  const expected = { model: "claude-sonnet-4-0", max_tokens: 64, temperature: 1, system_prompt: "Be brief.", payload: { messages: [{ role: "user", content: "What comes?" }], stop: ["END"] },
    output: "The tide.", environment: { model_digest: "claude-sonnet-4-20250514" }, labels: { provider: "anthropic", response_id: "msg_01", finish_reason: "end_turn" } };

  it("records messages and streams", async () => {
    assert.equal((await anthropic.messages.create(asked)).content[0].text, "The tide.");
    const record = only(expected);
    assert.deepEqual([record.usage.input_tokens, record.usage.cache_read_tokens, record.usage.output_tokens], [12, 3, 6]);
    records = [];
    let text = "";
    for await (const event of await anthropic.messages.create({ ...asked, stream: true })) text += event.delta?.text ?? "";
    assert.equal(text, "The tide.");
    only(expected);
    records = [];
    assert.equal(await anthropic.messages.stream(asked).finalText(), "The tide.");
    only(expected);
    records = [];
    const stream = anthropic.messages.stream(asked);
    for await (const event of stream) if (event.type === "content_block_delta") break;
    await eventually(() => records.length > 0, "the library has ended the stream");
    assert.ok(records.length === 1 && records[0].output.startsWith("The ") && !records[0].labels.error, JSON.stringify(records));
  });

  it("leaves out the model's thinking, and keeps calls of tools", async () => {
    await anthropic.messages.create({ ...asked, messages: [{ role: "user", content: "use a tool" }, { role: "assistant", content: [{ type: "tool_use", id: "toolu_0", name: "look_up", input: { word: "sea" } }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_0", content: "water" }, { type: "text", text: "Go on." }] }] });
    const record = only({ output: '[{"content":"I look.","role":"assistant","tool_calls":[{"function":{"arguments":"{\\"word\\":\\"quay\\"}","name":"look_up"},"id":"call_2","type":"function"}]}]' });
    assert.deepEqual(record.payload.messages.slice(1), [{ role: "assistant", tool_calls: [{ type: "function", function: { name: "look_up", arguments: '{"word":"sea"}' }, id: "call_1" }] },
      { role: "tool", content: "water", tool_call_id: "call_1" }, { role: "user", content: "Go on." }]);
  });

  it("records failures", async () => {
    await assert.rejects(anthropic.messages.create({ ...asked, messages: [{ role: "user", content: "break" }] }), Anthropic.BadRequestError);
    only({ output: undefined, labels: { error: "BadRequestError" } });
  });
});

describe("LangChain", () => {
  const messages = [new SystemMessage("Be brief."), new HumanMessage("Who keeps it?")];

  it("records answers and streams", async () => {
    const model = new FakeListChatModel({ responses: ["Ana keeps it."] });
    const callbacks = [langchainHandler(ledger, { fields: { labels: { chain: "c" } } })];
    assert.equal((await model.invoke(messages, { callbacks })).content, "Ana keeps it.");
    only({ system_prompt: "Be brief.", output: "Ana keeps it.", labels: { chain: "c", operation: "chat" } });
    assert.deepEqual(records[0].payload.messages, [{ role: "user", content: "Who keeps it?" }]);
    records = [];
    let text = "";
    for await (const part of await model.stream(messages, { callbacks })) text += part.content;
    assert.equal(text, "Ana keeps it.");
    only({ output: "Ana keeps it." });
    records = [];
    class Tools extends BaseChatModel {
      _llmType() {
        return "tools";
      }

      invocationParams() {
        return { model: "t-1", temperature: 0.5, top_p: 0.9, api_key: "secret" };
      }

      _generate() {
        const message = new AIMessage({ content: "", tool_calls: [{ id: "x", name: "look_up", args: { word: "quay" } }], response_metadata: { model_name: "t-1-large", finish_reason: "tool_calls" },
          usage_metadata: { input_tokens: 4, output_tokens: 2, total_tokens: 6 } });
        return Promise.resolve({ generations: [{ text: "", message }] });
      }
    }
    await new Tools({}).invoke(messages, { callbacks });
    assert.ok(!JSON.stringify(records).includes("secret"));
    only({ output: '[{"content":"","role":"assistant","tool_calls":[{"function":{"arguments":"{\\"word\\":\\"quay\\"}","name":"look_up"},"id":"call_1","type":"function"}]}]',
      model: "t-1", temperature: 0.5, environment: { model_digest: "t-1-large" }, labels: { finish_reason: "tool_calls" } });
    assert.deepEqual([records[0].payload.top_p, records[0].usage.input_tokens], [0.9, 4]);
  });

  it("records failures", async () => {
    const model = new FakeStreamingChatModel({ thrownErrorString: "no" });
    await assert.rejects(model.invoke(messages, { callbacks: [langchainHandler(ledger)] }));
    only({ output: undefined, labels: { error: "Error" } });
  });
});

describe("a recording that fails", () => {
  it("does not fail the call, nor slow it down", async () => {
    const broken = { record: () => { throw new Error("mine"); }, warn: () => { throw new Error("mine too"); }, contextLabels: () => ({}) };
    const client = wrap(new OpenAI({ apiKey: "sk", baseURL: `${endpoint.url}/v1` }), { ...broken, warn: () => undefined });
    assert.equal((await client.chat.completions.create(chat)).choices[0].message.content, "The keeper.");
    for await (const part of await client.chat.completions.create({ ...chat, stream: true })) assert.ok(part);
    const circular = { ...chat, tools: [] };
    circular.tools.push(circular.tools);
    await assert.rejects(client.chat.completions.create(circular), TypeError, "the library's own error");
    const down = new Ledger({ url: "http://127.0.0.1:1", spool: join(scratch, "down"), warn: () => undefined });
    const begun = performance.now();
    await wrap(new OpenAI({ apiKey: "sk", baseURL: `${endpoint.url}/v1` }), down).chat.completions.create(chat);
    assert.ok(performance.now() - begun < 10_000);
    assert.equal(down.stats().accepted, 1);
    await down.close(1);
  });
});

describe("the mapping", () => {
  it("gives the same input for the same conversation in each API", () => {
    const tools = { messages: [{ role: "user", content: "q" }], tools: [{ type: "function" }] };
    assert.deepEqual(openaiRequest({ model: "m", ...tools }).payload, responsesRequest({ model: "m", input: "q", tools: tools.tools }).payload);
    assert.deepEqual(openaiRequest({ model: "m", messages: [{ role: "system", content: "s" }, { role: "user", content: "q" }] }), responsesRequest({ model: "m", instructions: "s", input: "q" }));
    assert.deepEqual(readAnswer({ no: "answer" }).fields, { labels: {} });
    const twice = openaiRequest({ messages: [{ role: "user", content: "q" }, { role: "system", content: "late" }] });
    assert.equal(twice.system_prompt, undefined, "a later system message is part of the input");
    assert.equal(twice.model, "unknown");
  });
});
