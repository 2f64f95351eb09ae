// The words of the console: names for kinds, causes, and checks, and how numbers are written.

const integers = new Intl.NumberFormat("en-GB");

/** count writes a number with its noun: "1 record", "4,831 records". */
export function count(n: number, one: string, many = `${one}s`): string {
  return `${integers.format(n)} ${n === 1 ? one : many}`;
}

export function number(n: number): string {
  return integers.format(n);
}

/** similarityMeans defines word similarity, the measure of how much two texts have in common (`similarity` in the API). */
export const similarityMeans = "Word similarity is the share of the words and punctuation marks of two texts that both have, in the same order. 100 % means that the words are the same; white space does not count.";

/** similarityWords writes a word similarity. */
export function similarityWords(share: number): string {
  return `word similarity ${percent(share)}`;
}

/** percent writes a share. Only 0 is "0 %", and only 1 is "100 %". */
export function percent(share: number): string {
  const p = share * 100;
  if (p > 0 && p < 0.1) return "< 0.1 %";
  if (p < 100 && p > 99.9) return "> 99.9 %";
  const digits = (p > 0 && p < 10) || (p > 99 && p < 100) ? 1 : 0;
  return `${p.toFixed(digits)} %`;
}

/** change writes a relative change: "+42 %", "−7 %", "2.5 times as long". */
export function change(by: number): string {
  if (by >= 1) return `${(by + 1).toFixed(1)} times as long`;
  const p = Math.round(Math.abs(by) * 100);
  return p === 0 ? "as long" : `${by > 0 ? "+" : "−"}${p} %`;
}

export function bytes(n: number): string {
  if (n < 1024) return count(n, "byte");
  return n < 1 << 20 ? `${(n / 1024).toFixed(1)} KiB` : `${(n / (1 << 20)).toFixed(1)} MiB`;
}

/** listed joins words: "a, b, and c". */
export function listed(words: readonly string[]): string {
  if (words.length < 3) return words.join(" and ");
  return `${words.slice(0, -1).join(", ")}, and ${words.at(-1) ?? ""}`;
}

const kindNames: Record<string, [one: string, many: string]> = {
  ipc_record: ["generation", "generations"],
  run_dag: ["answer run", "answer runs"],
  citation_set: ["citation set", "citation sets"],
  path_fingerprint: ["story path", "story paths"],
  record_state_changed: ["change of state", "changes of state"],
  path_validated: ["validation", "validations"],
  source_registered: ["registration of a source", "registrations of sources"],
  source_revoked: ["revocation of a source", "revocations of sources"],
  content_redacted: ["erasure of content", "erasures of content"],
  note: ["note", "notes"],
  ledger_created: ["creation of the ledger", "creations of the ledger"],
  record_refused: ["refusal", "refusals"],
  key_rotated: ["change of the signing key", "changes of the signing key"],
};

export function kindName(kind: string): string {
  return kindNames[kind]?.[0] ?? kind.replaceAll("_", " ");
}

export function kinds(n: number, kind: string): string {
  const [one, many] = kindNames[kind] ?? [kind, kind];
  return count(n, one, many);
}

/**
 * Cause is how the console names and colours a cause of drift. The class gives the colour, which is
 * the same everywhere. The sign is a letter that stands with the colour where there is no place for
 * the name.
 */
export interface Cause {
  sign: string;
  name: string;
  means: string;
  class: string;
}

const causes: Record<string, Omit<Cause, "class">> = {
  identical: { sign: "=", name: "identical", means: "The two runs have the same conditions and the same output." },
  input: { sign: "I", name: "input", means: "Only the input differs." },
  system_prompt: { sign: "P", name: "prompt", means: "Only the system prompt differs." },
  model: { sign: "M", name: "model", means: "Only the model differs." },
  temperature: { sign: "T", name: "temperature", means: "Only the temperature differs." },
  max_tokens: { sign: "L", name: "max_tokens", means: "Only max_tokens differs." },
  seed: { sign: "S", name: "seed", means: "Only the seed differs." },
  ollama_build_hash: { sign: "O", name: "Ollama build", means: "Only the Ollama build differs." },
  host_platform: { sign: "H", name: "platform", means: "Only the platform of the host differs." },
  evidence: { sign: "C", name: "evidence", means: "Only the citations of the two runs differ." },
  confounded: { sign: "+", name: "several at once", means: "Several conditions differ, so no single one is the cause." },
  no_effect: { sign: "0", name: "no effect", means: "Conditions differ, but the output is the same." },
  model_internal: { sign: "B", name: "model build", means: "The model has the same name, but its files differ." },
  unseeded: { sign: "U", name: "chance, no seed", means: "Nothing differs, and no seed was given, so the output changed by chance." },
  stochastic: { sign: "~", name: "chance", means: "Nothing differs, and the files of the model are the same, so the output changed by chance." },
  stochastic_or_model_internal: { sign: "≈", name: "chance or model build", means: "Nothing differs, but the records do not identify the files of the model, which may have changed." },
  incomplete: { sign: "?", name: "cannot tell", means: "One of the records has no input or no output." },
};

export const causeOrder = Object.keys(causes);

export function causeOf(cause: string): Cause {
  const known = causes[cause];
  return known ? { ...known, class: `cause-${cause}` } : { sign: "·", name: cause.replaceAll("_", " "), means: "", class: "cause-other" };
}

const variables: Record<string, string> = {
  input: "input", system_prompt: "prompt", system_prompt_hash: "prompt", model: "model", temperature: "temperature", max_tokens: "max_tokens", seed: "seed",
  ollama_build_hash: "Ollama build", host_platform: "platform", model_digest: "model files", evidence: "citations", output: "output",
};

export function variableName(variable: string): string {
  if (variable.startsWith("label:")) return `label ${variable.slice(6)}`;
  return variables[variable] ?? variable.replaceAll("_", " ");
}

/** Verdict is how a check is shown. */
export interface Verdict {
  class: "good" | "bad" | "plain" | "wait";
  mark: string;
  words: string;
}

const verdicts: Record<string, Verdict> = {
  match: { class: "good", mark: "✓", words: "The service claimed this hash, and the ledger computed the same hash." },
  mismatch: { class: "bad", mark: "✗", words: "The service claimed a hash that differs from the one that the ledger computed." },
  computed: { class: "plain", mark: "·", words: "The ledger computed this hash. The service claimed none." },
  claimed: { class: "wait", mark: "?", words: "The service claimed this hash. The ledger could not check it, because it did not have the text." },
  inconsistent: { class: "bad", mark: "✗", words: "The claims of the run about its answer contradict each other." },
};

export function verdictOf(result: string): Verdict {
  return verdicts[result] ?? { class: "plain", mark: "·", words: result };
}

/** shortHash is a hash for a place where it must be recognised but not read. */
export function shortHash(hash: string): string {
  return hash.replace(/^sha256:/, "").slice(0, 10);
}
