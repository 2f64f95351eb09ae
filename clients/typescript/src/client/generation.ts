import { type BaseLedger, type IpcRecord, requireKey } from "./ledger.js";

const longestLabel = 128; // bytes
const mostLabels = 32;

/** Members of an IPC record, and what else is known about a generation. */
export type Fields = Partial<Omit<IpcRecord, "labels">> & { labels?: Readonly<Record<string, string>> };

/** One generation in progress. Its members can be set until it ends. Failures to record are logged, and never reach the caller. */
export class Generation {
  readonly fields: Partial<IpcRecord>;
  readonly labels: Record<string, string>;
  /** An idempotency key, in place of a random one. A run_id is not the key of a generation, because a run can have several. */
  key: string | undefined;
  private readonly started = new Date().toISOString();
  private readonly begun = performance.now();
  private ended = false;

  constructor(
    private readonly ledger: BaseLedger,
    { labels, ...fields }: Fields = {},
  ) {
    this.fields = fields;
    this.labels = { ...ledger.contextLabels(), ...labels };
  }

  set output(text: string) {
    this.fields.output = text;
  }

  /** Sets members of the IPC record. */
  take({ labels, ...fields }: Fields): void {
    Object.assign(this.fields, fields);
    Object.assign(this.labels, labels);
  }

  /** Records the generation. Later calls do nothing. An error becomes the label "error". */
  end(error?: unknown): void {
    if (this.ended) return;
    this.ended = true;
    try {
      if (error !== undefined) this.labels["error"] = error instanceof Error ? error.constructor.name || error.name : typeof error;
      const usage = { duration_ms: Math.round(performance.now() - this.begun), ...this.fields.usage };
      const record: IpcRecord = { timestamp: this.started, ...this.fields, usage, model: this.fields.model ?? "unknown" };
      if (record.payload === undefined && record.input_hash === undefined) record.payload = {};
      const labels = Object.entries(this.labels).filter(([name]) => name !== "").slice(0, mostLabels).map(([name, value]) => [clipped(name), clipped(value)]);
      if (labels.length > 0) record.labels = Object.fromEntries(labels) as Record<string, string>;
      let key = this.key;
      try {
        if (key !== undefined) requireKey(key);
      } catch (refused) {
        this.ledger.warn(`a generation gets a random key: ${String(refused)}`);
        key = undefined;
      }
      this.ledger.record("ipc_record", record, { key, severalInRun: true });
    } catch (failure) {
      this.ledger.warn(`a generation was not recorded: ${String(failure)}`);
    }
  }
}

const encoder = new TextEncoder();

function clipped(text: string): string {
  if (text.length <= longestLabel / 4) return text;
  const bytes = encoder.encode(text);
  if (bytes.length <= longestLabel) return new TextDecoder().decode(bytes);
  let end = longestLabel;
  while ((bytes[end]! & 0xc0) === 0x80) end--;
  return new TextDecoder().decode(bytes.subarray(0, end));
}

/** Records what a function generates.
 *
 * ```js
 * const answer = await withColophon(ledger, { model: "gemma2:2b", payload: { question }, system_prompt: prompt, temperature: 0.2 },
 *   async () => generate(question));
 * ```
 * The output is the result if it is a text; the function can also set `g.output`. An error of the function is recorded as the label
 * "error", and thrown again. */
export async function withColophon<T>(ledger: BaseLedger, fields: Fields, generate: (generation: Generation) => T | Promise<T>): Promise<T> {
  const generation = new Generation(ledger, fields);
  let result: T;
  try {
    result = await generate(generation);
  } catch (error) {
    generation.end(error);
    throw error;
  }
  if (typeof result === "string" && generation.fields.output === undefined) generation.output = result;
  generation.end();
  return result;
}
