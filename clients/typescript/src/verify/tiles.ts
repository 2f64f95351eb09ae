// Tiles of the tree (C2SP tlog-tiles; spec: Tiles and entry bundles).

import type { Bytes } from "./bytes.js";
import { must } from "./errors.js";
import { type Hash, type Range, consistencyRanges, inclusionRanges, nodeHash } from "./tree.js";

const full = 256; // hashes in a full tile
const hashSize = 32;

/** Fetches a path below the log's prefix, such as `tile/0/x001/067.p/3`. It returns null if the log does not have it. */
export type FetchTile = (path: string) => Promise<Bytes | null>;

/** Returns the path of a tile, or of an entry bundle if level is "entries". */
export function tilePath(level: number | "entries", index: number, width: number): string {
  const digits = String(index);
  const groups = digits.padStart(Math.ceil(digits.length / 3) * 3, "0").match(/\d{3}/g)!;
  const last = groups.pop()!;
  return `tile/${level}/` + groups.map((group) => `x${group}/`).join("") + last + (width === full ? "" : `.p/${width}`);
}

/** Reads the entries of a bundle: each a length in two bytes, big-endian, and the entry. */
export function readBundle(bytes: Uint8Array): Uint8Array[] {
  const entries: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; ) {
    must(at + 2 <= bytes.length, "malformed", "an entry bundle ends within a length");
    const end = at + 2 + bytes[at]! * 256 + bytes[at + 1]!;
    must(end <= bytes.length, "malformed", "an entry bundle ends within an entry");
    entries.push(bytes.slice(at + 2, end));
    at = end;
  }
  return entries;
}

/** Computes nodes of the tree from tiles. It trusts no tile: a wrong one gives a proof that does not verify. */
export class Tiles {
  // The widest tile read so far, by level and index.
  private readonly read = new Map<string, Promise<Bytes>>();

  constructor(
    private readonly fetchTile: FetchTile,
    private readonly maxTiles = 1024, // kept in memory: 8 KiB each
  ) {}

  /** Returns the inclusion proof of a leaf in the tree of this size. */
  inclusionProof(index: number, size: number): Promise<Hash[]> {
    return this.hashes(inclusionRanges(index, size), size);
  }

  /** Returns the consistency proof between two sizes. */
  consistencyProof(first: number, second: number): Promise<Hash[]> {
    return this.hashes(consistencyRanges(first, second), second);
  }

  /** Returns the root of the tree of this size, at least 1. */
  root(size: number): Promise<Hash> {
    return this.hash({ start: 0, end: size }, size);
  }

  /** Returns the leaf hash at an index of the tree of this size. */
  leaf(index: number, size: number): Promise<Hash> {
    return this.hash({ start: index, end: index + 1 }, size);
  }

  private async hashes(ranges: Range[], size: number): Promise<Hash[]> {
    return Promise.all(ranges.map((range) => this.hash(range, size)));
  }

  /** Returns the hash over a range of leaves of the tree of this size. */
  private async hash({ start, end }: Range, size: number): Promise<Hash> {
    const n = end - start;
    let k = 1;
    let height = 0;
    while (2 * k <= n) [k, height] = [2 * k, height + 1];
    if (k === n) return this.node(height, start / n, size);
    return nodeHash(await this.hash({ start, end: start + k }, size), await this.hash({ start: start + k, end }, size));
  }

  /** Returns a node whose leaves are all in the tree. */
  private async node(height: number, index: number, size: number): Promise<Hash> {
    const level = Math.floor(height / 8);
    const under = 2 ** (height % 8); // hashes of the tile that are below the node
    const first = index * under;
    const tile = Math.floor(first / full);
    const bytes = await this.tile(level, tile, Math.min(full, Math.floor(size / 256 ** level) - tile * full));
    let row: Hash[] = [];
    for (let i = 0; i < under; i++) row.push(bytes.slice((first % full + i) * hashSize, (first % full + i + 1) * hashSize));
    while (row.length > 1) {
      const above: Hash[] = [];
      for (let i = 0; i < row.length; i += 2) above.push(await nodeHash(row[i]!, row[i + 1]!));
      row = above;
    }
    return row[0]!;
  }

  /** Returns a tile with at least this number of hashes. */
  private async tile(level: number, index: number, width: number): Promise<Bytes> {
    const name = `${level}/${index}`;
    const known = this.read.get(name);
    if (known) {
      const bytes = await known;
      if (bytes.length >= width * hashSize) return bytes;
    }
    const reading = this.load(level, index, width);
    this.read.set(name, reading);
    reading.catch(() => this.read.delete(name));
    if (this.read.size > this.maxTiles) this.read.delete(this.read.keys().next().value!);
    return reading;
  }

  private async load(level: number, index: number, width: number): Promise<Bytes> {
    const path = tilePath(level, index, width);
    let bytes = await this.fetchTile(path);
    let got = width;
    if (bytes === null && width < full) [bytes, got] = [await this.fetchTile(tilePath(level, index, full)), full]; // the log has grown
    must(bytes !== null, "range", `the log does not have ${path}`);
    must(bytes.length === got * hashSize, "malformed", `${path} has ${bytes.length} bytes, but should have ${got * hashSize}`);
    return bytes;
  }
}
