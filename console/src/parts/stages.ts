// The stages of run-DAGs: their names for people, and the stages of two runs side by side.
import { count, listed, number } from "../words.ts";

/** Stage is one stage of a run. */
export interface Stage {
  stage: string;
  hash: string;
}

interface Words {
  title: string;
  means: string;
}

const words: Record<string, Words> = {
  question: { title: "Question", means: "the question as it was asked" },
  preflight: { title: "Preflight", means: "what the service decided about the question before it looked for an answer" },
  retrieval: { title: "Retrieval", means: "the passages that were found, with their scores" },
  context: { title: "Context", means: "the passages that the model was given" },
  evidence_map: { title: "Evidence", means: "the passages that the model was given, as numbered evidence" },
  prompt: { title: "Prompt", means: "everything that was sent to the model" },
  answer: { title: "Answer", means: "what the model wrote" },
  raw_answer: { title: "Raw answer", means: "what the model wrote, before it was parsed" },
  parsed_claim_lattice: { title: "Claims", means: "the claims of the answer, each with its evidence" },
  verify: { title: "Verification", means: "what the service found when it checked the quotes and claims" },
  render: { title: "Rendering", means: "the answer as it was shown" },
  final_label: { title: "Final label", means: "the label that the service gave to the answer" },
  reject: { title: "Rejection", means: "why the service did not answer" },
  rejection: { title: "Rejection", means: "why the service did not answer" },
  outcome: { title: "Outcome", means: "one run was rejected, and the other was answered" },
};

/** stageWords names a stage. A service can have stages of its own. */
export function stageWords(stage: string): Words {
  return words[stage] ?? { title: stage.replaceAll("_", " "), means: "" };
}

const dimensions: Record<string, string> = {
  source_root: "the sources", question_hash: "the question", model_profile_hash: "the model", conversation_hash: "the conversation", governance_policy_hash: "the policy",
  verifier_policy_hash: "the policy of the verifier", schema_version: "the version of the schema", canonicalization_version: "the version of the canonical form", chunking_version: "the way in which sources are cut into chunks",
};

/** dimensionName names a dimension of the cache key. */
export function dimensionName(dimension: string): string {
  return dimensions[dimension] ?? dimension.replaceAll("_", " ");
}

/** Pair is a stage of two runs, either of which can lack it. */
export interface Pair {
  stage: string;
  nth: number; // 1 for the first stage of its name in a run
  a: string | undefined; // its hash in the first run
  b: string | undefined;
  state: "same" | "differs" | "only-a" | "only-b";
}

function numbered(stages: readonly Stage[]): { stage: string; nth: number; hash: string; key: string }[] {
  const met = new Map<string, number>();
  return stages.map(({ stage, hash }) => {
    const nth = (met.get(stage) ?? 0) + 1;
    met.set(stage, nth);
    return { stage, nth, hash, key: JSON.stringify([stage, nth]) };
  });
}

/** pairs puts the stages of two runs beside each other, in the order of the runs. Stages belong together if they have the same name and the same number among the stages of that name. */
export function pairs(a: readonly Stage[], b: readonly Stage[]): Pair[] {
  const left = numbered(a), right = numbered(b);
  const inA = new Set(left.map((one) => one.key)), inB = new Map(right.map((one) => [one.key, one.hash]));
  const list: Pair[] = [];
  let j = 0;
  const onlyB = (before: string | undefined) => {
    for (; j < right.length && right[j]?.key !== before; j++) {
      const one = right[j];
      if (!one || inA.has(one.key)) break;
      list.push({ stage: one.stage, nth: one.nth, a: undefined, b: one.hash, state: "only-b" });
    }
  };
  for (const one of left) {
    const other = inB.get(one.key);
    if (other !== undefined) onlyB(one.key);
    list.push({ stage: one.stage, nth: one.nth, a: one.hash, b: other, state: other === undefined ? "only-a" : other === one.hash ? "same" : "differs" });
    if (other !== undefined && right[j]?.key === one.key) j++;
  }
  const shown = new Set(list.map((one) => JSON.stringify([one.stage, one.nth])));
  for (const one of right) if (!shown.has(one.key)) list.push({ stage: one.stage, nth: one.nth, a: undefined, b: one.hash, state: "only-b" });
  return list;
}

/** firstDiverging returns the index of the first stage that is not the same, or -1. */
export function firstDiverging(list: readonly Pair[]): number {
  return list.findIndex((one) => one.state !== "same");
}

const causes: Record<string, string> = {
  identical: "The two runs are the same.",
  confounded: "Several things were different, so no single one can be named as the cause:",
  no_dimension: "Nothing that the service recorded about the runs was different. The runs differ by chance, or in something that was not recorded.",
  unknown: "At least one of the runs does not state its model, sources, and policies, so the cause is not known.",
};

/** runCause says why two runs diverge. `differing` are dimensions of the cache key. */
export function runCause(cause: string, differing: readonly string[]): string {
  const known = causes[cause];
  if (known === undefined) return `Only ${dimensionName(cause)} was different.`;
  return cause === "confounded" && differing.length > 0 ? `${known} ${listed(differing.map(dimensionName))}.` : known;
}

/** shortCause is runCause in a few words, for a table. */
export function shortCause(cause: string): string {
  const known: Record<string, string> = { no_dimension: "chance, or something that was not recorded", unknown: "the cause is not known", identical: "nothing" };
  return known[cause] ?? `only ${dimensionName(cause)} was different`;
}

/** outcome says in a few words how a run ended. */
export function outcome(run: { shape?: string | null | undefined; failure_stage?: string | null | undefined }): string {
  if (run.shape === "reject") return "rejected";
  return run.failure_stage && run.failure_stage !== "unknown" ? `failed at ${stageWords(run.failure_stage).title.toLowerCase()}` : "answered";
}

/** Claims are what a run's service states about the answer. The ledger records these statements. It cannot audit an answer itself. */
interface Claims {
  shape?: string | null | undefined;
  failure_stage?: string | null | undefined;
  audit_mode?: string | null | undefined;
  n_quotes?: number | undefined;
  n_verified?: number | undefined;
}

/** verdict says how a run ended, and in a few words what its service claims about the answer. */
export function verdict(run: Claims): string {
  if (run.shape === "reject") return "rejected before it was answered";
  const audit = run.audit_mode ? `audit mode ${run.audit_mode}${run.n_quotes !== undefined && run.n_quotes > 0 ? `, ${number(run.n_verified ?? 0)} of ${count(run.n_quotes, "quote")} verified` : ""}` : "";
  if (run.failure_stage === "unknown") return audit || "the record does not say how it ended";
  return `${outcome(run)}${audit && `; ${audit}`}`;
}

const modes: Record<string, string> = { STRICT: "nothing in the answer failed the audit", HYBRID: "a part of the answer is not verified", UNGROUNDED: "no part of the answer is verified" };

/** claimWords says in sentences what the service claims about the answer of a run, and what that means. It returns none for a run without such claims. */
export function claimWords(run: Claims): string[] {
  if (run.shape === "reject" || !run.audit_mode) return [];
  const means = modes[run.audit_mode];
  const says = [`The service states the audit mode ${run.audit_mode}${means === undefined ? "" : `: ${means}`}.`];
  if (run.n_quotes !== undefined) says.push(run.n_quotes === 0 ? "It counted no quotes in the answer, so there was none to verify." : `It counted ${count(run.n_quotes, "quote")} in the answer and verified ${run.n_verified === 0 ? "none" : number(run.n_verified ?? 0)}.`);
  says.push("The ledger keeps these statements but does not audit answers.");
  return says;
}

const rules: Record<string, string> = {
  strict_without_sources: "The audit mode is STRICT, but the run has no sources.",
  strict_without_verified_quotes: "The audit mode is STRICT, but none of the quotes was verified.",
  more_verified_than_quotes: "More quotes were verified than the answer has.",
  lattice_without_evidence: "A claim names evidence that the run does not have.",
  strict_rejected: "The audit mode is STRICT, but the run was rejected.",
};

/** contradictions says which rules the claims of a run break, by the names of the checks of its event. */
export function contradictions(checks: readonly string[]): string[] {
  return checks.filter((name) => name.startsWith("verdict:")).map((name) => rules[name.slice(8)] ?? `They break the rule ${name.slice(8)}.`);
}

/** Inputs are what a run was hashed from, as its service posted them. Nothing in them is sure to have the right form. */
export type Inputs = Record<string, unknown>;

/** inputsOf reads inputs, or returns none if they are no JSON object. */
export function inputsOf(text: string): Inputs {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Inputs) : {};
  } catch {
    return {};
  }
}

function textIn(inputs: Inputs, ...names: string[]): string | undefined {
  for (const name of names) {
    const value = inputs[name];
    if (typeof value === "string") return value;
  }
  return undefined;
}

function pretty(value: unknown): string | undefined {
  return value === undefined || value === null ? undefined : JSON.stringify(value, null, 2);
}

function listIn(value: unknown): Inputs[] {
  return Array.isArray(value) ? value.filter((one): one is Inputs => typeof one === "object" && one !== null) : [];
}

const verified = { audit_mode: "audit mode", verifier_method: "verifier", n_quotes: "quotes", n_verified: "verified quotes", claim_statuses: "statuses of the claims", violations: "violations" };

/** stageText returns what a stage was hashed from as a text for people, if the inputs have it. Passages are shown elsewhere. */
export function stageText(stage: string, inputs: Inputs): string | undefined {
  switch (stage) {
    case "preflight":
      return pretty(inputs.preflight_payload);
    case "prompt":
      return pretty(inputs.messages);
    case "answer":
      return textIn(inputs, "answer_text");
    case "raw_answer":
      return textIn(inputs, "raw_answer_text");
    case "render":
      return textIn(inputs, "rendered_text");
    case "parsed_claim_lattice": {
      const claims = listIn(inputs.parsed_lattice).map((claim) => `${typeof claim.claim_text === "string" ? claim.claim_text : "(no text)"}  [${Array.isArray(claim.evidence_ids) ? claim.evidence_ids.map(String).join(", ") : ""}]`);
      return claims.length === 0 ? undefined : claims.join("\n");
    }
    case "verify": {
      const lines = Object.entries(verified).filter(([name]) => inputs[name] !== undefined).map(([name, title]) => `${title}: ${typeof inputs[name] === "string" ? inputs[name] : JSON.stringify(inputs[name])}`);
      return lines.length === 0 ? undefined : lines.join("\n");
    }
    case "final_label":
      return textIn(inputs, "final_label", "answer_mode", "audit_mode");
  }
  return undefined;
}

/** restsOnSources reports whether a stage has the passages of a run. */
export function restsOnSources(stage: string): boolean {
  return stage === "retrieval" || stage === "context" || stage === "evidence_map";
}

/** Scored is a document of a run with its score, in the order of the run. */
export interface Scored {
  root: string;
  score: number | undefined;
}

/** scoredIn returns the documents that a run rests on, the best first as its service found them. */
export function scoredIn(inputs: Inputs): Scored[] {
  return listIn(inputs.sources).flatMap((one) => (typeof one.document_root === "string" ? [{ root: one.document_root, score: typeof one.score === "number" ? one.score : undefined }] : []));
}

/** rejection is the reason for which a run was rejected, if its inputs say it. */
export function rejection(inputs: Inputs): string | undefined {
  return textIn(inputs, "rejection_reason");
}
