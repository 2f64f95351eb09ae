// Clients of OpenAI-style and Anthropic-style APIs that record what they generate. Nothing here imports those libraries: a client
// is recognised by the methods that it has, and is not changed.

import { Generation } from "../client/generation.js";
import type { BaseLedger, Fields } from "../client/common.js";
import { type Answer, type Names, Stream, anthropicRequest, completionRequest, get, openaiRequest, readAnswer, responsesRequest } from "./chat.js";

type Json = Record<string, unknown>;
type Method = (...args: unknown[]) => unknown;
type Reader = (request: Json, names: Names) => Fields;

// The path from the client to each recorded method, and the function that reads its arguments.
const methods = new Map<string, { read: Reader; provider: string; operation: string }>();
for (const prefix of ["", "beta."]) {
  for (const name of ["create", "parse", "stream"]) {
    methods.set(`${prefix}chat.completions.${name}`, { read: openaiRequest, provider: "openai", operation: "chat" });
    methods.set(`${prefix}messages.${name}`, { read: anthropicRequest, provider: "anthropic", operation: "chat" });
    methods.set(`${prefix}responses.${name}`, { read: responsesRequest, provider: "openai", operation: "chat" });
  }
}
methods.set("completions.create", { read: completionRequest, provider: "openai", operation: "text_completion" });
const ways = new Set([...methods.keys()].flatMap((path) => path.split(".").slice(0, -1).map((_, i, names) => names.slice(0, i + 1).join("."))));

export interface WrapOptions {
  /** Fields of every record, such as labels. */
  fields?: Fields;
  /** Label of the provider (default: "openai" or "anthropic", by the API). */
  provider?: string;
}

/** Returns a client that behaves like the given one, and records each generation in the ledger: chat.completions, completions, responses,
 * and messages, including streams. Everything else is passed through, including asResponse, which is not recorded.
 *
 * A generation is recorded in the background when its answer has been read. An error in recording never reaches the caller. A stream that is not read is not recorded. */
export function wrap<C extends object>(client: C, ledger: BaseLedger, options: WrapOptions = {}): C {
  const known = [...methods.keys()].some((path) => path.split(".").reduce<unknown>((at, name) => (at as Json | undefined | null)?.[name], client) !== undefined);
  if (!known) throw new TypeError("the client has neither chat.completions, completions, responses, nor messages, so there is nothing to record");
  return proxy(client, "", { ledger, options });
}

interface Context {
  readonly ledger: BaseLedger;
  readonly options: WrapOptions;
}

/** Returns a proxy of a client, or of a resource of one. */
function proxy<T extends object>(inner: T, path: string, context: Context): T {
  const made = new Map<PropertyKey, { from: unknown; made: unknown }>();
  return new Proxy(inner, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target);
      if (typeof property !== "string") return value;
      const known = made.get(property);
      if (known?.from === value && known) return known.made;
      const passed = pass(target, value, property, path, context);
      if (passed !== value) made.set(property, { from: value, made: passed });
      return passed;
    },
  });
}

function pass(target: object, value: unknown, property: string, path: string, context: Context): unknown {
  const way = path === "" ? property : `${path}.${property}`;
  const method = methods.get(way);
  if (method && typeof value === "function") {
    return (...args: unknown[]): unknown => {
      const observed = new Observed(context, method, args[0]);
      let result: unknown;
      try {
        result = Reflect.apply(value as Method, target, args);
      } catch (error) {
        observed.end(error);
        throw error;
      }
      return observed.returned(result);
    };
  }
  if (ways.has(way) && value !== null && typeof value === "object") return proxy(value, way, context);
  if (typeof value !== "function") return value;
  // Methods run on the client itself, because its private members are not in the proxy.
  if (path === "" && property === "withOptions") return (...args: unknown[]): unknown => proxy(Reflect.apply(value as Method, target, args) as object, "", context);
  return property === "constructor" ? value : (value as Method).bind(target);
}

/** One call. It reads the request before the call, because callers append to their lists of messages. No method throws. */
class Observed {
  private readonly names: Names = new Map();
  private readonly ledger: BaseLedger;
  private generation: Generation | undefined;
  private stream: Stream | undefined;

  constructor({ ledger, options }: Context, method: { read: Reader; provider: string; operation: string }, request: unknown) {
    this.ledger = ledger;
    this.safely(() => {
      const { fields = {}, provider = method.provider } = options;
      const generation = new Generation(ledger, { ...fields, labels: { provider, operation: method.operation, ...fields.labels } });
      generation.take(method.read((request ?? {}) as Json, this.names));
      this.generation = generation;
    });
  }

  /** Handles the return of the call, and returns what the caller gets: the library's own object. */
  returned(result: unknown): unknown {
    if (!this.generation || result === null || typeof result !== "object") return result;
    const promise = result as Promise<unknown> & { parse?: () => Promise<unknown> };
    if (typeof promise.parse === "function" && typeof promise.then === "function") {
      // The libraries' promise parses an answer when it is awaited, and gives the raw response otherwise.
      const parse = promise.parse.bind(promise);
      let parsed: Promise<unknown> | undefined;
      const value = (): Promise<unknown> => (parsed ??= this.observe(parse()));
      this.safely(() => void Object.defineProperty(promise, "parse", { configurable: true, writable: true, value }));
      return promise;
    }
    if (typeof promise.then === "function") return this.observe(promise);
    return this.answered(result);
  }

  private observe(promise: Promise<unknown>): Promise<unknown> {
    return promise.then((answer) => this.answered(answer), (error: unknown) => {
      this.end(error);
      throw error;
    });
  }

  /** Handles the answer: a message, a stream, or an object that reads one. */
  private answered(answer: unknown): unknown {
    this.safely(() => {
      if (answer !== null && typeof answer === "object" && (Symbol.asyncIterator in answer || typeof get(answer, "on") === "function")) {
        this.stream = new Stream();
        this.watch(answer);
      } else {
        this.take(readAnswer(answer, this.names));
        this.end();
      }
    });
    return answer;
  }

  private watch(stream: Watched): void {
    if (typeof stream.on === "function") {
      for (const event of ["chunk", "streamEvent", "event"]) stream.on(event, (chunk) => this.chunk(chunk));
      stream.on("end", () => this.streamEnded(stream.errored === true && stream.aborted !== true, stream.aborted === true));
      return;
    }
    const property = typeof stream.iterator === "function" ? "iterator" : Symbol.asyncIterator;
    const iterate = (stream[property] as () => AsyncIterator<unknown>).bind(stream);
    Object.defineProperty(stream, property, { configurable: true, writable: true, value: () => this.iterate(iterate(), stream) });
  }

  private iterate(inner: AsyncIterator<unknown>, stream: Watched): AsyncIterableIterator<unknown> {
    const next = async (...args: [] | [unknown]): Promise<IteratorResult<unknown>> => {
      let result: IteratorResult<unknown>;
      try {
        result = await inner.next(...args);
      } catch (error) {
        this.streamEnded(false, false, error);
        throw error;
      }
      if (result.done) this.streamEnded(false, stream.controller?.signal.aborted === true);
      else this.chunk(result.value);
      return result;
    };
    return {
      next,
      return: async (value?: unknown): Promise<IteratorResult<unknown>> => {
        this.streamEnded(false, true);
        return (await inner.return?.(value)) ?? { done: true, value };
      },
      throw: async (error?: unknown): Promise<IteratorResult<unknown>> => {
        this.streamEnded(false, true, error);
        if (inner.throw) return inner.throw(error);
        throw error;
      },
      [Symbol.asyncIterator]() {
        return this;
      },
    };
  }

  private chunk(chunk: unknown): void {
    this.safely(() => this.stream?.add(chunk));
  }

  private streamEnded(failed: boolean, left: boolean, error?: unknown): void {
    const stream = this.stream;
    this.stream = undefined;
    if (!stream) return;
    this.safely(() => {
      this.take(stream.answer(this.names));
      if (!stream.ended && left && error === undefined) this.generation?.take({ labels: { stream: "interrupted" } });
    });
    this.end(error ?? (failed ? new StreamError() : undefined));
  }

  private take({ fields, model, fingerprint }: Answer): void {
    const generation = this.generation!;
    const digest = [model === generation.fields.model ? "" : model, fingerprint].filter((part) => part !== "").join(" ");
    generation.take({ ...fields, ...(digest && generation.fields.environment === undefined && { environment: { model_digest: digest } }) });
  }

  end(error?: unknown): void {
    this.generation?.end(error);
  }

  private safely(action: () => void): void {
    try {
      action();
    } catch (error) {
      this.ledger.warn(`a call was not recorded as it should: ${String(error)}`);
    }
  }
}

/** A stream that failed in the library, which has reported the reason to the caller. */
class StreamError extends Error {}

interface Watched {
  on?: (event: string, listener: (value: unknown) => void) => unknown;
  iterator?: () => AsyncIterator<unknown>;
  controller?: AbortController;
  errored?: boolean;
  aborted?: boolean;
  [Symbol.asyncIterator]?: () => AsyncIterator<unknown>;
}
