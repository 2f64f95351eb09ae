// Requests to the server, typed by openapi.yaml.
import { Numeral, parseJSON, type Value } from "../../../clients/typescript/src/verify/index.js";
import { forTab } from "./kept.ts";
import type { components, paths } from "./schema.d.ts";

export type Schemas = components["schemas"];

type JSONOf<Operation> = Operation extends { responses: { 200: { content: { "application/json": infer Answer } } } } ? Answer : never;

/** GetPath is a path whose GET answers JSON. */
export type GetPath = { [P in keyof paths]: paths[P] extends { get: infer O } ? ([JSONOf<O>] extends [never] ? never : P) : never }[keyof paths];

type GetOf<P extends GetPath> = paths[P] extends { get: infer O } ? O : never;
export type Answer<P extends GetPath> = JSONOf<GetOf<P>>;

type PathOf<O> = O extends { parameters: { path: infer V } } ? V : undefined;
type QueryOf<O> = O extends { parameters: { query?: infer V } } ? NonNullable<V> : object;

export type PathValues<P extends GetPath> = PathOf<GetOf<P>>;
export type QueryValues<P extends GetPath> = { [N in keyof QueryOf<GetOf<P>>]?: string | number | boolean | undefined };

/** Values of a query whose names are not fixed, such as "label:config". */
export type OpenQuery = Record<string, string | number | boolean | undefined>;

/** Problem is an answer that is not a success, or no answer at all (status 0). */
export class Problem extends Error {
  override name = "Problem";
  readonly status: number;
  readonly title: string;
  readonly places: readonly { pointer: string; detail: string }[];
  readonly retryAfter: number | undefined; // seconds

  constructor(status: number, title: string, detail: string, places: Problem["places"] = [], retryAfter?: number) {
    super(detail);
    this.status = status;
    this.title = title;
    this.places = places;
    this.retryAfter = retryAfter;
  }
}

/** isWithheld reports whether a text is not shown to this caller, was erased, or is not in the ledger. Asking again does not help then. */
export function isWithheld(problem: Problem): boolean {
  return [403, 404, 410].includes(problem.status);
}

/** base is the folder of the page: the server may be behind a proxy that adds a prefix. */
function base(): URL {
  return new URL(".", document.baseURI);
}

const tokenName = "token";

export function token(): string | null {
  return forTab.get(tokenName);
}

export function setToken(text: string | null): void {
  forTab.set(tokenName, text);
}

function fill(path: string, values: Record<string, string | number> = {}): string {
  return path.replace(/\{([^}]+)\}/g, (_, name: string) => {
    const value = String(values[name] ?? "");
    // The names of content have elements of their own: citations/0/text.
    return name === "path" ? value.split("/").map(encodeURIComponent).join("/") : encodeURIComponent(value);
  });
}

/** address returns the URL of a request, relative to the page. */
export function address(path: string, values?: Record<string, string | number>, query: OpenQuery = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  const text = given.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(String(value))}`).join("&");
  return fill(path, values).replace(/^\//, "") + (text && "?") + text;
}

async function problemOf(response: Response): Promise<Problem> {
  const wait = Number(response.headers.get("Retry-After") ?? NaN);
  const retryAfter = Number.isFinite(wait) ? wait : undefined;
  try {
    const body = (await response.json()) as Partial<Schemas["Problem"]>;
    return new Problem(response.status, body.title ?? response.statusText, body.detail ?? "", body.errors ?? [], retryAfter);
  } catch {
    return new Problem(response.status, response.statusText, "The answer does not come from Colophon, but perhaps from a proxy in front of it.", [], retryAfter);
  }
}

export interface Options {
  method?: string;
  headers?: Record<string, string>;
  body?: string;
  signal?: AbortSignal | undefined;
}

/** request sends a request with the credentials of this tab. It throws a Problem unless the answer is a success. */
export async function request(at: string, options: Options = {}): Promise<Response> {
  const held = token();
  const headers = { ...(held ? { Authorization: `Bearer ${held}` } : {}), ...options.headers };
  let response: Response;
  try {
    response = await fetch(new URL(at, base()), {
      method: options.method ?? "GET", headers, body: options.body ?? null, signal: options.signal ?? null, credentials: "omit", redirect: "error", referrerPolicy: "no-referrer",
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, "No answer", "The server did not answer. Check that it runs, and that this machine can reach it.");
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

/** parseAnswer parses JSON. It returns an integer that a JavaScript number cannot hold, such as a long seed, as a text with all its digits. */
export function parseAnswer(text: string): unknown {
  return /[\s:,[]-?\d{16,}\s*[,\]}]/.test(text) ? plainValue(parseJSON(text)) : JSON.parse(text);
}

function plainValue(value: Value): unknown {
  if (value instanceof Numeral) return value.isInteger && !Number.isSafeInteger(Number(value.token)) ? value.token : Number(value.token);
  if (value instanceof Map) return Object.fromEntries([...value].map(([name, member]) => [name, plainValue(member)]));
  return Array.isArray(value) ? value.map(plainValue) : value;
}

/** get asks a question of the contract. */
export async function get<P extends GetPath>(path: P, values: PathValues<P>, query: QueryValues<P> | OpenQuery = {}, signal?: AbortSignal): Promise<Answer<P>> {
  const response = await request(address(path, values as Record<string, string | number> | undefined, query), { signal, headers: { Accept: "application/json" } });
  return parseAnswer(await response.text()) as Answer<P>;
}

/** Content is a text as the ledger keeps it. */
export interface Content {
  text: string;
  bytes: number;
  valid: boolean; // false if some bytes are not UTF-8, which text shows as U+FFFD
}

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const lenient = new TextDecoder("utf-8", { ignoreBOM: true });

export function decode(bytes: ArrayBuffer): Content {
  try {
    return { text: strict.decode(bytes), bytes: bytes.byteLength, valid: true };
  } catch {
    return { text: lenient.decode(bytes), bytes: bytes.byteLength, valid: false };
  }
}

/** content returns a text of a record by its name, such as "output". */
export async function content(ledger: string, seq: number, name: string, signal?: AbortSignal): Promise<Content> {
  const response = await request(address("/v1/ledgers/{ledger}/records/{seq}/content/{path}", { ledger, seq, path: name }), { signal });
  return decode(await response.arrayBuffer());
}
