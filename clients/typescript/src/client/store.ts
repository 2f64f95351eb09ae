// Where records wait for the ledger. Node has a folder (spool.ts); elsewhere they wait in memory.

/** Lines of POST /batch that are sent and deleted together. */
export interface Segment {
  readonly name: string;
  /** The complete lines, without line ends; none if the segment no longer exists. */
  lines(): Promise<string[]>;
  /** Deletes the segment, whose records the ledger has. */
  remove(): Promise<void>;
  /** Leaves the segment to be taken again. */
  release(): void;
}

export interface Store {
  /** Keeps lines, and returns the name of their segment. In a folder they then survive a crash of the process and a loss of power. */
  append(lines: readonly string[]): Promise<string>;
  /** Does the same at the end of the process, when nothing can wait. */
  appendNow(lines: readonly string[]): string;
  /** Takes the oldest segment that no process is sending, or returns null. */
  take(): Promise<Segment | null>;
  /** Reports whether a segment still exists. */
  waits(name: string): Promise<boolean>;
  /** Keeps a line that the ledger refuses, with the reason. It reports whether there was room. */
  reject(line: string, status: number, reason: string): Promise<boolean>;
  /** Bytes that wait, over all processes. */
  bytes(): Promise<number>;
  /** For messages. */
  readonly where: string;
  close(): void;
}

/** The store is full. */
export class StoreFullError extends Error {
  override readonly name = "StoreFullError";
}

const segmentBytes = 4 << 20;

class MemorySegment implements Segment {
  taken = false;
  bytes = 0;
  readonly kept: string[] = [];

  constructor(
    readonly name: string,
    private readonly of: Set<MemorySegment>,
  ) {}

  lines(): Promise<string[]> {
    return Promise.resolve(this.kept);
  }

  remove(): Promise<void> {
    this.of.delete(this);
    return Promise.resolve();
  }

  release(): void {
    this.taken = false;
  }
}

/** Keeps records in memory: they are lost with the process. */
export class MemoryStore implements Store {
  readonly where = "memory";
  /** The lines that the ledger refused, the last 1,000. */
  readonly rejected: { line: string; status: number; reason: string }[] = [];
  private readonly segments = new Set<MemorySegment>();
  private current: MemorySegment | undefined;
  private numbered = 0;

  constructor(private readonly maxBytes: number) {}

  // eslint-disable-next-line @typescript-eslint/require-await -- an error must reject
  async append(lines: readonly string[]): Promise<string> {
    return this.appendNow(lines);
  }

  appendNow(lines: readonly string[]): string {
    const bytes = lines.reduce((sum, line) => sum + line.length, 0);
    if (this.total() + bytes > this.maxBytes) throw new StoreFullError(`${this.maxBytes} bytes wait in memory, as many as may`);
    if (!this.current || this.current.taken || this.current.bytes > segmentBytes || !this.segments.has(this.current)) {
      this.current = new MemorySegment(String(++this.numbered), this.segments);
      this.segments.add(this.current);
    }
    this.current.kept.push(...lines);
    this.current.bytes += bytes;
    return this.current.name;
  }

  take(): Promise<Segment | null> {
    const found = [...this.segments].find((segment) => !segment.taken);
    if (found) found.taken = true;
    return Promise.resolve(found ?? null);
  }

  waits(name: string): Promise<boolean> {
    return Promise.resolve([...this.segments].some((segment) => segment.name === name));
  }

  reject(line: string, status: number, reason: string): Promise<boolean> {
    this.rejected.push({ line, status, reason });
    if (this.rejected.length > 1000) this.rejected.shift();
    return Promise.resolve(true);
  }

  bytes(): Promise<number> {
    return Promise.resolve(this.total());
  }

  close(): void {
    // Nothing to close.
  }

  private total(): number {
    return [...this.segments].reduce((sum, segment) => sum + segment.bytes, 0);
  }
}
