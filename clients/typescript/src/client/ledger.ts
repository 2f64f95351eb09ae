import { wtf8 } from "../verify/bytes.js";
import { type Members, Numeral, canonical, hasLoneSurrogate, parseJSON, spaced, wellFormed } from "../verify/json.js";
import { membersOf, toJSON } from "../hashes/raw.js";
import { outputForm, systemPromptForm } from "../hashes/texts.js";
import { type VerifierKey, parseVerifierKeys } from "../verify/note.js";
import { LedgerError, UnreachableError } from "./errors.js";
import { Connection } from "./http.js";
import { type Receipt, Recorder, type Stats, verifyAnswer } from "./recorder.js";
import type { Store } from "./store.js";

/** A kind of record, or of a change that POST /batch accepts. */
export type Kind = "ipc_record" | "run_dag" | "citation_set" | "path_fingerprint" | "record_state_changed" | "note" | "path_validated";

/** A record as the API accepts it. null and undefined members are left out. Use raw and float where it matters how a number is written. */
export type RecordBody = Readonly<Record<string, unknown>>;

/** One generation, as the API accepts it. */
export interface IpcRecord {
  model: string;
  payload?: object | null;
  input_hash?: string | null;
  payload_schema?: string | null;
  system_prompt?: string | null;
  system_prompt_hash?: string | null;
  output?: string | null;
  output_hash?: string | null;
  temperature?: unknown;
  max_tokens?: unknown;
  seed?: unknown;
  environment?: { ollama_build_hash?: string; model_digest?: string; host_platform?: string } | null;
  usage?: object | null;
  run_id?: string | null;
  timestamp?: string | null;
  labels?: Readonly<Record<string, string>> | null;
  producer?: { id: string; seq: number } | null;
  [member: string]: unknown;
}

export interface LedgerOptions {
  /** The server, such as https://ledger.example, or a ledger (…/v1/ledgers/NAME). In Node, the default is COLOPHON_SERVER, else http://127.0.0.1:8080. */
  url?: string;
  /** The ledger's name. In Node, the default is COLOPHON_LEDGER, else "default". */
  ledger?: string;
  /** An API token. In Node, the default is COLOPHON_TOKEN. */
  token?: string;
  /** Labels of every record. */
  labels?: Readonly<Record<string, string>>;
  /** Numbers the records of this object that have neither a key nor a run_id, so that the ledger can tell if some were lost. */
  producer?: string;
  /** Sends hashes in place of the content of IPC records. Only in Node. */
  hashesOnly?: boolean;
  /** Verifies every receipt. A receipt that does not verify is logged, counted, and kept. */
  verifierKeys?: readonly (string | VerifierKey)[];
  /** Called with every receipt, and with its text as the ledger sent it. */
  onReceipt?: (receipt: Receipt, text: string) => void;
  /** Limit for each wait for the server, in milliseconds (default: 30,000). */
  timeout?: number;
  /** After this time, records are written and synced to the spool, in milliseconds (default: 100). A crash of the process loses at most what was recorded since. */
  flushInterval?: number;
  /** Maximum length of the records that wait in memory for the spool, in characters (default: 64 Mi). */
  maxQueueBytes?: number;
  /** Maximum size of the ledger's spool, over all processes, in bytes (default: 1 GiB; in memory 64 MiB). */
  maxSpoolBytes?: number;
  /** How long the end of the process may wait for the ledger, in milliseconds (default: 2,000). */
  exitTimeout?: number;
  /** Makes requests (default: fetch). */
  fetch?: typeof fetch;
  /** Receives warnings, at most one per minute of each kind (default: console.warn). */
  warn?: (message: string) => void;
}

/** What the platform provides: Node or a browser. */
export interface Platform {
  store(base: string, ledger: string, options: LedgerOptions): Store;
  /** Computes a SHA-256 synchronously, in hexadecimal; undefined if the platform cannot. */
  sha256: ((text: string) => string) | undefined;
  environment(name: string): string | undefined;
  opened(ledger: BaseLedger): void;
  closed(ledger: BaseLedger): void;
  /** Labels of the current context. */
  labels(): Readonly<Record<string, string>>;
}

const routes: Partial<Record<Kind, string>> = { ipc_record: "ipc-records", run_dag: "run-dags", citation_set: "citation-sets", path_fingerprint: "path-fingerprints" };
const attempts = 5; // of a call that waits for its answer

export interface RecordOptions {
  /** Idempotency key: with the same key, or the same run_id in the record, the ledger records it only once. */
  key?: string | undefined;
  /** A run can have several such records, so the run_id is not their key: without a key, the record gets a random one. Generations set this. */
  severalInRun?: boolean;
}

export interface PostOptions {
  /** Idempotency key: with the same key, or the same run_id in the record, the ledger records it only once. */
  key?: string;
  /** "reject" refuses a record whose claimed hashes are wrong. */
  onMismatch?: "accept" | "reject";
  /** Adds derived facts to the receipt, such as the cause of a change. */
  derive?: boolean;
}

/** One ledger of a server. One object serves a whole process.
 *
 * record, generation, and the wrappers record in the background: the call takes microseconds, never waits for the ledger or the disk, and never throws.
 * post waits for the receipt, and throws. */
export class BaseLedger {
  readonly name: string;
  private readonly platform: Platform;
  private readonly connection: Connection;
  private readonly path: string;
  private readonly recorder: Recorder;
  private readonly keys: Promise<readonly VerifierKey[]>;
  private readonly options: LedgerOptions;
  private readonly producer: string | undefined;
  private numbered = 0;

  constructor(platform: Platform, options: LedgerOptions) {
    this.platform = platform;
    this.options = options;
    if (options.hashesOnly && !platform.sha256) throw new TypeError("hashesOnly needs Node");
    const [base, name] = split(options.url ?? platform.environment("COLOPHON_SERVER") ?? "http://127.0.0.1:8080", options.ledger, platform);
    this.name = name;
    this.path = `/v1/ledgers/${encodeURIComponent(name)}`;
    this.connection = new Connection(base, options.token ?? platform.environment("COLOPHON_TOKEN"), options.timeout ?? 30_000, options.fetch ?? ((...args) => globalThis.fetch(...args)));
    this.keys = parseVerifierKeys(options.verifierKeys ?? []);
    this.keys.catch(() => undefined); // ready throws it
    this.producer = options.producer === undefined ? undefined : `${options.producer}/${randomHex(4)}`;
    const store = platform.store(base, name, options);
    this.recorder = new Recorder({
      store, connection: this.connection, path: `${this.path}/batch`, maxQueueBytes: options.maxQueueBytes ?? 64 << 20, flushInterval: options.flushInterval ?? 100,
      keys: this.keys, onReceipt: options.onReceipt, warn: options.warn ?? ((message) => console.warn(message)),
    });
    platform.opened(this);
    void store.bytes().then((bytes) => bytes > 0 && this.recorder.start(), () => undefined); // an earlier process has left records
  }

  /** Throws if a verifier key is malformed. */
  async ready(): Promise<this> {
    await this.keys;
    return this;
  }

  /** Records something in the background, and reports whether it was queued. It never waits and never throws.
   *
   * The record is written as JSON at once, so the caller may change it afterwards. Without a key and a run_id it gets a random key, and the time as its timestamp.
   * false means that the record is not JSON, that the key is empty or blank, or that the queue and the spool are full. This is counted and logged. */
  record(kind: "ipc_record", record: IpcRecord, options?: RecordOptions): boolean;
  record(kind: Kind, record: RecordBody, options?: RecordOptions): boolean;
  record(kind: Kind, record: RecordBody, options: RecordOptions = {}): boolean {
    let line: string;
    try {
      line = this.line(kind, record, options.key, options.severalInRun, kind !== "run_dag").text;
    } catch (error) {
      this.recorder.stats.invalid++;
      this.recorder.warn("invalid", `a record of kind ${kind} is not recorded: ${String(error)}`);
      return false;
    }
    return this.recorder.put(line);
  }

  /** Waits until everything recorded so far is on the disk, synced, and reports whether it is. timeout is in milliseconds. */
  sync(timeout?: number): Promise<boolean> {
    return this.recorder.sync(timeout);
  }

  /** Waits until the ledger has answered everything recorded so far, and reports whether it has. Refused records count as answered. */
  flush(timeout?: number): Promise<boolean> {
    return this.recorder.flush(timeout);
  }

  /** Tries to send everything for a time (default: exitTimeout), and reports whether the ledger has answered everything. The rest stays in the spool. */
  async close(timeout = this.options.exitTimeout ?? 2_000): Promise<boolean> {
    const done = await this.recorder.close(timeout);
    this.platform.closed(this);
    return done;
  }

  /** Writes what is queued to the spool, at once. For the end of a process that cannot wait. */
  end(): void {
    this.recorder.end();
    this.platform.closed(this);
  }

  /** What became of the records so far. */
  stats(): Stats {
    const { stats } = this.recorder;
    return { ...stats, queued: Math.max(0, stats.accepted - stats.spooled) };
  }

  /** Logs a warning of a wrapper. */
  warn(message: string): void {
    this.recorder.warn(message.slice(0, 40), message);
  }

  /** Labels that the current context adds. */
  contextLabels(): Readonly<Record<string, string>> {
    return this.platform.labels();
  }

  /** Posts a record and returns its receipt. The record is then durable on the server. With verifierKeys, the receipt is verified.
   *
   * Failed connections and the statuses 408, 429, 502, 503, and 504 are repeated up to four times: the key makes that harmless.
   * It throws a LedgerError, an UnreachableError (the record might have been recorded), or a VerificationError (the server says that it was).
   * It throws a TypeError for a key that is empty or blank, or that a header cannot have. */
  async post(kind: "ipc_record", record: IpcRecord, options?: PostOptions): Promise<Receipt>;
  async post(kind: Kind, record: RecordBody, options?: PostOptions): Promise<Receipt>;
  async post(kind: Kind, record: RecordBody, { key, onMismatch, derive }: PostOptions = {}): Promise<Receipt> {
    return JSON.parse(await this.postText(kind, record, { ...(key !== undefined && { key }), ...(onMismatch && { onMismatch }), ...(derive && { derive }) })) as Receipt;
  }

  /** Like post, but returns the receipt's text, which can be kept and passed to verify. */
  async postText(kind: Kind, record: RecordBody, { key, onMismatch, derive }: PostOptions = {}): Promise<string> {
    const route = routes[kind];
    if (!route) throw new TypeError(`${kind} cannot be posted alone; use ${Object.keys(routes).join(", ")}, or record`);
    const line = this.line(kind, record, key);
    const query = new URLSearchParams({ ...(onMismatch && { on_mismatch: onMismatch }), ...(derive && { derive: "true" }) }).toString();
    const headers: Record<string, string> = line.key === undefined ? {} : { "Idempotency-Key": headerOf(line.key) };
    const text = await this.call("POST", `${this.path}/${route}${query && "?" + query}`, line.record, headers);
    const keys = await this.keys;
    if (keys.length > 0) await verifyAnswer(line.text, text, keys);
    return text;
  }

  /** Makes a GET request below the ledger and returns its JSON: `ledger.get("/records", { model: "gemma2:2b" })`. */
  async get(path: string, query: Readonly<Record<string, string | number | boolean | undefined>> = {}): Promise<unknown> {
    return JSON.parse(await this.getText(path, query));
  }

  /** Like get, but returns the text: for receipts, checkpoints, and everything that is verified. */
  getText(path: string, query: Readonly<Record<string, string | number | boolean | undefined>> = {}): Promise<string> {
    const given = Object.entries(query).filter(([, value]) => value !== undefined).map(([name, value]) => [name, String(value)]);
    const text = new URLSearchParams(given).toString();
    return this.call("GET", this.path + path + (text && "?" + text));
  }

  private async call(method: string, path: string, body?: string, headers?: Record<string, string>): Promise<string> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.connection.call(method, path, body, headers);
      } catch (error) {
        const after = error instanceof LedgerError ? error.retryAfter : 0;
        const again = error instanceof UnreachableError || (error instanceof LedgerError && error.temporary);
        if (!again || attempt === attempts || after > 30) throw error;
        const wait = 250 * 2 ** (attempt - 1);
        await new Promise((resolve) => setTimeout(resolve, Math.max(after * 1000, wait / 2 + (Math.random() * wait) / 2)));
      }
    }
  }

  /** Returns a line of POST /batch. Without a key or a run_id, it gets a random key, the time, and a number of the producer. If a run can have several such records,
   * the run_id does not count as a key. With repairs, lone surrogates become U+FFFD, because the ledger would refuse the record. In run-DAGs, a hash covers them. */
  private line(kind: Kind, record: RecordBody, given: string | null | undefined, severalInRun = false, repairs = false): { text: string; record: string; key: string | undefined } {
    if (given !== undefined && given !== null) requireKey(given);
    const members: Record<string, unknown> = Object.fromEntries(Object.entries(record).filter(([, value]) => value !== null && value !== undefined));
    const anonymous = (given === undefined || given === null) && (severalInRun || members["run_id"] === undefined);
    const key = anonymous ? randomHex(16) : (given ?? undefined);
    if (routes[kind]) {
      // A record with a key of the caller must stay the same when it is posted again, so it gets neither a time nor a number.
      if (anonymous) members["timestamp"] ??= new Date().toISOString();
      if (this.options.labels) members["labels"] = { ...this.options.labels, ...(members["labels"] as object | undefined) };
      if (this.options.hashesOnly && kind === "ipc_record") {
        if (repairs) this.repair(kind, members);
        this.hashContent(members);
      }
      if (anonymous && this.producer !== undefined) members["producer"] ??= { id: this.producer, seq: ++this.numbered };
    }
    let text = toJSON(members)!;
    if (repairs && mayHaveLoneSurrogate.test(text) && this.repair(kind, members)) text = toJSON(members)!;
    // JSON writes line ends only between members, and only if the caller gave text with some.
    const flat = /[\r\n]/.test(text) ? text.replace(/[\r\n]/g, " ") : text;
    return { text: `{"kind":${JSON.stringify(kind)},"record":${flat}${key === undefined ? "" : `,"idempotency_key":${JSON.stringify(key)}`}}`, record: flat, key };
  }

  /** Replaces lone surrogates in members with U+FFFD, and reports whether there were some. */
  private repair(kind: Kind, members: Record<string, unknown>): boolean {
    let found = false;
    for (const [name, member] of Object.entries(members)) {
      const text = toJSON(member);
      if (text === undefined || !mayHaveLoneSurrogate.test(text)) continue;
      const value = parseJSON(text);
      if (!hasLoneSurrogate(value)) continue;
      members[name] = wellFormed(value);
      found = true;
    }
    if (!found) return false;
    this.recorder.stats.repaired++;
    this.recorder.warn("repaired", `a record of kind ${kind} has text that is not Unicode (lone surrogates), which are replaced by U+FFFD`);
    return true;
  }

  /** Replaces the content of an IPC record with its hashes. */
  private hashContent(members: Record<string, unknown>): void {
    const sha256 = this.platform.sha256!;
    if (members["payload"] !== undefined) {
      const payload = new Map(membersOf(members["payload"], "payload"));
      if (members["payload_schema"] !== undefined) throw new TypeError("hashesOnly cannot hash a payload with a payload_schema");
      const seed = payload.get("seed");
      const stated = toJSON(members["seed"]);
      // From a hash alone, the ledger could not remove the seed from the input.
      if (seed !== undefined && seed !== null && (stated === undefined || stated === toJSON(seed))) {
        members["seed"] = seed;
        payload.delete("seed");
      }
      members["input_hash"] = sha256(canonical(payload, spaced));
      delete members["payload"];
    }
    for (const [name, form] of [["system_prompt", systemPromptForm], ["output", outputForm]] as const) {
      const given = toJSON(members[name]); // of a string, of raw, or of an object with the method toJSON
      members[name] = undefined;
      const text = given === undefined ? undefined : parseJSON(given);
      if (typeof text === "string") members[`${name}_hash`] = sha256(form(text));
    }
    if (members["usage"] !== undefined) members["usage"] = numbers(members["usage"]);
  }
}

// A surrogate that JSON.stringify has escaped because it is alone, or one in the text of raw.
const mayHaveLoneSurrogate = /\\ud[89a-f]|\p{Surrogate}/iu;

/** Returns the numbers of a usage, including those in its members. */
export function numbers(usage: unknown): Record<string, unknown> | undefined {
  if (usage === null || typeof usage !== "object") return undefined;
  const kept: Record<string, unknown> = {};
  for (const [name, value] of usage instanceof Map ? (usage as Members) : Object.entries(usage)) {
    const inner: unknown = value instanceof Numeral || (typeof value === "number" && Number.isFinite(value)) ? value : numbers(value);
    if (inner !== undefined) kept[name] = inner;
  }
  return Object.keys(kept).length > 0 ? kept : undefined;
}

function split(url: string, ledger: string | undefined, platform: Platform): [base: string, name: string] {
  const parsed = new URL(url);
  if (!/^https?:$/.test(parsed.protocol) || parsed.search || parsed.hash) throw new TypeError(`${url} is not the URL of a server, such as https://ledger.example`);
  if (parsed.username || parsed.password) throw new TypeError("the server's URL must not have a user and password; use token");
  const found = /^(.*)\/v1\/ledgers\/([^/]+)\/?$/.exec(parsed.origin + parsed.pathname);
  if (!found) return [(parsed.origin + parsed.pathname).replace(/\/+$/, ""), ledger ?? platform.environment("COLOPHON_LEDGER") ?? "default"];
  const name = decodeURIComponent(found[2]!);
  if (ledger !== undefined && ledger !== name) throw new TypeError(`the URL names the ledger ${name}, but ledger is ${ledger}`);
  return [found[1]!, name];
}

/** Throws a TypeError for an idempotency key with which the ledger would record something twice. */
export function requireKey(key: unknown): void {
  if (typeof key !== "string" || key.trim() === "") {
    throw new TypeError("key must be a text that is not empty or blank, because the ledger ignores such a key; leave it out for a random one");
  }
  if (hasLoneSurrogate(key)) throw new TypeError("key must be Unicode text, but it has a lone surrogate; give another key, or leave it out for a random one");
}

/** Returns an idempotency key as the value of a header. The server reads headers as UTF-8, and fetch takes one character for each byte. */
function headerOf(key: string): string {
  // eslint-disable-next-line no-control-regex -- control characters are what a header cannot have
  if (key !== key.trim() || /[\u0000-\u001f\u007f]/.test(key)) {
    throw new TypeError("a header cannot have a key with control characters, or with spaces at its ends; give another key, or use record");
  }
  return Array.from(wtf8(key), (byte) => String.fromCharCode(byte)).join("");
}

function randomHex(bytes: number): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(bytes)), (b) => b.toString(16).padStart(2, "0")).join("");
}
