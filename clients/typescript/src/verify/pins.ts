// What a client remembers about a log: its key, and its last checkpoint. The client then notices a log that forgets or forks.

import { equal, fromHex, toHex } from "./bytes.js";
import { VerificationError, must, shown } from "./errors.js";
import { type Checkpoint, type VerifierKey, keysFrom, openCheckpoint, parseCheckpoint, parseLogKeys, parseVerifierKey } from "./note.js";
import { emptyRoot, verifyConsistency } from "./tree.js";

/** Where pins are kept: localStorage, a file, or a Map. */
export interface PinStore {
  get(name: string): string | null | undefined | Promise<string | null | undefined>;
  set(name: string, value: string): void | Promise<void>;
}

/** Returns a store over localStorage or sessionStorage. */
export function webStore(storage: Pick<Storage, "getItem" | "setItem">): PinStore {
  return { get: (name) => storage.getItem(name), set: (name, value) => storage.setItem(name, value) };
}

/** Two signed checkpoints that are not of one log. Keep both: together they prove it. */
export class ForkError extends VerificationError {
  constructor(
    code: "fork" | "rollback",
    message: string,
    readonly evidence: { readonly remembered: string; readonly shown: string },
  ) {
    super(code, message);
  }
}

export interface Remembered {
  /** first: nothing was remembered. same: the same tree. grown: the remembered tree is its beginning. older: it is the beginning of the remembered tree. */
  readonly change: "first" | "same" | "grown" | "older";
  readonly checkpoint: Checkpoint;
  /** The checkpoint that was remembered before. */
  readonly before?: Checkpoint;
}

export interface RememberOptions {
  /** Returns the hashes of the consistency proof in hexadecimal, as GET /proofs/consistency does. `Tiles.consistencyProof` works too. */
  prove: (first: number, second: number) => Promise<readonly (string | Uint8Array)[]>;
  /** The log gave this checkpoint as its newest: a smaller tree than the remembered one is then a rollback. */
  newest?: boolean;
  /** Keys to trust. The default is the pinned key of the checkpoint's origin. */
  keys?: readonly (string | VerifierKey)[];
}

/** The keys to trust, and whether the pinned key is new, the newest one, or an earlier one. */
export interface Followed {
  readonly keys: VerifierKey[];
  readonly changed: "first" | "same" | "rotated";
}

/** Remembers keys and checkpoints by origin, and origins by name. */
export class Pins {
  constructor(
    private readonly store: PinStore,
    private readonly prefix = "colophon.pin:",
  ) {}

  /** Returns the pinned key of a log, or undefined. */
  async key(origin: string): Promise<VerifierKey | undefined> {
    const text = await this.store.get(this.name("key", origin));
    return text ? parseVerifierKey(text) : undefined;
  }

  /** Pins a key that the caller has from a source that they trust, in place of an earlier one. */
  async pinKey(vkey: string): Promise<VerifierKey> {
    const key = await parseVerifierKey(vkey);
    await this.store.set(this.name("key", key.name), key.text);
    return key;
  }

  /** Returns the keys to trust, given the answer of GET log/key. The first key that is seen of a log is pinned (trust on first use:
   * changed is then "first"). A later key is pinned only if handovers lead to it from the pinned one; otherwise a VerificationError key_changed.
   * name is a name that the caller chooses for the log, such as its URL. The origin of the log is remembered under it, and another origin is
   * key_changed too. Without a name, a server evades the pins if it shows a log with another origin. */
  async followKeys(logKey: string, name?: string): Promise<Followed> {
    const known = await parseLogKeys(logKey);
    if (name === undefined) return this.follow(known);
    const origin = known[0]!.name;
    const before = await this.store.get(this.name("origin", name));
    must(!before || before === origin, "key_changed", `${shown(name)} was the log ${shown(before ?? "")} before, and is now the log ${shown(origin)}`);
    const found = await this.follow(known);
    await this.store.set(this.name("origin", name), origin);
    return found;
  }

  private async follow(known: readonly VerifierKey[]): Promise<Followed> {
    const newest = known[0]!;
    const pinned = await this.key(newest.name);
    if (!pinned) {
      await this.pinKey(newest.text);
      return { keys: [newest], changed: "first" };
    }
    const keys = keysFrom(known, pinned);
    if (pinned.text === newest.text) return { keys, changed: "same" };
    // Until the overlap ends, the pinned key still signs and stays pinned.
    if (keys.some((key) => key.text === pinned.text && key.until !== undefined)) await this.pinKey(newest.text);
    return { keys, changed: "rotated" };
  }

  /** Returns the remembered checkpoint of a log, or undefined. */
  async checkpoint(origin: string): Promise<Checkpoint | undefined> {
    const note = await this.store.get(this.name("checkpoint", origin));
    return note ? parseCheckpoint(note) : undefined;
  }

  /** Verifies a checkpoint, compares it with the remembered one of the same origin, and remembers the larger one.
   * It throws a ForkError if one tree is not the beginning of the other, and then remembers nothing new. */
  async remember(note: string, { prove, newest = false, keys }: RememberOptions): Promise<Remembered> {
    const { origin } = parseCheckpoint(note);
    const pinned = keys ?? [await this.key(origin)].filter((key) => key !== undefined);
    must(pinned.length > 0, "wrong_key", `no key of ${shown(origin)} is pinned, and none was given`);
    const checkpoint: Checkpoint = await openCheckpoint(note, pinned);
    const before = await this.checkpoint(origin);
    if (!before) {
      await this.store.set(this.name("checkpoint", origin), note);
      return { change: "first", checkpoint };
    }
    const evidence = { remembered: before.note, shown: note };
    if (newest && checkpoint.size < before.size) {
      throw new ForkError("rollback", `the log now shows ${checkpoint.size} events, but it has signed ${before.size} before`, evidence);
    }
    await this.compare(before, checkpoint, prove, evidence);
    if (checkpoint.size > before.size) await this.store.set(this.name("checkpoint", origin), note);
    const change = checkpoint.size > before.size ? "grown" : checkpoint.size < before.size ? "older" : "same";
    return { change, checkpoint, before };
  }

  /** Verifies that the smaller tree is the beginning of the larger one. */
  private async compare(before: Checkpoint, now: Checkpoint, prove: RememberOptions["prove"], evidence: ForkError["evidence"]): Promise<void> {
    const [first, second] = before.size <= now.size ? [before, now] : [now, before];
    const forked = (why: string): ForkError => new ForkError("fork",
      `the log has forked: its tree of ${second.size} events does not begin with its tree of ${first.size} events; both are signed (${why})`, evidence);
    if (first.size === second.size) {
      if (!equal(first.root, second.root)) throw forked(`their roots are ${toHex(first.root)} and ${toHex(second.root)}`);
      return;
    }
    if (first.size === 0) {
      if (!equal(first.root, await emptyRoot())) throw forked("the root of the empty tree is another");
      return;
    }
    const proof = await prove(first.size, second.size);
    try {
      await verifyConsistency(first.size, first.root, second.size, second.root, proof.map((h) => (typeof h === "string" ? fromHex(h) : Uint8Array.from(h))));
    } catch (error) {
      if (error instanceof VerificationError && error.code !== "unsupported") throw forked(error.message);
      throw error;
    }
  }

  private name(what: string, origin: string): string {
    return `${this.prefix}${what}:${origin}`;
  }
}
