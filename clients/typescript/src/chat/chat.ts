// How a chat call becomes an IPC record, for OpenAI-style and Anthropic-style APIs. The rules are those of the ledger's OTLP
// receiver and of the Python client, so that the same chat has the same hashes whichever way it is recorded.
//
// - system_prompt is the text of the instructions that a request has apart from its messages (system, instructions), and of the
//   messages at the beginning whose role is system or developer, joined by an empty line.
// - payload is {"messages": [the other messages], …} and the parameters that shape the output. Messages have the form of OpenAI's
//   chat completions. The random ids of tool calls become call_1, call_2, …: the same conversation would otherwise never be the
//   same input. Other parameters, such as user and metadata, are left out.
// - model is the requested one. If another model answered, environment.model_digest names it, with the answer's fingerprint.
// - output is the text of the only answer, without the model's reasoning. Several answers, and answers that call tools, are a JSON
//   array of messages.

import type { Fields } from "../client/generation.js";
import { toJSON, valueOf } from "../hashes/raw.js";
import { canonical, parseJSON } from "../verify/json.js";

type Json = Record<string, unknown>;

/** The names of tool calls by their ids: one for each call, shared by its request and its answer. */
export type Names = Map<string, string>;

/** What an answer contains: fields of the record, and the model that answered. */
export interface Answer {
  readonly fields: Fields;
  readonly model: string;
  readonly fingerprint: string;
}

interface ToolCall {
  readonly id: string | undefined;
  readonly name: string;
  readonly arguments: string | undefined; // JSON
}

interface Message {
  role: string;
  name?: string;
  answers?: string; // the id of the tool call that it answers
  parts: { kind: "text" | "reasoning" | "other"; value: unknown }[];
  calls: ToolCall[];
}

const instructionRoles = ["system", "developer"];
const roles: Readonly<Record<string, string>> = { human: "user", ai: "assistant", model: "assistant" };
const items = ["function_call", "custom_tool_call", "function_call_output", "custom_tool_call_output", "reasoning"];
// The parameters that become members of the payload. All others stay out: some carry credentials.
const parameters = new Set(["candidate_count", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs", "min_p", "n", "parallel_tool_calls", "presence_penalty",
  "reasoning", "reasoning_effort", "repetition_penalty", "response_format", "stop", "stop_sequences", "text", "thinking", "tool_choice", "tools", "top_k", "top_logprobs", "top_p", "verbosity"]);
const counts: readonly (readonly [string, readonly (readonly string[])[]])[] = [
  ["input_tokens", [["input_tokens"], ["prompt_tokens"]]],
  ["output_tokens", [["output_tokens"], ["completion_tokens"]]],
  ["cache_creation_tokens", [["cache_creation_input_tokens"]]],
  ["cache_read_tokens", [["cache_read_input_tokens"], ["prompt_tokens_details", "cached_tokens"], ["input_tokens_details", "cached_tokens"], ["input_token_details", "cache_read"]]],
  ["reasoning_tokens", [["completion_tokens_details", "reasoning_tokens"], ["output_tokens_details", "reasoning_tokens"], ["output_token_details", "reasoning"]]],
];

function isObject(value: unknown): value is Json {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** Returns a member of an object, and undefined of anything else. */
export function get(value: unknown, name: string): unknown {
  return isObject(value) ? value[name] : undefined;
}

function first(value: Json, ...names: string[]): string | undefined {
  return names.map((name) => value[name]).find((member) => typeof member === "string");
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Copies a value as JSON would represent it, so that later changes by the caller have no effect. */
function plain(value: unknown): unknown {
  const text = toJSON(value);
  return text === undefined ? undefined : JSON.parse(text);
}

function compact(value: unknown): string {
  return canonical(valueOf(value));
}

// Requests

/** Reads the arguments of chat.completions.create. */
export function openaiRequest(request: Json, names: Names = new Map()): Fields {
  return readRequest(request, [], request["messages"], names);
}

/** Reads the arguments of responses.create. */
export function responsesRequest(request: Json, names: Names = new Map()): Fields {
  return readRequest(request, instructions(request["instructions"]), request["input"], names);
}

/** Reads the arguments of Anthropic's messages.create. */
export function anthropicRequest(request: Json, names: Names = new Map()): Fields {
  return readRequest(request, instructions(request["system"]), request["messages"], names);
}

/** Reads the arguments of completions.create, which has a text in place of messages. */
export function completionRequest(request: Json): Fields {
  return { ...sampling(request), payload: { prompt: plain(request["prompt"]) ?? null, ...parametersOf(request) } };
}

function readRequest(request: Json, system: string[], given: unknown, names: Names): Fields {
  const messages = messagesOf(plain(given) ?? [], "user");
  while (messages.length > 0 && instructionRoles.includes(messages[0]!.role)) {
    const text = plainText(messages.shift()!);
    if (system.length !== 1 || system[0] !== text) system.push(text); // some libraries send it twice
  }
  return {
    ...sampling(request), ...(system.length > 0 && { system_prompt: system.join("\n\n") }),
    payload: { messages: messages.map((message) => chatMessage(message, names)), ...parametersOf(request) },
  };
}

function instructions(given: unknown): string[] {
  return given === undefined || given === null ? [] : messagesOf({ role: "system", content: plain(given) }, "system").map(plainText);
}

function sampling(request: Json): Fields {
  const number = (names: string[], fits: (n: number) => boolean): number | undefined =>
    names.map((name) => request[name]).find((value): value is number => typeof value === "number" && Number.isFinite(value) && fits(value));
  const temperature = number(["temperature"], () => true);
  const maxTokens = number(["max_tokens", "max_completion_tokens", "max_output_tokens"], (n) => Number.isInteger(n) && n >= 0);
  const seed = number(["seed", "random_seed"], Number.isInteger);
  return {
    model: typeof request["model"] === "string" && request["model"] !== "" ? request["model"] : "unknown",
    ...(temperature !== undefined && { temperature }), ...(maxTokens !== undefined && { max_tokens: maxTokens }), ...(seed !== undefined && { seed }),
  };
}

function parametersOf(request: Json): Json {
  const found: Json = {};
  for (const [name, value] of Object.entries(request)) {
    if (!parameters.has(name) || value === null || value === undefined) continue;
    const member = name === "stop_sequences" ? "stop" : name;
    const given = member === "stop" && typeof value === "string" ? [value] : plain(value);
    if (given === undefined || (member === "n" && given === 1)) continue;
    found[member] ??= given;
  }
  return found;
}

// Messages

function messagesOf(given: unknown, role: string): Message[] {
  const found: Message[] = [];
  for (const value of Array.isArray(given) ? given : [given]) addMessage(found, value, role);
  return found;
}

function addMessage(found: Message[], given: unknown, role: string): void {
  const message: Message = { role, parts: [], calls: [] };
  if (!isObject(given)) {
    if (given === null || given === undefined) return;
    addPart(found, message, given);
    found.push(message);
    return;
  }
  let value = given;
  if (!("role" in value) && items.includes(String(value["type"]))) { // an item of OpenAI's Responses
    message.role = "assistant";
    value = { content: [value] };
  }
  const stated = first(value, "role");
  if (stated) message.role = roles[stated] ?? stated;
  const name = first(value, "name");
  if (name !== undefined) message.name = name;
  const answers = first(value, "tool_call_id") ?? (message.role === "tool" ? first(value, "id") : undefined);
  if (answers !== undefined) message.answers = answers;
  const before = found.length;
  addContent(found, message, value);
  for (const call of list(value["tool_calls"])) addCall(message, call);
  if (isObject(value["function_call"])) addCall(message, value["function_call"]);
  // Otherwise it had only results of tools.
  if (found.length === before || message.parts.length > 0 || message.calls.length > 0) found.push(message);
}

function addContent(found: Message[], message: Message, value: Json): void {
  for (const name of ["parts", "contents", "content", "text"]) {
    const content = value[name];
    if (Array.isArray(content)) {
      for (const part of content) addPart(found, message, part);
      return;
    }
    if (typeof content === "string" || isObject(content)) {
      addPart(found, message, content);
      return;
    }
  }
}

/** Adds one part. Tool calls go to the message. Results of tools, which are parts in some APIs, become messages. */
function addPart(found: Message[], message: Message, part: unknown): void {
  if (part === null || part === undefined) return;
  if (!isObject(part)) {
    message.parts.push({ kind: typeof part === "string" ? "text" : "other", value: part });
    return;
  }
  switch (part["type"] ?? "") {
    case "text": case "input_text": case "output_text": case "": {
      const text = first(part, "content", "text");
      if (text === undefined) break;
      message.parts.push({ kind: "text", value: text });
      return;
    }
    case "reasoning": case "thinking": {
      const text = first(part, "content", "text", "thinking");
      if (text === undefined) break;
      message.parts.push({ kind: "reasoning", value: text });
      return;
    }
    case "tool_call": case "tool_use": case "function_call": case "tool-call": case "custom_tool_call":
      addCall(message, part);
      return;
    case "tool_call_response": case "tool_result": case "function_call_output": case "tool-result": case "custom_tool_call_output": {
      const name = first(part, "name");
      // An item of Responses has an id of its own besides that of the call.
      const ids = message.role === "assistant" ? ["call_id", "id"] : ["id", "tool_use_id", "call_id", "tool_call_id", "toolCallId"];
      const answers = first(part, ...ids);
      const result = ["response", "result", "content", "output"].map((member) => part[member]).find((value) => value !== undefined && value !== null);
      found.push({
        role: "tool", calls: [], parts: result === undefined ? [] : [{ kind: "text", value: typeof result === "string" ? result : compact(result) }],
        ...(name !== undefined && { name }), ...(answers !== undefined && { answers }),
      });
      return;
    }
  }
  message.parts.push({ kind: "other", value: part });
}

function addCall(message: Message, call: unknown): void {
  if (!isObject(call)) return;
  const inner = call["function"] ?? call["custom"];
  const body = isObject(inner) ? inner : call;
  const given = ["arguments", "input", "args"].map((name) => body[name]).find((value) => value !== undefined && value !== null);
  message.calls.push({ id: first(call, "call_id", "id", "toolCallId"), name: first(body, "name", "toolName") ?? "", arguments: argumentsOf(given) });
}

/** Returns arguments in one form, whether they were sent as JSON or as a text with JSON. */
function argumentsOf(given: unknown): string | undefined {
  if (typeof given !== "string") return given === undefined ? undefined : compact(given);
  try {
    return canonical(parseJSON(given));
  } catch {
    return given;
  }
}

/** Returns the text of a message. Parts that are not text are included as JSON. */
function plainText(message: Message): string {
  return message.parts.map(({ kind, value }) => (kind === "other" ? compact(value) : value)).join("\n\n");
}

/** Returns a message in the form of OpenAI's chat completions. */
function chatMessage({ role, name, answers, parts, calls }: Message, names: Names): Json {
  return {
    role, ...((parts.length > 0 || calls.length === 0) && { content: chatContent(parts) }), ...(name !== undefined && { name }),
    ...(answers !== undefined && { tool_call_id: callName(answers, names) }),
    ...(calls.length > 0 && {
      tool_calls: calls.map((call) => ({
        type: "function", function: { name: call.name, ...(call.arguments !== undefined && { arguments: call.arguments }) },
        ...(call.id !== undefined && { id: callName(call.id, names) }),
      })),
    }),
  };
}

function callName(id: string, names: Names): string {
  if (!names.has(id)) names.set(id, `call_${names.size + 1}`);
  return names.get(id)!;
}

/** Returns the parts of a message: a single text as a string. */
function chatContent(parts: Message["parts"]): unknown {
  if (parts.length === 0) return "";
  if (parts.length === 1 && parts[0]!.kind === "text") return parts[0]!.value;
  return parts.map(({ kind, value }) => (kind === "other" ? value : { type: kind, text: value }));
}

// Answers

/** Reads the answer of any of the APIs. It has no output if the response has the form of none of them. */
export function readAnswer(response: unknown, names: Names = new Map()): Answer {
  const text = (name: string): string => {
    const value = get(response, name);
    return typeof value === "string" ? value : "";
  };
  const { messages, reasons } = answersOf(response);
  const usage = usageOf(get(response, "usage"));
  return {
    model: text("model"), fingerprint: text("system_fingerprint"),
    fields: {
      ...(messages && { output: outputOf(messages, names) }), ...(usage && { usage }),
      labels: { ...(text("id") && { response_id: text("id") }), ...(reasons.length > 0 && { finish_reason: [...new Set(reasons)].join(",") }) },
    },
  };
}

function answersOf(response: unknown): { messages: Message[] | undefined; reasons: string[] } {
  const [choices, output, blocks] = ["choices", "output", "content"].map((name) => get(response, name));
  let messages: Message[] | undefined;
  let reasons: unknown[] = [];
  if (Array.isArray(choices)) {
    reasons = choices.map((choice) => get(choice, "finish_reason"));
    messages = choices.flatMap((choice) => messagesOf(choiceOf(choice), "assistant"));
  } else if (Array.isArray(output)) {
    reasons = [get(get(response, "incomplete_details"), "reason") ?? get(response, "status")];
    messages = [joined(messagesOf(output.map((item) => itemOf(plain(item))), "assistant"))];
  } else if (Array.isArray(blocks)) {
    reasons = [get(response, "stop_reason")];
    messages = messagesOf({ role: "assistant", content: plain(blocks) }, "assistant");
  }
  return { messages, reasons: reasons.filter((reason) => typeof reason === "string") };
}

function choiceOf(choice: unknown): unknown {
  const message = get(choice, "message");
  if (message === undefined || message === null) return { content: plain(get(choice, "text")) };
  const value = plain(message);
  return isObject(value) && !value["content"] && typeof value["refusal"] === "string" ? { ...value, content: value["refusal"] } : value;
}

/** Returns an item of OpenAI's Responses, with its refusals as texts. */
function itemOf(item: unknown): unknown {
  if (!isObject(item) || !Array.isArray(item["content"])) return item;
  const content = item["content"].map((part: unknown) => (isObject(part) && "refusal" in part ? { type: "text", text: part["refusal"] } : part));
  return { ...item, content, role: item["role"] ?? "assistant" };
}

/** Returns the items of one answer as one message. */
function joined(messages: Message[]): Message {
  return { role: "assistant", parts: messages.flatMap((m) => m.parts), calls: messages.flatMap((m) => m.calls) };
}

/** Returns the text of the only answer, or else all answers as a JSON array of messages, without the reasoning of the model. */
function outputOf(messages: Message[], names: Names): string {
  const isReasoning = (value: unknown): boolean => ["reasoning", "redacted_thinking"].includes(String(get(value, "type")));
  for (const message of messages) message.parts = message.parts.filter(({ kind, value }) => kind !== "reasoning" && !isReasoning(value));
  const [only] = messages;
  if (messages.length === 1 && only!.calls.length === 0 && only!.parts.every(({ kind }) => kind === "text")) return only!.parts.map(({ value }) => value).join("");
  return compact(messages.map((message) => chatMessage(message, names)));
}

function usageOf(usage: unknown): Record<string, number> | undefined {
  const found: Record<string, number> = {};
  for (const [member, paths] of counts) {
    const values = paths.map((path) => path.reduce(get, usage));
    const value = values.find((n): n is number => typeof n === "number" && Number.isSafeInteger(n) && n >= 0);
    if (value !== undefined) found[member] = value;
  }
  return Object.keys(found).length > 0 ? found : undefined;
}

// Streams

class Choice {
  readonly texts: string[] = [];
  readonly calls = new Map<number, { id: string; name: string; arguments: string }>();
  reason: unknown;

  call(index: unknown, id: unknown, name: unknown, given: unknown): void {
    const key = typeof index === "number" ? index : this.calls.size;
    const call = this.calls.get(key) ?? { id: "", name: "", arguments: "" };
    for (const [member, value] of [["id", id], ["name", name], ["arguments", given]] as const) if (typeof value === "string") call[member] += value;
    this.calls.set(key, call);
  }

  text(value: unknown): void {
    if (typeof value === "string") this.texts.push(value);
  }

  message(): Json {
    const calls = [...this.calls].sort(([a], [b]) => a - b).map(([, call]) => ({ ...(call.id && { id: call.id }), name: call.name, arguments: call.arguments || "{}" }));
    const text = this.texts.join("");
    return { role: "assistant", ...((text || calls.length === 0) && { content: text }), ...(calls.length > 0 && { tool_calls: calls }) };
  }
}

/** What the chunks of a stream say so far, as the answer that the API would have given at once: chunks of chat.completions and
 * completions, events of Responses, and events of Anthropic's messages. */
export class Stream {
  private readonly facts: Json = {};
  private readonly choices = new Map<number, Choice>();
  private readonly usage: Json = {};
  private final: unknown;

  add(chunk: unknown): void {
    switch (get(chunk, "type")) {
      case "message_start":
        this.name(get(chunk, "message"));
        this.count(get(chunk, "message"));
        this.choice();
        return;
      case "content_block_start": {
        const block = get(chunk, "content_block");
        if (get(block, "type") === "tool_use") this.choice().call(get(chunk, "index"), get(block, "id"), get(block, "name"), undefined);
        else if (get(block, "type") === "text") this.choice().text(get(block, "text"));
        return;
      }
      case "content_block_delta": {
        const delta = get(chunk, "delta");
        this.choice().text(get(delta, "text"));
        if (typeof get(delta, "partial_json") === "string") this.choice().call(get(chunk, "index"), undefined, undefined, get(delta, "partial_json"));
        return;
      }
      case "message_delta":
        this.count(chunk);
        this.choice().reason = get(get(chunk, "delta"), "stop_reason") ?? this.choice().reason;
        return;
      case "response.created":
        this.name(get(chunk, "response"));
        return;
      case "response.output_text.delta": case "response.refusal.delta":
        this.choice().text(get(chunk, "delta"));
        return;
      case "response.completed": case "response.incomplete": case "response.failed":
        this.final = get(chunk, "response");
        return;
      default:
        if (Array.isArray(get(chunk, "choices"))) this.completion(chunk);
    }
  }

  /** Reports whether the API has said that the answer is complete. */
  get ended(): boolean {
    return this.final !== undefined || [...this.choices.values()].some((choice) => choice.reason !== undefined && choice.reason !== null);
  }

  /** Returns the answer so far. It has no output if nothing has arrived. */
  answer(names: Names): Answer {
    if (this.final !== undefined) return readAnswer(this.final, names);
    const choices = [...this.choices].sort(([a], [b]) => a - b).map(([, choice]) => ({ message: choice.message(), finish_reason: choice.reason }));
    return readAnswer({ ...this.facts, usage: this.usage, ...(choices.length > 0 && { choices }) }, names);
  }

  private choice(index: unknown = 0): Choice {
    const key = typeof index === "number" ? index : 0;
    let choice = this.choices.get(key);
    if (!choice) this.choices.set(key, (choice = new Choice()));
    return choice;
  }

  private name(source: unknown): void {
    for (const name of ["id", "model", "system_fingerprint"]) {
      const value = get(source, name);
      if (typeof value === "string" && value !== "") this.facts[name] = value;
    }
  }

  private count(source: unknown): void {
    const usage = get(source, "usage");
    if (isObject(usage)) for (const [name, value] of Object.entries(usage)) if (value !== null) this.usage[name] = value;
  }

  private completion(chunk: unknown): void {
    this.name(chunk);
    this.count(chunk);
    for (const given of list(get(chunk, "choices"))) {
      const choice = this.choice(get(given, "index"));
      const delta = get(given, "delta");
      for (const text of delta === undefined ? [get(given, "text")] : [get(delta, "content"), get(delta, "refusal")]) choice.text(text);
      for (const call of list(get(delta, "tool_calls"))) {
        choice.call(get(call, "index"), get(call, "id"), get(get(call, "function"), "name"), get(get(call, "function"), "arguments"));
      }
      choice.reason = get(given, "finish_reason") ?? choice.reason;
    }
  }
}
