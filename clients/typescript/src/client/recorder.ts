// The background: lines go from a queue in memory to the store, and from there to the ledger.

import { VerificationError, must } from "../verify/errors.js";
import { parseJSON } from "../verify/json.js";
import type { VerifierKey } from "../verify/note.js";
import { requireVerified } from "../verify/receipt.js";
import { idempotencyKeyDigest, runKeyDigest } from "../hashes/records.js";
import { LedgerError, UnreachableError, reasonOf, temporary } from "./errors.js";
import type { Connection } from "./http.js";
import { type Segment, type Store, StoreFullError } from "./store.js";

/** What became of the records so far. */
export interface Stats {
  /** Records that were queued, and those of them that are in the spool. */
  accepted: number;
  spooled: number;
  /** Records that wait in memory for the spool. */
  queued: number;
  /** Records that the ledger has acknowledged, including those of earlier processes, and those of them that it already had. */
  recorded: number;
  replayed: number;
  /** Records that the ledger refused; the spool keeps them. */
  rejected: number;
  /** Records that were dropped because the queue was full, and those that are not JSON or have an empty or blank key. */
  dropped: number;
  invalid: number;
  /** Records in which lone surrogates became U+FFFD. */
  repaired: number;
  /** Receipts that do not verify; the spool keeps them. */
  unverified: number;
  /** The last failure to reach the ledger, or "". */
  lastError: string;
}

/** A receipt as the ledger sent it. */
export interface Receipt {
  readonly ledger: string;
  readonly seq: number;
  readonly kind: string;
  readonly time: string;
  readonly event_hash: string;
  readonly hashes: Readonly<Record<string, string | null>>;
  readonly checks: Readonly<Record<string, { readonly result: string; readonly claimed?: string; readonly computed?: string }>>;
  readonly replayed?: true;
  readonly [member: string]: unknown;
}

export interface RecorderOptions {
  readonly store: Store;
  readonly connection: Connection;
  readonly path: string;
  readonly maxQueueBytes: number;
  readonly flushInterval: number; // milliseconds
  readonly keys: Promise<readonly VerifierKey[]>;
  readonly onReceipt: ((receipt: Receipt, text: string) => void) | undefined;
  readonly warn: (message: string) => void;
}

const grouped = 256 << 10; // bytes after which lines are written at once
const firstPause = 250;
const longestPause = 30_000;
const longestRetryAfter = 600; // seconds
const scan = 5_000; // milliseconds between scans for segments that other processes have left, and before a segment that failed is tried again
const hold = new Set([401, 403, 404]); // the token or the name must be corrected; until then, records wait
const serverErrors = 3; // number of 5xx answers to a line, after which the line counts as refused

export class Recorder {
  readonly stats: Stats = { accepted: 0, spooled: 0, queued: 0, recorded: 0, replayed: 0, rejected: 0, dropped: 0, invalid: 0, repaired: 0, unverified: 0, lastError: "" };
  private queue: string[] = [];
  private queuedBytes = 0;
  private writing: Promise<void> | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private sending: Promise<void> | undefined;
  private readonly own = new Set<string>(); // segments that were written here and are not answered
  private closed = false;
  private more = false; // something was written since the sender looked
  private attempts = 0; // failed attempts since the last success
  private endIdle: () => void = () => undefined;
  private endRetryAfter: () => void = () => undefined;
  private endBackoff: () => void = () => undefined;
  private readonly waiters = new Set<() => void>();
  private readonly warned = new Map<string, number>();

  constructor(private readonly options: RecorderOptions) {}

  /** Queues a line and reports whether there was room. It never waits and never throws. */
  put(line: string): boolean {
    if (this.queuedBytes + line.length > this.options.maxQueueBytes && this.queue.length > 0) {
      this.stats.dropped++;
      this.warn("full", `the queue is full: the record is dropped, and so are others until the disk or the ledger takes records (${this.stats.lastError || "no error so far"})`);
      return false;
    }
    this.queue.push(line);
    this.queuedBytes += line.length;
    this.stats.accepted++;
    if (this.closed) this.writeNow();
    else if (this.queuedBytes >= grouped) this.write();
    else this.timer ??= unref(setTimeout(() => this.write(), this.options.flushInterval));
    return true;
  }

  /** Waits until all lines that are queued now are in the store, and reports whether they are. */
  async sync(timeout = Infinity): Promise<boolean> {
    const target = this.stats.accepted;
    this.write();
    return this.until(() => this.stats.spooled >= target, timeout);
  }

  /** Waits until the ledger has answered all lines that are queued now, and reports whether it has. With attempts, it gives up after this number of failed ones.
   * It does not wait once the recorder has ended. */
  async flush(timeout = Infinity, attempts = Infinity): Promise<boolean> {
    const deadline = Date.now() + timeout;
    if (!(await this.sync(timeout))) return false;
    const names = new Set(this.own);
    const last = this.attempts + attempts;
    this.start();
    this.endBackoff();
    for (;;) {
      for (const name of names) if (!(await this.options.store.waits(name))) names.delete(name);
      if (names.size === 0) return true;
      if (this.attempts >= last || Date.now() >= deadline || this.closed) return false;
      await this.until(() => [...names].some((name) => !this.own.has(name)) || this.attempts >= last, Math.min(deadline - Date.now(), 200));
    }
  }

  /** Tries for a time to send everything, and ends. Without an answer, it gives up after one attempt; the rest stays in the store. */
  async close(timeout: number): Promise<boolean> {
    const done = await this.flush(timeout, 1);
    this.end();
    return done;
  }

  /** Ends at once. What is queued goes to the store. */
  end(): void {
    if (this.closed) return;
    this.closed = true;
    clearTimeout(this.timer);
    this.writeNow();
    this.endIdle();
    this.endRetryAfter();
    this.endBackoff();
    this.changed();
    this.options.store.close();
  }

  /** Begins to send what is in the store. */
  start(): void {
    this.more = true;
    this.endIdle();
    if (this.closed) return;
    this.sending ??= this.send().catch((error: unknown) => this.warn("bug", `unexpected error in the background: ${String(error)}`)).finally(() => (this.sending = undefined));
  }

  /** Writes a warning, at most once a minute for each name. */
  warn(name: string, message: string): void {
    const now = Date.now();
    if (now - (this.warned.get(name) ?? -Infinity) < 60_000) return;
    this.warned.set(name, now);
    try {
      this.options.warn(`colophon: ${message}`);
    } catch {
      // A logger of the caller must not stop records.
    }
  }

  // The writer.

  private write(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.writing ??= this.writeAll().finally(() => {
      this.writing = undefined;
      // Lines that arrived while the last ones were written.
      if (this.queue.length > 0 && !this.closed) this.timer ??= unref(setTimeout(() => this.write(), this.options.flushInterval));
    });
  }

  private async writeAll(): Promise<void> {
    while (this.queue.length > 0 && !this.closed) {
      const lines = this.queue;
      this.queue = [];
      this.underWay = lines;
      try {
        const name = await this.options.store.append(lines);
        this.own.add(name);
        this.written(lines);
        this.start();
      } catch (error) {
        if (this.hasEnded()) return; // writeNow has them
        this.queue = lines.concat(this.queue);
        if (error instanceof StoreFullError) this.warn("spool", `${error.message}; records stay in memory until there is room`);
        else this.warn("disk", `records cannot be written to ${this.options.store.where} and stay in memory: ${String(error)}`);
        await new Promise((resolve) => unref(setTimeout(resolve, 1000)));
      } finally {
        this.underWay = [];
      }
    }
  }

  private underWay: readonly string[] = [];

  private written(lines: readonly string[]): void {
    for (const line of lines) this.queuedBytes -= line.length;
    this.stats.spooled += lines.length;
    this.changed();
  }

  /** At the end of the process: writes without waiting. Lines whose write is under way are written again, which is harmless. */
  private writeNow(): void {
    const lines = [...this.underWay, ...this.queue];
    if (lines.length === 0) return;
    this.queue = [];
    try {
      this.own.add(this.options.store.appendNow(lines));
      this.written(lines);
    } catch (error) {
      this.warn("disk", `${lines.length} records cannot be written to ${this.options.store.where} and are lost: ${String(error)}`);
    }
  }

  // The sender.

  private async send(): Promise<void> {
    while (!this.closed) {
      this.more = false;
      let segment: Segment | null = null;
      try {
        segment = await this.options.store.take();
      } catch (error) {
        this.warn("read", `${this.options.store.where} cannot be read: ${String(error)}`);
      }
      if (!segment) {
        if (!this.hasMore()) await this.pause(scan, (end) => (this.endIdle = end));
        continue;
      }
      const sent = segment;
      try {
        await this.sendSegment(sent);
        sent.release();
      } catch (error) {
        this.warn("segment", `${sent.name} in ${this.options.store.where} cannot be read or deleted, and is tried again in ${scan / 1000} s: ${String(error)}`);
        unref(setTimeout(() => sent.release(), scan)); // until then, the others are sent
      }
    }
  }

  /** Sends a segment until each of its lines has an answer. It keeps no record of its progress, because repetitions are harmless. */
  private async sendSegment(segment: Segment): Promise<void> {
    let pending = (await segment.lines()).map((line) => ({ line, errors: 0 }));
    let failures = 0;
    for (let most = pending.length; pending.length > 0; ) {
      if (this.closed) return;
      const part = pending.slice(0, most);
      const { settled, failure } = await this.post(part);
      pending = pending.filter((line) => !settled.has(line));
      this.stats.lastError = failure?.message ?? "";
      if (!failure) {
        failures = 0;
        continue;
      }
      if (failure instanceof LedgerError && failure.status === 413) { // a proxy limits the length of requests
        if (part.length === 1) await this.reject(pending.shift()!.line, failure.status, failure.reason);
        else most = Math.ceil(part.length / 2);
        continue;
      }
      this.attempts++;
      this.changed();
      failures = settled.size > 0 ? 1 : failures + 1;
      const wait = Math.min(firstPause * 2 ** Math.min(failures - 1, 20), longestPause);
      const retryAfter = failure instanceof LedgerError ? Math.min(failure.retryAfter, longestRetryAfter) * 1000 : 0;
      const pause = Math.max(wait / 2 + (Math.random() * wait) / 2, retryAfter);
      this.warn("ledger", `${failure.message}; records wait in ${this.options.store.where}, next attempt in ${(pause / 1000).toFixed(1)} s`);
      await this.pauseBetweenAttempts(retryAfter, pause - retryAfter);
    }
    await segment.remove();
    this.own.delete(segment.name);
    this.changed();
  }

  private async post(part: { line: string; errors: number }[]): Promise<{ settled: Set<{ line: string }>; failure?: LedgerError | UnreachableError }> {
    const settled = new Set<{ line: string }>();
    try {
      const keys = await this.options.keys;
      const headers = { "Content-Type": "application/x-ndjson", Prefer: keys.length > 0 ? "return=representation" : "return=minimal" };
      const text = await this.options.connection.call("POST", this.options.path, part.map((p) => p.line + "\n").join(""), headers);
      const answers = text.split("\n").filter((line) => line !== "");
      let failure: LedgerError | UnreachableError | undefined;
      for (const [i, answer] of answers.entries()) {
        const read = parse(answer);
        const sent = part[i];
        if (!sent) { // about the body as a whole
          if (typeof read["status"] === "number") failure = problemOf(read);
          break;
        }
        if (failure && typeof read["status"] === "number") continue; // it may be due to the earlier line, which waits: only receipts count
        if (await this.settle(sent, answer, read)) settled.add(sent);
        else failure = problemOf(read);
      }
      if (!failure && answers.length < part.length) failure = new UnreachableError(`the server answered ${answers.length} of ${part.length} lines`);
      return failure ? { settled, failure } : { settled };
    } catch (error) {
      if (error instanceof LedgerError || error instanceof UnreachableError) return { settled, failure: error };
      return { settled, failure: new UnreachableError(`the answer cannot be read: ${String(error)}`) };
    }
  }

  /** Handles the answer to a line, and reports whether the line is settled. */
  private async settle(sent: { line: string; errors: number }, text: string, answer: Record<string, unknown>): Promise<boolean> {
    const { status } = answer;
    if (typeof status === "number") {
      if (temporary.has(status) || (hold.has(status) && status !== 404)) return false;
      if (status >= 500 && ++sent.errors < serverErrors) return false;
      await this.reject(sent.line, status, reasonOf(answer));
      return true;
    }
    must(typeof answer["seq"] === "number" && typeof answer["event_hash"] === "string", "malformed", "an answer is neither a receipt nor a problem");
    this.stats.recorded++;
    if (answer["replayed"] === true) this.stats.replayed++;
    const keys = await this.options.keys;
    if (keys.length > 0) {
      try {
        await verifyAnswer(sent.line, text, keys);
      } catch (error) {
        if (!(error instanceof VerificationError)) throw error;
        this.stats.unverified++;
        this.warn("receipt", `the receipt of event ${answer["seq"]} does not verify: ${error.message}; ${this.options.store.where} keeps it`);
        await this.keep(sent.line, 200, `recorded as event ${answer["seq"]}, but its receipt does not verify: ${error.message}; receipt: ${text}`);
        return true;
      }
    }
    try {
      this.options.onReceipt?.(answer as Receipt, text);
    } catch (error) {
      this.warn("onReceipt", `onReceipt failed for event ${answer["seq"]}: ${String(error)}`);
    }
    return true;
  }

  private async reject(line: string, status: number, reason: string): Promise<void> {
    this.stats.rejected++;
    this.warn(`rejected ${status}`, `the ledger refuses a record with ${status}: ${reason}; ${this.options.store.where} keeps it`);
    await this.keep(line, status, reason);
  }

  private async keep(line: string, status: number, reason: string): Promise<void> {
    try {
      if (!(await this.options.store.reject(line, status, reason))) this.warn("rejected full", `there is no room for refused records in ${this.options.store.where}; they are not kept any more`);
    } catch (error) {
      this.warn("rejected", `a refused record cannot be written to ${this.options.store.where}: ${String(error)}`);
    }
  }

  // Waiting.

  // Methods, because these change during an await.
  private hasEnded(): boolean {
    return this.closed;
  }

  private hasMore(): boolean {
    return this.more;
  }

  /** Waits for two times in turn, in milliseconds. flush ends the second one, but only the end of the recorder ends the first. */
  private async pauseBetweenAttempts(retryAfter: number, backoff: number): Promise<void> {
    const flushed = new AbortController();
    this.endBackoff = () => flushed.abort();
    if (retryAfter > 0) await this.pause(retryAfter, (end) => (this.endRetryAfter = end));
    if (!flushed.signal.aborted) await this.pause(backoff, (end) => (this.endBackoff = end));
  }

  /** Waits for a time, or until the function that it gives to onEnd is called. It does not keep the process alive. */
  private pause(milliseconds: number, onEnd: (end: () => void) => void): Promise<void> {
    if (this.closed) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = unref(setTimeout(resolve, milliseconds));
      onEnd(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  private changed(): void {
    for (const waiter of [...this.waiters]) waiter();
  }

  /** Waits until a condition holds or the recorder ends, and reports whether it holds. It keeps the process alive meanwhile. */
  private async until(condition: () => boolean, timeout: number): Promise<boolean> {
    if (condition() || this.closed) return condition();
    return new Promise((resolve) => {
      const finish = (): void => {
        clearTimeout(timer);
        this.waiters.delete(look);
        resolve(condition());
      };
      const look = (): void => {
        if (condition() || this.closed) finish();
      };
      const timer = setTimeout(finish, Math.min(Math.max(timeout, 0), 2 ** 31 - 1));
      this.waiters.add(look);
    });
  }
}

/** Verifies a receipt, and that its event has the kind and the idempotency key, or the run_id, that were sent. It does not compare the rest of the record. */
export async function verifyAnswer(line: string, receipt: string, keys: readonly VerifierKey[]): Promise<void> {
  const { event } = await requireVerified(receipt, { keys });
  const sent = parseJSON(line);
  must(event && sent instanceof Map && sent.get("record") instanceof Map, "malformed", "the line is not a record");
  const [kind, key, run] = [sent.get("kind"), sent.get("idempotency_key"), (sent.get("record") as typeof sent).get("run_id")];
  must(event.kind === kind, "field", `the event is of kind ${event.kind}, but the request was of another`);
  const digest = typeof key === "string" ? await idempotencyKeyDigest(key) : typeof run === "string" ? await runKeyDigest(event.kind, run) : undefined;
  must(digest === undefined || event.record.get("idempotency_key") === digest, "field", "the event's idempotency key is not that of the request");
}

function parse(text: string): Record<string, unknown> {
  const value: unknown = JSON.parse(text);
  must(value !== null && typeof value === "object", "malformed", "an answer is not an object");
  return value as Record<string, unknown>;
}

function problemOf(answer: Record<string, unknown>): LedgerError {
  return new LedgerError("a line of a batch", Number(answer["status"]), reasonOf(answer), 0, answer);
}

/** Keeps a timer from keeping the process alive, on platforms that have processes. */
function unref<T>(timer: T): T {
  (timer as { unref?: () => void }).unref?.();
  return timer;
}
