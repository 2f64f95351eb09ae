// The Merkle tree of RFC 6962 (spec: Merkle tree; Inclusion and consistency proofs).

import { type Bytes, concat, equal, sha256, toHex } from "./bytes.js";
import { must } from "./errors.js";

export type Hash = Bytes; // 32 bytes

/** The leaves from start up to, but not including, end. */
export interface Range {
  readonly start: number;
  readonly end: number;
}

/** One step of a path, from a node to its parent. */
export interface PathStep {
  readonly sibling: Hash;
  readonly siblingSide: "left" | "right";
  readonly siblingRange: Range;
  readonly node: Hash; // the parent, computed
  readonly range: Range; // the leaves below the parent
}

export function leafHash(entry: Uint8Array): Promise<Hash> {
  return sha256([0], entry);
}

export function nodeHash(left: Uint8Array, right: Uint8Array): Promise<Hash> {
  return sha256([1], left, right);
}

/** The root of the tree without leaves. */
export function emptyRoot(): Promise<Hash> {
  return sha256();
}

/** Returns the largest power of two that is smaller than n; n is at least 2. */
function split(n: number): number {
  let k = 1;
  while (2 * k < n) k *= 2;
  return k;
}

/** Returns the subtrees whose hashes form the inclusion proof of a leaf, from the leaf upwards. */
export function inclusionRanges(index: number, size: number): Range[] {
  must(Number.isSafeInteger(index) && Number.isSafeInteger(size) && index >= 0 && index < size, "range",
    `event ${index} is beyond the end of the signed tree, which has ${size} events`);
  const path: Range[] = [];
  for (let start = 0, end = size; end - start > 1; ) {
    const middle = start + split(end - start);
    if (index < middle) {
      path.unshift({ start: middle, end });
      end = middle;
    } else {
      path.unshift({ start, end: middle });
      start = middle;
    }
  }
  return path;
}

/** Returns the subtrees whose hashes form the consistency proof, in the order of the proof. 1 ≤ first ≤ second. */
export function consistencyRanges(first: number, second: number): Range[] {
  must(Number.isSafeInteger(first) && Number.isSafeInteger(second) && first >= 1 && first <= second, "range",
    `there is no consistency proof from size ${first} to size ${second}`);
  const proof: Range[] = [];
  let start = 0;
  let end = second;
  while (first !== end) {
    const middle = start + split(end - start);
    if (first <= middle) {
      proof.unshift({ start: middle, end });
      end = middle;
    } else {
      proof.unshift({ start, end: middle });
      start = middle;
    }
  }
  // The proof begins with the subtree that ends the first tree, unless that is the whole tree.
  if (start > 0) proof.unshift({ start, end });
  return proof;
}

/** Follows a path from a leaf and returns its steps. onStep is called after each. */
export async function followPath(leaf: Hash, index: number, size: number, path: Hash[], onStep?: (step: PathStep) => void): Promise<PathStep[]> {
  const ranges = inclusionRanges(index, size);
  must(path.length <= ranges.length, "inclusion", "its path in the tree is too long");
  must(path.length === ranges.length, "inclusion", "its path in the tree is too short");
  const steps: PathStep[] = [];
  let node = leaf;
  let range: Range = { start: index, end: index + 1 };
  for (const [i, sibling] of path.entries()) {
    const siblingRange = ranges[i]!;
    const left = siblingRange.start < range.start;
    node = left ? await nodeHash(sibling, node) : await nodeHash(node, sibling);
    range = left ? { start: siblingRange.start, end: range.end } : { start: range.start, end: siblingRange.end };
    const step: PathStep = { sibling, siblingSide: left ? "left" : "right", siblingRange, node, range };
    steps.push(step);
    onStep?.(step);
  }
  return steps;
}

/** Verifies that a leaf is at an index of a tree. It returns the steps of the path. */
export async function verifyInclusion(leaf: Hash, index: number, size: number, path: Hash[], root: Hash, onStep?: (step: PathStep) => void): Promise<PathStep[]> {
  const steps = await followPath(leaf, index, size, path, onStep);
  const reached = steps.at(-1)?.node ?? leaf;
  must(equal(reached, root), "inclusion",
    `the path does not lead to the signed root: it leads to ${toHex(reached)}, and the checkpoint signs ${toHex(root)}; the event or its proof was changed, or it is not in the log`);
  return steps;
}

/** Verifies that the tree of size first is the beginning of the tree of size second (RFC 6962, 2.1.2). */
export async function verifyConsistency(first: number, firstRoot: Hash, second: number, secondRoot: Hash, proof: Hash[]): Promise<void> {
  const ranges = consistencyRanges(first, second);
  must(proof.length === ranges.length, "consistency", `the consistency proof has ${proof.length} hashes, but ${ranges.length} are needed`);
  const rest = proof.map((hash, i) => ({ hash, range: ranges[i]! }));
  // A complete first tree is a node of the second, and its root is known.
  const seed = ranges.length > 0 && ranges[0]!.end === first ? rest.shift()! : { hash: firstRoot, range: { start: 0, end: first } };
  let [before, after, start] = [seed.hash, seed.hash, seed.range.start];
  for (const { hash, range } of rest) {
    if (range.start < start) {
      [before, after] = [await nodeHash(hash, before), await nodeHash(hash, after)];
      start = range.start;
    } else {
      after = await nodeHash(after, hash);
    }
  }
  must(equal(before, firstRoot), "consistency", `the proof leads to the root ${toHex(before)} at size ${first}, but that tree has ${toHex(firstRoot)}`);
  must(equal(after, secondRoot), "consistency", `the proof leads to the root ${toHex(after)} at size ${second}, but that tree has ${toHex(secondRoot)}`);
}

/** Returns the root of a run's own tree, over the hashes of its stages (spec: Run tree). */
export async function runRoot(leaves: Uint8Array[]): Promise<Hash> {
  must(leaves.length > 0, "malformed", "a run has no stages");
  let level = await Promise.all(leaves.map((leaf) => sha256([0], leaf)));
  while (level.length > 1) {
    const next: Hash[] = [];
    for (let i = 0; i < level.length; i += 2) next.push(await sha256([3], level[i]!, level[i + 1] ?? level[i]!));
    level = next;
  }
  return level[0]!;
}

/** Verifies the path of a stage in the tree of its run, which has this number of stages (spec: Nested proofs). */
export async function verifyRunPath(leaf: Hash, index: number, stages: number, path: { sibling: Hash; isLeft: boolean }[], root: Hash): Promise<void> {
  let node = await sha256([0], leaf);
  let at = index;
  let width = stages;
  for (const { sibling, isLeft } of path) {
    must(width > 1 && isLeft === (at % 2 === 1), "path", "the path of the stage has steps that its place in the run does not give");
    must(at !== width - 1 || isLeft || equal(sibling, node), "path", "the last node of a level has another sibling than itself");
    node = isLeft ? await sha256([3], sibling, node) : await sha256([3], node, sibling);
    at = Math.floor(at / 2);
    width = Math.ceil(width / 2);
  }
  must(width === 1, "path", "the path of the stage is too short");
  must(equal(node, root), "path", `the path of the stage leads to ${toHex(node)}, but the run's root is ${toHex(root)}`);
}

/** Returns an entry of the log: the previous event's hash and the event's body. */
export function entryOf(previous: Hash, body: Uint8Array): Bytes {
  return concat(previous, body);
}

/** Returns the chain hash of an entry. */
export function eventHash(entry: Uint8Array): Promise<Hash> {
  return sha256(entry);
}
