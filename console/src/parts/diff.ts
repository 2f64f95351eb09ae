// The difference between two texts, word by word, in parts that can be shown beside each other.
import { diffWordsWithSpace } from "diff";

export interface Edit {
  op: "equal" | "delete" | "insert";
  text: string;
}

/** longest is the total length of two texts, in UTF-16 units, up to which they are compared in the page. */
export const longest = 200_000;

/** difference compares two texts. It returns undefined if that takes too long. */
export function difference(a: string, b: string): Edit[] | undefined {
  if (a === b) return a === "" ? [] : [{ op: "equal", text: a }];
  if (a.length + b.length > longest) return undefined;
  const changes = diffWordsWithSpace(a, b, { timeout: 1500 }) as { added?: boolean; removed?: boolean; value: string }[] | undefined;
  return changes?.map((part) => ({ op: part.added ? "insert" : part.removed ? "delete" : "equal", text: part.value }));
}

/** Part is what a side of a comparison shows: a text, or a gap of so many words that are equal on both sides. */
export type Part = { kind: "same" | "changed"; text: string } | { kind: "gap"; words: number };

const context = 160; // units of equal text around each change

/** side returns what one side shows. Long equal texts between changes become gaps, unless everything is asked for. */
export function side(edits: readonly Edit[], which: "a" | "b", whole = false): Part[] {
  const other = which === "a" ? "insert" : "delete";
  const parts: Part[] = [];
  edits.forEach((edit, i) => {
    if (edit.op === other) return;
    if (edit.op !== "equal") parts.push({ kind: "changed", text: edit.text });
    else if (whole || edits.length === 1) parts.push({ kind: "same", text: edit.text });
    else parts.push(...folded(edit.text, i > 0, i < edits.length - 1));
  });
  return parts;
}

/** folded keeps the ends of an equal text that are next to a change. */
function folded(text: string, before: boolean, after: boolean): Part[] {
  const keep = (before ? context : 0) + (after ? context : 0);
  if (text.length <= keep + 120) return [{ kind: "same", text }];
  const head = before ? wordEnd(text, context) : 0;
  const tail = after ? wordStart(text, text.length - context) : text.length;
  const words = text.slice(head, tail).trim().split(/\s+/u).length;
  const parts: Part[] = [];
  if (head > 0) parts.push({ kind: "same", text: text.slice(0, head) });
  parts.push({ kind: "gap", words });
  if (tail < text.length) parts.push({ kind: "same", text: text.slice(tail) });
  return parts;
}

function wordEnd(text: string, at: number): number {
  const end = text.indexOf(" ", at);
  return end < 0 || end > at + 40 ? at : end;
}

function wordStart(text: string, at: number): number {
  const start = text.lastIndexOf(" ", at);
  return start < at - 40 ? at : start;
}
