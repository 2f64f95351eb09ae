// Passages of citation sets: which one took the place of another.

export interface Cited {
  chunk_hash: string;
  source_id: string;
  section: string | null;
  text: string | null;
}

const most = 4000; // words of a text that are compared

function wordsOf(text: string): Set<string> {
  return new Set((text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []).slice(0, most));
}

/** likeness is the share of words that two texts have in common, from 0 to 1. */
export function likeness(a: string, b: string): number {
  const left = wordsOf(a), right = wordsOf(b);
  let common = 0;
  for (const word of left) if (right.has(word)) common++;
  const all = left.size + right.size - common;
  return all === 0 ? 1 : common / all;
}

/** replacement returns the passage that took the place of another one in a later set: of the same source and section, not in the earlier set, and the most like it. */
export function replacement(old: Cited, later: readonly Cited[], earlier: readonly Cited[]): Cited | undefined {
  const before = new Set(earlier.map((one) => one.chunk_hash));
  let best: Cited | undefined, highest = -1;
  for (const one of later) {
    if (one.source_id !== old.source_id || (one.section || "") !== (old.section || "") || one.chunk_hash === old.chunk_hash || before.has(one.chunk_hash)) continue;
    const score = old.text === null || one.text === null ? 0 : likeness(old.text, one.text);
    if (score > highest) [best, highest] = [one, score];
  }
  return best;
}

/** grouped puts rows with the same key together, in the order in which the keys first appear. */
export function grouped<R>(rows: readonly R[], keyOf: (row: R) => string | number): R[][] {
  const groups = new Map<string | number, R[]>();
  for (const row of rows) {
    const group = groups.get(keyOf(row));
    if (group) group.push(row);
    else groups.set(keyOf(row), [row]);
  }
  return [...groups.values()];
}

const hows: Record<string, string> = {
  recited: "A later answer cites another passage in its place.",
  registered: "The source was registered again without it.",
  not_listed: "The source no longer had it when the answer cited it.",
};

/** superseded says how a source lost a passage. */
export function superseded(how: string): string {
  return hows[how] ?? how;
}
