// What the pages about changes say in words, and what they compute from answers.
import type { Schemas } from "./api/client.ts";
import { change, count, listed, number, percent, variableName, causeOf } from "./words.ts";
import { shortHash } from "./words.ts";

type Run = Schemas["TimelineRow"];

/** letters names the outputs of runs in their order of appearance: A, B, …, Z, AA. Equal outputs have one letter. */
export function letters(outputs: readonly (string | null)[]): string[] {
  const known = new Map<string, string>();
  return outputs.map((output) => {
    if (output === null) return "–";
    let letter = known.get(output);
    if (letter === undefined) {
      letter = lettersOf(known.size);
      known.set(output, letter);
    }
    return letter;
  });
}

function lettersOf(n: number): string {
  return (n >= 26 ? lettersOf(Math.floor(n / 26) - 1) : "") + String.fromCharCode(65 + (n % 26));
}

/** tally counts by cause the runs of a timeline whose output changed, the most frequent cause first. */
export function tally(runs: readonly Pick<Run, "cause" | "output_changed">[]): [cause: string, n: number][] {
  const counts = new Map<string, number>();
  for (const run of runs) if (run.output_changed && run.cause !== null) counts.set(run.cause, (counts.get(run.cause) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
}

const reasons: Record<string, string> = {
  input: "with a different input", system_prompt: "with a different prompt", model: "with a different model", temperature: "with a different temperature", max_tokens: "with a different token limit",
  seed: "with a different seed", ollama_build_hash: "with a different Ollama build", host_platform: "on a different platform", evidence: "with different citations", confounded: "with several conditions changed",
  model_internal: "with different model files", unseeded: "by chance, without a seed", stochastic: "by chance, because nothing else differs",
  stochastic_or_model_internal: "by chance or with different model files", incomplete: "for a cause that cannot be determined",
};

/** why says in one sentence what the changes of an output came with: single causes first. `more` says that there are further runs. */
export function why(runs: readonly Pick<Run, "cause" | "output_changed">[], more = false): string {
  const causes = tally(runs), changes = causes.reduce((all, [, n]) => all + n, 0);
  const start = more ? "Among its first runs, the output" : "The output";
  if (changes === 0) return `${start} never changed from one run to the next.`;
  const parts = [...causes].sort((a, b) => Number(a[0] === "confounded") - Number(b[0] === "confounded")).map(([cause, n]) => ({ n, words: reasons[cause] ?? `for the cause ${causeOf(cause).name}` }));
  const times = changes === 1 ? "once" : `${number(changes)} times`;
  const only = parts.length === 1 ? parts[0] : undefined;
  if (only) return `${start} changed ${times}, ${changes > 1 ? "always " : ""}${only.words}.`;
  return `${start} changed ${times}: ${listed(parts.map((part) => `${number(part.n)} ${part.words}`))}.`;
}

/** longer says how a median length changed: "42 % longer", "about as long". */
export function longer(by: number): string {
  if (by >= 1) return change(by);
  const p = Math.round(Math.abs(by) * 100);
  return p < 2 ? "about as long" : `${p} % ${by > 0 ? "longer" : "shorter"}`;
}

/** effectWords says what the change of a variable did, in plain sentences. `sample` says that there are more pairs than the answer counts. */
export function effectWords(answer: Pick<Schemas["EffectsAnswer"], "pairs" | "changed" | "text" | "sample">): string[] {
  const { pairs, changed, text, sample } = answer;
  if (pairs === 0) return [];
  const all = sample ? `the newest ${number(pairs)}` : number(pairs);
  const share = changed === pairs ? (sample ? `All of ${all} outputs changed` : pairs === 1 ? "The one output changed" : pairs === 2 ? "Both outputs changed" : `All ${all} outputs changed`)
    : changed === 0 ? `None of ${sample ? "the newest " : ""}${count(pairs, "output")} changed` : `${number(changed)} of ${all} outputs changed (${percent(changed / pairs)})`;
  const says = [`${share}.`];
  if (!text || changed === 0) return says;
  if (text.words_a && text.words_b && text.words_a.median > 0) {
    const by = text.words_b.median / text.words_a.median - 1;
    const from = number(Math.round(text.words_a.median)), to = number(Math.round(text.words_b.median));
    says.push(Math.abs(by) < 0.02 ? `Their length stays about the same: the median is ${from} words before and ${to} after.` : `The median length goes from ${from} to ${to} words: ${longer(by)}.`);
  }
  if (text.similarity) says.push(`The median word similarity is ${percent(text.similarity.median)}.`);
  return says;
}

interface LengthBar {
  title: string;
  value: number;
  beside: number;
}

/** lengthBars returns the bars of a distribution of lengths. The longest hundredth of the outputs is in one last bar, so that it does not flatten the others. */
export function lengthBars(parts: readonly Schemas["WordsPart"][]): { bars: LengthBar[]; high: string } {
  const of = (part: Schemas["WordsPart"]) => part.a + part.b;
  const all = parts.reduce((sum, part) => sum + of(part), 0);
  let last = parts.length;
  for (let rest = 0; last > 0; last--) {
    const part = parts[last - 1];
    if (part) rest += of(part);
    if (rest > all / 100) break;
  }
  last = Math.min(last, parts.length - 1);
  const tail = parts.slice(last), open = tail.length > 1;
  const bars = parts.slice(0, last).map((part) => ({ title: `${number(part.from)} to ${number(part.below - 1)} words`, value: part.a, beside: part.b }));
  const from = tail[0]?.from ?? 0, end = (tail.at(-1)?.below ?? 1) - 1;
  if (tail.length > 0) bars.push({ title: `${number(from)} to ${number(end)} words`, value: tail.reduce((sum, part) => sum + part.a, 0), beside: tail.reduce((sum, part) => sum + part.b, 0) });
  return { bars, high: open ? `${number(from)} words and more` : `${number(end + 1)} words` };
}

/** Suggestion is a comparison that has at least one pair of runs. */
export interface Suggestion {
  variable: string;
  a: string;
  b: string;
}

const comparable: Record<string, string> = { model: "model", system_prompt: "system_prompt_hash", temperature: "temperature", max_tokens: "max_tokens", ollama_build_hash: "ollama_build_hash" };

/** suggestions finds comparisons in timelines: the single variables that changed from one run to the next, the latest first. */
export function suggestions(timelines: readonly (readonly Pick<Run, "differences">[])[], most = 6): Suggestion[] {
  const found = new Map<string, Suggestion>();
  for (const runs of timelines) {
    for (const run of [...runs].reverse()) {
      const only = run.differences.length === 1 ? run.differences[0] : undefined;
      const variable = only && comparable[only.variable];
      if (!only || !variable || only.a === null || only.b === null) continue;
      const one = { variable, a: plain(only.a), b: plain(only.b) };
      found.set(`${one.variable}\n${one.a}\n${one.b}`, one);
      if (found.size === most) return [...found.values()];
    }
  }
  return [...found.values()];
}

/** plain is a value of a difference as a text. */
export function plain(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** variableOf returns the name of a variable of `/drift/effects` in words. */
export function variableOf(variable: string): string {
  if (variable === "system_prompt_hash") return "prompt";
  if (variable.startsWith("/")) return `${variable.slice(1)} in the input`;
  return variableName(variable);
}

/** attributionWords says why an output changed, without digests: the values are in the table below the sentence. */
export function attributionWords(answer: Pick<Schemas["AttributionAnswer"], "cause" | "output_changed" | "differences">): string {
  const names = answer.differences.map((one) => named(one.variable));
  const only = answer.differences.length === 1 ? answer.differences[0] : undefined;
  const values = only && isReadable(only) ? ` from ${plain(only.a)} to ${plain(only.b)}` : "";
  switch (answer.cause) {
    case "identical":
      return "Nothing differs: the two runs have the same conditions and the same output.";
    case "no_effect":
      return `The output is the same, although ${listed(names)} changed${values}.`;
    case "confounded":
      return `The output changed, and so did ${listed(names)}. No single one of them can be named as the cause.`;
    case "model_internal":
      return "The output changed because the files of the model changed. The name of the model and everything else stayed the same.";
    case "unseeded":
      return "The output changed by chance: nothing else differs, and no seed was given.";
    case "stochastic":
      return "The output changed by chance: nothing else differs, and the files of the model are the same.";
    case "stochastic_or_model_internal":
      return "The output changed although nothing else differs: either by chance, or because the files of the model changed. The records do not identify these files.";
    case "incomplete":
      return "The cause cannot be determined, because one of the records has no input or no output.";
  }
  return `The output changed because ${names.length === 1 ? listed(names) : `the ${causeOf(answer.cause).name}`} changed${values}, and nothing else did.`;
}

/** named is a variable with its article. */
function named(variable: string): string {
  return variable === "max_tokens" ? variable : `the ${variableName(variable)}`;
}

/** isReadable reports whether the values of a difference can stand in a sentence. */
function isReadable(difference: Schemas["Difference"]): boolean {
  return ["model", "temperature", "max_tokens", "seed", "host_platform"].includes(difference.variable) && difference.a !== null && difference.b !== null && plain(difference.a).length + plain(difference.b).length < 120;
}

/** valueWords is a value of a variable for a person: a short hash if it is one and has no name. */
export function valueWords(value: unknown): string {
  if (value === null || value === undefined) return "none";
  const text = plain(value);
  return /^[0-9a-f]{64}$/.test(text) ? shortHash(text) : text;
}

/** Signer is a name on a checkpoint. */
export interface Signer {
  name: string;
  witness: boolean;
}

/** signers reads who signed a checkpoint (a signed note). The ledger's own name is that of its origin; all others are witnesses. */
export function signers(note: string): Signer[] {
  const origin = note.split("\n", 1)[0] ?? "";
  const names = [...note.matchAll(/^— (\S+) \S+$/gmu)].map((found) => found[1] ?? "");
  return [...new Set(names)].map((name) => ({ name, witness: name !== origin }));
}

/** Head is a moment at which the size of a ledger was seen. `at` is in milliseconds. */
export interface Head {
  at: number;
  size: number;
}

/** recentHeads returns the heads from which ingestRate computes the rate of the minute before `now`: those of that minute, and the last one before it. */
export function recentHeads(heads: readonly Head[], now: number): readonly Head[] {
  return heads.slice(Math.max(0, heads.findLastIndex((head) => head.at <= now - 60_000)));
}

/** ingestRate returns how many events were added a second in the minute before `now`, or since the first head if that is later. It returns undefined if that is less than two seconds ago. */
export function ingestRate(heads: readonly Head[], now: number): number | undefined {
  const [first] = recentHeads(heads, now), last = heads.at(-1);
  if (!first || !last || now - first.at < 2000) return undefined;
  return (last.size - first.size) / Math.min(60, (now - first.at) / 1000);
}

/** rateWords writes a rate: "1,200 events a second", "3 events a minute", "no new events". */
export function rateWords(rate: number): string {
  if (rate === 0) return "none";
  if (rate >= 0.95) return `${number(Math.round(rate))} a second`;
  const perMinute = Math.round(rate * 60);
  return perMinute >= 1 ? `${number(perMinute)} a minute` : "less than 1 a minute";
}
