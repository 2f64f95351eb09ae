// A stand-in for the APIs of the models. It sends recorded responses, either whole or as a stream.
import { createServer } from "node:http";

const completion = (content, others = {}) => ({
  id: "chatcmpl-1", object: "chat.completion", created: 1767323045, model: "gpt-4o-2024-08-06", system_fingerprint: "fp_1", service_tier: "default",
  choices: [{ index: 0, message: { role: "assistant", content, refusal: null, annotations: [] }, logprobs: null, finish_reason: "stop" }],
  usage: { prompt_tokens: 19, completion_tokens: 5, total_tokens: 24, prompt_tokens_details: { cached_tokens: 4, audio_tokens: 0 }, completion_tokens_details: { reasoning_tokens: 2 } }, ...others,
});
const toolCall = { id: "call_8aK2", type: "function", function: { name: "look_up", arguments: '{ "word":"quay" , "n": 1.0 }' } };

const chunk = (delta, finish_reason = null, others = {}) => ({
  id: "chatcmpl-2", object: "chat.completion.chunk", created: 1767323045, model: "gpt-4o-2024-08-06", system_fingerprint: "fp_1", choices: [{ index: 0, delta, logprobs: null, finish_reason }], ...others,
});
const chunks = [chunk({ role: "assistant", content: "", refusal: null }), chunk({ content: "The" }), chunk({ content: " keeper" }), chunk({ content: "." }), chunk({}, "stop"),
  { ...chunk({}), choices: [], usage: { prompt_tokens: 19, completion_tokens: 3, total_tokens: 22 } }];
const toolChunks = [
  chunk({ role: "assistant", content: null, tool_calls: [{ index: 0, id: "call_9x", type: "function", function: { name: "look_up", arguments: "" } }] }),
  chunk({ tool_calls: [{ index: 0, function: { arguments: '{"word":' } }] }), chunk({ tool_calls: [{ index: 0, function: { arguments: ' "quay"}' } }] }), chunk({}, "tool_calls")];

const response = (text) => ({
  id: "resp_1", object: "response", created_at: 1767323045, status: "completed", model: "gpt-4o-2024-08-06", error: null, incomplete_details: null, instructions: null,
  output: [{ type: "reasoning", id: "rs_1", summary: [] }, { type: "message", id: "msg_1", status: "completed", role: "assistant", content: [{ type: "output_text", text, annotations: [] }] }],
  parallel_tool_calls: true, tool_choice: "auto", tools: [], usage: { input_tokens: 9, input_tokens_details: { cached_tokens: 0 }, output_tokens: 4, output_tokens_details: { reasoning_tokens: 1 }, total_tokens: 13 },
});
const responseEvents = [
  { type: "response.created", sequence_number: 0, response: { ...response(""), status: "in_progress", output: [] } },
  { type: "response.output_item.added", sequence_number: 1, output_index: 0, item: { type: "message", id: "msg_1", status: "in_progress", role: "assistant", content: [] } },
  { type: "response.content_part.added", sequence_number: 2, item_id: "msg_1", output_index: 0, content_index: 0, part: { type: "output_text", text: "", annotations: [] } },
  { type: "response.output_text.delta", sequence_number: 3, item_id: "msg_1", output_index: 0, content_index: 0, delta: "By the " },
  { type: "response.output_text.delta", sequence_number: 4, item_id: "msg_1", output_index: 0, content_index: 0, delta: "sea." },
  { type: "response.completed", sequence_number: 5, response: response("By the sea.") }];

const message = (content, others = {}) => ({
  id: "msg_01", type: "message", role: "assistant", model: "claude-sonnet-4-20250514", content, stop_reason: "end_turn", stop_sequence: null,
  usage: { input_tokens: 12, cache_creation_input_tokens: 0, cache_read_input_tokens: 3, output_tokens: 6, service_tier: "standard" }, ...others,
});
const messageEvents = [
  { type: "message_start", message: message([], { stop_reason: null, usage: { input_tokens: 12, output_tokens: 1 } }) },
  { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }, { type: "ping" },
  { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "The " } }, { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "tide." } },
  { type: "content_block_stop", index: 0 }, { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 6 } }, { type: "message_stop" }];

function answer(path, body) {
  const asked = JSON.stringify(body.messages ?? body.input ?? body.prompt ?? "");
  if (asked.includes("break")) return { error: 400 };
  if (path === "/v1/chat/completions") {
    if (asked.includes("use a tool")) return body.stream ? { events: toolChunks, done: true } : { json: completion(null, { choices: [{ index: 0, message: { role: "assistant", content: null, refusal: null, tool_calls: [toolCall] }, logprobs: null, finish_reason: "tool_calls" }] }) };
    if (asked.includes("cut off")) return { events: chunks.slice(0, 3), cut: true };
    if (asked.includes("refuse")) return { json: completion(null, { choices: [{ index: 0, message: { role: "assistant", content: null, refusal: "No." }, logprobs: null, finish_reason: "stop" }] }) };
    return body.stream ? { events: chunks, done: true } : { json: completion(body.response_format ? '{"word":"quay"}' : "The keeper.") };
  }
  if (path === "/v1/completions") return { json: { id: "cmpl-1", object: "text_completion", created: 1, model: body.model, choices: [{ index: 0, text: " upon a time", logprobs: null, finish_reason: "length" }], usage: { prompt_tokens: 1, completion_tokens: 3, total_tokens: 4 } } };
  if (path === "/v1/responses") return body.stream ? { events: responseEvents, named: true } : { json: response("By the sea.") };
  if (path === "/v1/messages") {
    if (asked.includes("use a tool")) return { json: message([{ type: "thinking", thinking: "hm", signature: "s" }, { type: "text", text: "I look." }, { type: "tool_use", id: "toolu_1", name: "look_up", input: { word: "quay" } }], { stop_reason: "tool_use" }) };
    return body.stream ? { events: messageEvents, named: true } : { json: message([{ type: "text", text: "The tide." }]) };
  }
  return { error: 404 };
}

export async function models() {
  const requests = [];
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const part of request) text += part;
    const body = JSON.parse(text || "{}");
    requests.push(body);
    const given = answer(request.url.split("?")[0], body);
    if (given.error) {
      response.writeHead(given.error, { "Content-Type": "application/json" });
      response.end(JSON.stringify({ type: "error", error: { message: "no such thing", type: "invalid_request_error" } }));
      return;
    }
    if (given.json) {
      response.writeHead(200, { "Content-Type": "application/json", "x-request-id": "req_1", "request-id": "req_1" });
      response.end(JSON.stringify(given.json));
      return;
    }
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    for (const event of given.events) response.write((given.named ? `event: ${event.type}\n` : "") + `data: ${JSON.stringify(event)}\n\n`);
    if (given.cut) {
      response.flushHeaders();
      setTimeout(() => response.destroy(), 50);
      return;
    }
    if (given.done) response.write("data: [DONE]\n\n");
    response.end();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    requests, url: `http://127.0.0.1:${server.address().port}`,
    close: () => new Promise((resolve) => {
      server.closeAllConnections();
      server.close(resolve);
    }),
  };
}
