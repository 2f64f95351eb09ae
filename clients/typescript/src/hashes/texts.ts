// Texts as the ledger's rules see them (spec: Spaces and line ends; Text hash and JSON hash). JavaScript's \s and trim have another list of spaces.

import { sha256, toHex, wtf8 } from "../verify/bytes.js";
import { type Form, type Value, canonical, compact } from "../verify/json.js";

const spaces = new Set([9, 10, 11, 12, 13, 28, 29, 30, 31, 32, 0x85, 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000]);
for (let code = 0x2000; code <= 0x200a; code++) spaces.add(code);

function isSpace(text: string, at: number): boolean {
  return spaces.has(text.charCodeAt(at));
}

/** Removes spaces at both ends. */
export function strip(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isSpace(text, start)) start++;
  while (end > start && isSpace(text, end - 1)) end--;
  return text.slice(start, end);
}

/** Returns what is between runs of spaces. */
export function words(text: string): string[] {
  const list: string[] = [];
  for (let at = 0; at < text.length; ) {
    let end = at;
    while (end < text.length && !isSpace(text, end)) end++;
    if (end > at) list.push(text.slice(at, end));
    at = end + 1;
  }
  return list;
}

// eslint-disable-next-line no-control-regex -- CPython's line ends
const lineEnd = /\r\n|[\n\r\u000b\u000c\u001c-\u001e\u0085\u2028\u2029]/;

/** Returns the form of a system prompt that is hashed. */
export function systemPromptForm(text: string): string {
  return strip(text.split(lineEnd).map(strip).join("\n"));
}

/** Returns the form of an output that is hashed. */
export function outputForm(text: string): string {
  return strip(text).replace(/ {2,}/g, " ");
}

/** Returns the SHA-256 of a text, in hexadecimal. */
export async function textHash(text: string): Promise<string> {
  return toHex(await sha256(wtf8(text)));
}

/** Returns the SHA-256 of a value's canonical JSON, in hexadecimal. */
export function jsonHash(value: Value, form: Form = compact): Promise<string> {
  return textHash(canonical(value, form));
}

/** Returns the hash of a citation's text, with its prefix. */
export async function chunkHash(text: string): Promise<string> {
  return "sha256:" + (await textHash(words(text).join(" ")));
}

/** Returns the form of a question that is hashed (spec: Canonical question). */
export function questionForm(text: string, mode: "equivalence_class" | "strict" = "equivalence_class"): string {
  let form = words(text.normalize("NFC")).join(" ");
  if (mode === "strict") return form;
  form = form.toLowerCase();
  for (let before = ""; before !== form; ) {
    before = form;
    form = strip(form).replace(/[.?!,;:？！。、…]+$/u, "");
  }
  return words(form).filter((word) => !["the", "a", "an"].includes(word)).join(" ");
}
