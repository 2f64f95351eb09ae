// A callback handler for LangChain.js that records what its language models generate.

import { Generation } from "../client/generation.js";
import type { BaseLedger, Fields } from "../client/common.js";
import { type Names, get, openaiRequest, readAnswer } from "./chat.js";

type Json = Record<string, unknown>;

const roles: Readonly<Record<string, string>> = { human: "user", ai: "assistant", AIMessageChunk: "assistant", HumanMessageChunk: "user", SystemMessageChunk: "system" };
const mostOpen = 10_000; // runs that began and did not end

export interface LangchainOptions {
  /** Fields of every record, such as labels. */
  fields?: Fields;
}

/** Returns a handler for `callbacks`: `model.invoke(messages, { callbacks: [langchainHandler(ledger)] })`. Its methods never throw. */
export function langchainHandler(ledger: BaseLedger, { fields = {} }: LangchainOptions = {}): LangchainHandler {
  const runs = new Map<string, { generation: Generation; names: Names; model: unknown }>();
  const safely = (action: () => void): void => {
    try {
      action();
    } catch (error) {
      ledger.warn(`a run of LangChain was not recorded: ${String(error)}`);
    }
  };
  const start = (serialized: unknown, messages: unknown[], runId: string, extra: unknown, metadata: unknown): void => {
    const given = get(extra, "invocation_params");
    const request: Json = { ...(given !== null && typeof given === "object" ? given : {}) };
    request["model"] = request["model"] ?? request["model_name"] ?? request["model_id"] ?? get(metadata, "ls_model_name") ?? get(get(serialized, "kwargs"), "model");
    for (const [name, stated] of [["temperature", "ls_temperature"], ["max_tokens", "ls_max_tokens"]] as const) request[name] ??= get(metadata, stated);
    request["messages"] = messages;
    const provider = get(metadata, "ls_provider");
    const names: Names = new Map();
    const generation = new Generation(ledger, { ...fields, labels: { provider: typeof provider === "string" ? provider : "langchain", operation: "chat", ...fields.labels } });
    generation.take(openaiRequest(request, names));
    if (runs.size >= mostOpen) runs.delete(runs.keys().next().value!);
    runs.set(runId, { generation, names, model: request["model"] });
  };
  return {
    handleChatModelStart: (serialized, conversations, runId, _parent, extra, _tags, metadata) =>
      safely(() => start(serialized, (conversations[0] ?? []).map(messageOf), runId, extra, metadata)),
    handleLLMStart: (serialized, prompts, runId, _parent, extra, _tags, metadata) => safely(() => start(serialized, [{ role: "user", content: prompts[0] }], runId, extra, metadata)),
    handleLLMEnd: (result, runId) => safely(() => {
      const run = runs.get(runId);
      runs.delete(runId);
      if (!run) return;
      const { fields: answer, model } = readAnswer(answerOf(result), run.names);
      run.generation.take({ ...answer, ...(model && model !== run.model && { environment: { model_digest: model } }) });
      run.generation.end();
    }),
    handleLLMError: (error, runId) => safely(() => {
      const run = runs.get(runId);
      runs.delete(runId);
      run?.generation.end(error ?? new Error("unknown"));
    }),
  };
}

/** The methods of LangChain's BaseCallbackHandler that matter here. */
export interface LangchainHandler {
  handleChatModelStart(serialized: unknown, conversations: unknown[][], runId: string, parentRunId?: string, extraParams?: Json, tags?: string[], metadata?: Json): void;
  handleLLMStart(serialized: unknown, prompts: string[], runId: string, parentRunId?: string, extraParams?: Json, tags?: string[], metadata?: Json): void;
  handleLLMEnd(result: unknown, runId: string): void;
  handleLLMError(error: unknown, runId: string): void;
}

/** Returns a message of LangChain as one of an OpenAI-style API. */
function messageOf(message: unknown): unknown {
  const type = typeof get(message, "getType") === "function" ? (message as { getType(): string }).getType() : get(message, "type");
  if (typeof type !== "string") return message;
  const role = type === "chat" || type === "ChatMessageChunk" ? get(message, "role") : (roles[type] ?? type);
  const calls = get(message, "tool_calls");
  return {
    role, content: get(message, "content"), name: get(message, "name"), tool_call_id: get(message, "tool_call_id"),
    ...(Array.isArray(calls) && calls.length > 0 && { tool_calls: calls.map((call) => ({ id: get(call, "id"), name: get(call, "name"), arguments: get(call, "args") })) }),
  };
}

/** Returns the first generation of an LLMResult as an answer of an OpenAI-style API. */
function answerOf(result: unknown): unknown {
  const lists = get(result, "generations") as unknown[][] | undefined;
  const first = lists?.[0]?.[0];
  const message = get(first, "message");
  const facts: Json = { ...(get(result, "llmOutput") as Json | undefined), ...(get(message, "response_metadata") as Json | undefined), ...(get(first, "generationInfo") as Json | undefined) };
  const usage = get(message, "usage_metadata") ?? facts["tokenUsage"] ?? facts["token_usage"] ?? facts["usage"];
  const calls = get(message, "tool_calls");
  const content = message === undefined ? get(first, "text") : get(message, "content");
  return {
    id: facts["id"] ?? get(message, "id"), model: facts["model_name"] ?? facts["model"], usage,
    choices: [{
      finish_reason: facts["finish_reason"] ?? facts["stop_reason"],
      message: {
        content: texts(content),
        ...(Array.isArray(calls) && calls.length > 0 && { tool_calls: calls.map((call) => ({ id: get(call, "id"), function: { name: get(call, "name"), arguments: get(call, "args") } })) }),
      },
    }],
  };
}

/** Returns the text of a content, which may have other parts, such as calls of tools. */
function texts(content: unknown): string | undefined {
  if (typeof content === "string") return content;
  const parts = (Array.isArray(content) ? content : []).map((part: unknown) => (typeof part === "string" ? part : get(part, "text"))).filter((text) => typeof text === "string");
  return parts.length > 0 ? parts.join("") : undefined;
}
