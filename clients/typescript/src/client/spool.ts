// A folder of records that wait for the ledger.
//
// Records are lines of POST /batch in segments: files that one process writes. The owner of a segment is part of its name, and
// a process takes a segment of another owner by renaming it, which only one process can do. An owner shows that it is alive by
// touching a file. If its process has ended, or has not touched the file for half a minute, its segments are free.
//
// A process that was only asleep can wake up and write to a segment that was taken. After each write, it checks whether the
// segment is still its own, and otherwise writes the lines again. A record that is sent twice for this reason is recorded once, because of its key.
//
// The folder may be shared with the Python client, whose segments have other names. Each client sends its own.

import { randomBytes } from "node:crypto";
import * as fs from "node:fs";
import * as fsp from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { type Segment, type Store, StoreFullError } from "./store.js";

const segmentBytes = 4 << 20; // a segment is sealed at this size; one request sends it
const maxRejectedBytes = 64 << 20;
const heartbeat = 5_000; // milliseconds
const silence = 30_000; // milliseconds after which an owner counts as dead
const segmentName = /^node-(\d{15})-([0-9a-f]{16})-(\d{6})\.ndjson$/;
const ownerName = /^\.node-([0-9a-f]{16})\.alive$/;

/** Owners in this process: other Ledger objects with the same folder. */
const ownersHere = new Set<string>();

interface Current {
  readonly file: fsp.FileHandle;
  readonly name: string;
  size: number;
}

export class FileSpool implements Store {
  readonly where: string;
  private readonly owner = randomBytes(8).toString("hex");
  private readonly taken = new Set<string>();
  private readonly beat: NodeJS.Timeout;
  private current: Current | undefined;
  private numbered = 0;
  private total = 0; // bytes of all segments when last counted, and what was appended since
  private busy: Promise<unknown> = Promise.resolve();

  /** Creates the folder, readable only by its owner, unless it exists. It throws if the folder cannot be written. */
  constructor(
    private readonly folder: string,
    private readonly maxBytes: number,
  ) {
    this.where = folder;
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
    const sign = JSON.stringify({ pid: process.pid, host: hostname() });
    fs.writeFileSync(this.alive(this.owner), sign, { mode: 0o600 });
    ownersHere.add(this.owner);
    this.beat = setInterval(() => void fsp.writeFile(this.alive(this.owner), sign, { mode: 0o600 }).catch(() => undefined), heartbeat);
    this.beat.unref();
  }

  append(lines: readonly string[]): Promise<string> {
    return this.alone(async () => {
      const data = Buffer.from(lines.join("\n") + "\n");
      if (this.total + data.length > this.maxBytes) this.total = await this.bytes();
      if (this.total + data.length > this.maxBytes) throw new StoreFullError(`the spool folder ${this.folder} has ${this.total} bytes of ${this.maxBytes}`);
      for (;;) {
        const current = this.current ?? (await this.create());
        try {
          await current.file.appendFile(data);
          await current.file.datasync();
        } catch (error) {
          // It is unknown whether these lines were written. Torn lines stay at the end of a segment, and are left out when it is read.
          await current.file.truncate(current.size).catch(() => undefined);
          await this.seal();
          throw error;
        }
        current.size += data.length;
        this.total += data.length;
        const own = await this.isOwn(current);
        if (!own || current.size >= segmentBytes) await this.seal();
        if (own) return current.name;
      }
    });
  }

  appendNow(lines: readonly string[]): string {
    // A file of its own: an asynchronous write to the current one may be in progress.
    const name = this.nextName();
    const hidden = join(this.folder, `.${name}`);
    try {
      const file = fs.openSync(hidden, "wx", 0o600);
      try {
        fs.writeFileSync(file, lines.join("\n") + "\n"); // unlike writeSync, it writes everything
        fs.fsyncSync(file);
      } finally {
        fs.closeSync(file);
      }
      fs.renameSync(hidden, join(this.folder, name));
    } catch (error) {
      fs.rmSync(hidden, { force: true });
      throw error;
    }
    try {
      this.syncFolderNow();
    } catch {
      // The file is there, and only a power failure could lose its name.
    }
    return name;
  }

  take(): Promise<Segment | null> {
    return this.alone(async () => {
      const names = (await this.names()).filter((name) => !this.taken.has(name));
      for (const name of names) {
        const owner = segmentName.exec(name)![2]!;
        if (owner === this.owner ? name !== this.current?.name : await this.isDead(owner)) {
          const own = owner === this.owner ? name : await this.adopt(name);
          if (own) return this.segment(own);
        }
      }
      const last = this.current;
      if (!last || last.size === 0) return null;
      await this.seal();
      return this.segment(last.name);
    });
  }

  async waits(name: string): Promise<boolean> {
    return fsp.access(join(this.folder, name)).then(() => true, () => false);
  }

  async reject(line: string, status: number, reason: string): Promise<boolean> {
    // The line is JSON, and stays as it is: JSON.parse loses the difference between 1 and 1.0, and digits of long integers.
    const entry = JSON.stringify({ time: new Date().toISOString(), status, reason }).slice(0, -1) + `,"line":${isJSON(line) ? line : JSON.stringify(line)}}\n`;
    // Appending less than a page to a file is atomic on local disks; longer entries of two processes could mix, so each process has a file.
    const path = join(this.folder, `rejected-node-${this.owner}.ndjson`);
    const size = await fsp.stat(path).then((s) => s.size, () => 0);
    if (size + entry.length > maxRejectedBytes) return false;
    await fsp.appendFile(path, entry, { mode: 0o600, flush: true });
    return true;
  }

  async bytes(): Promise<number> {
    const sizes = await Promise.all((await this.names()).map((name) => fsp.stat(join(this.folder, name)).then((s) => s.size, () => 0)));
    return sizes.reduce((sum, size) => sum + size, 0);
  }

  /** Gives up the folder. What waits is sent by another process, or at the next start. */
  close(): void {
    clearInterval(this.beat);
    ownersHere.delete(this.owner);
    try {
      fs.unlinkSync(this.alive(this.owner));
    } catch {
      // Another process has tidied up.
    }
  }

  /** Runs one operation on the folder at a time. */
  private alone<T>(operation: () => Promise<T>): Promise<T> {
    const result = this.busy.then(operation);
    this.busy = result.catch(() => undefined);
    return result;
  }

  private alive(owner: string): string {
    return join(this.folder, `.node-${owner}.alive`);
  }

  private async names(): Promise<string[]> {
    return (await fsp.readdir(this.folder)).filter((name) => segmentName.test(name)).sort();
  }

  private nextName(): string {
    return `node-${String(Date.now()).padStart(15, "0")}-${this.owner}-${String(++this.numbered % 1e6).padStart(6, "0")}.ndjson`;
  }

  private async create(): Promise<Current> {
    const name = this.nextName();
    const file = await fsp.open(join(this.folder, name), "ax", 0o600);
    await this.syncFolder();
    this.total = await this.bytes();
    return (this.current = { file, name, size: 0 });
  }

  private async syncFolder(): Promise<void> {
    if (process.platform === "win32") return;
    const folder = await fsp.open(this.folder, "r");
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  }

  private syncFolderNow(): void {
    if (process.platform === "win32") return;
    const folder = fs.openSync(this.folder, "r");
    try {
      fs.fsyncSync(folder);
    } finally {
      fs.closeSync(folder);
    }
  }

  private async seal(): Promise<void> {
    const file = this.current?.file;
    this.current = undefined;
    await file?.close();
  }

  /** Reports whether no other process has taken the current segment. */
  private async isOwn(current: Current): Promise<boolean> {
    const [named, open] = await Promise.all([fsp.stat(join(this.folder, current.name)).catch(() => null), current.file.stat()]);
    return named !== null && named.ino === open.ino;
  }

  private async isDead(owner: string): Promise<boolean> {
    if (ownersHere.has(owner)) return false;
    const path = this.alive(owner);
    const state = await fsp.stat(path).catch(() => null);
    if (!state) return true;
    if (Date.now() - state.mtimeMs > silence) return true;
    try {
      const { pid, host } = JSON.parse(await fsp.readFile(path, "utf8")) as { pid?: unknown; host?: unknown };
      if (host !== hostname() || typeof pid !== "number") return false;
      if (pid === process.pid) return true; // of an earlier process with this number, or of another thread, which then writes again
      process.kill(pid, 0);
      return false;
    } catch (error) {
      return (error as NodeJS.ErrnoException).code === "ESRCH";
    }
  }

  /** Makes a segment of a dead owner this process's own. It returns null if another process was faster. */
  private async adopt(name: string): Promise<string | null> {
    const own = name.replace(segmentName, (_, time: string) => `node-${time}-${this.owner}-${String(++this.numbered % 1e6).padStart(6, "0")}.ndjson`);
    try {
      await fsp.rename(join(this.folder, name), join(this.folder, own));
      return own;
    } catch {
      return null;
    } finally {
      await this.tidy();
    }
  }

  /** Removes the files of owners that are dead and have no more segments. */
  private async tidy(): Promise<void> {
    const all = await fsp.readdir(this.folder);
    const owners = new Set(all.map((name) => segmentName.exec(name)?.[2]));
    for (const name of all) {
      const owner = ownerName.exec(name)?.[1];
      if (owner !== undefined && owner !== this.owner && !owners.has(owner) && (await this.isDead(owner))) await fsp.unlink(join(this.folder, name)).catch(() => undefined);
    }
  }

  private segment(name: string): Segment {
    this.taken.add(name);
    const path = join(this.folder, name);
    return {
      name,
      // The end of a segment whose process died while writing is left out: it had not been synced.
      lines: async () => (await fsp.readFile(path, "utf8").catch(ifMissing(""))).split("\n").slice(0, -1).filter((line) => line !== ""),
      remove: async () => {
        await fsp.unlink(path).catch(ifMissing(undefined));
        this.taken.delete(name);
      },
      release: () => void this.taken.delete(name),
    };
  }
}

/** Returns a handler of errors that gives a value if the file does not exist, and throws other errors again. */
function ifMissing<T>(value: T): (error: unknown) => T {
  return (error) => {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return value;
    throw error;
  };
}

function isJSON(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
