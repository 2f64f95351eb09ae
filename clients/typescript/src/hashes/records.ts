// The hashes of records (spec: IPC hashes; Run-DAG hashes; Citation hashes; Path fingerprints).

import { fromHex, toHex, wtf8 } from "../verify/bytes.js";
import { must } from "../verify/errors.js";
import { type Members, Numeral, type Value, byCodePoint, canonical, float as printFloat, spaced } from "../verify/json.js";
import { runRoot } from "../verify/tree.js";
import { md5 } from "./md5.js";
import { type Jsonable, membersOf, valueOf } from "./raw.js";
import { chunkHash, jsonHash, outputForm, questionForm, strip, systemPromptForm, textHash } from "./texts.js";

// IPC records

/** Returns the input_hash of a payload. Give JSON text as raw(text): JavaScript's numbers lose the difference between 1 and 1.0. */
export function inputHash(payload: Jsonable, schema?: string): Promise<string> {
  const members = membersOf(payload, "payload");
  return jsonHash(schema === "axis-payload-1" ? axisPayload(members) : members, spaced);
}

/** Returns the hash of a payload without its seed (spec: Seedless hash). */
export function seedlessInputHash(payload: Jsonable): Promise<string> {
  const members = new Map(membersOf(payload, "payload"));
  members.delete("seed");
  return jsonHash(members, spaced);
}

export function systemPromptHash(text: string): Promise<string> {
  return textHash(systemPromptForm(text));
}

export function outputHash(text: string): Promise<string> {
  return textHash(outputForm(text));
}

/** What an ipc_id covers. */
export interface Chain {
  input_hash: string;
  system_prompt_hash: string;
  output_hash?: string;
  model: string;
  temperature: Jsonable; // a number; raw("-0.0") keeps its sign
  max_tokens: Jsonable; // an integer
  seed: Jsonable; // an integer
}

/** The environment that an ipc_id_advanced covers too. */
export interface AdvancedEnvironment {
  ollama_build_hash: string;
  model_digest: string;
  host_platform: string;
}

/** Returns the ipc_id or, with an environment, the ipc_id_advanced. */
export function ipcId(chain: Chain, environment?: AdvancedEnvironment): Promise<string> {
  const parts = [chain.input_hash, chain.system_prompt_hash, chain.model, double(numeral(chain.temperature, "temperature")),
    integer(numeral(chain.max_tokens, "max_tokens")), integer(numeral(chain.seed, "seed"))];
  if (environment) parts.push(environment.ollama_build_hash, environment.model_digest, environment.host_platform);
  return textHash(parts.join(":"));
}

function numeral(value: Jsonable, what: string): Numeral {
  const read = value instanceof Numeral ? value : valueOf(value);
  must(read instanceof Numeral, "malformed", `${what} is not a number`);
  return read;
}

/** Prints a number as a double, even if it was written as an integer. */
function double(n: Numeral): string {
  return n.isInteger ? printFloat(Number(BigInt(n.token))) : n.canonical();
}

function integer(n: Numeral): string {
  must(n.isInteger, "malformed", `${n.token} is not an integer`);
  return n.canonical();
}

function axisPayload(payload: Members): Members {
  const axes = payload.get("axes");
  must(axes instanceof Map, "malformed", "axes of an axis payload is not an object");
  const seed = payload.get("seed");
  must(seed instanceof Numeral, "malformed", "seed of an axis payload is not a number");
  const exact = seed.isInteger ? seed : new Numeral(BigInt(Number(seed.token)).toString());
  const form = new Map([...axes].map(([name, axis]) => {
    must(axis instanceof Map, "malformed", `axis ${name} is not an object`);
    const [label, score] = [axis.get("label"), axis.get("score")];
    must(typeof label === "string" && score instanceof Numeral, "malformed", `axis ${name} has no label or no score`);
    return [name, new Map<string, Value>([["label", strip(label)], ["score", new Numeral(double(score))]])] as const;
  }));
  return new Map<string, Value>([["axes", form], ["policy_hash", payload.get("policy_hash") ?? null], ["seed", exact], ["world_id", payload.get("world_id") ?? null]]);
}

// Run-DAGs

export interface Node {
  stage: string;
  hash: string;
}

/** Returns the root of a run from the hashes of its stages. */
export async function nodesRoot(nodes: readonly Pick<Node, "hash">[]): Promise<string> {
  return toHex(await runRoot(nodes.map((node) => fromHex(node.hash))));
}

const quote = "question retrieval context prompt answer verify final_label".split(" ");
const pointer = "question retrieval evidence_map prompt raw_answer parsed_claim_lattice verify render final_label".split(" ");

export type Shape = "quote" | "pointer" | "reject" | "unrecognised";

/** Returns the shape of a run with these stages (spec: Run shapes). */
export function shapeOf(stages: readonly string[]): Shape {
  const same = (a: readonly string[], b: readonly string[]): boolean => a.length === b.length && a.every((name, i) => name === b[i]);
  if (same(stages, ["question", "preflight", "final_label"])) return "reject";
  const rest = stages[1] === "preflight" ? [stages[0]!, ...stages.slice(2)] : stages;
  return same(rest, quote) ? "quote" : same(rest, pointer) ? "pointer" : "unrecognised";
}

export function failureStage(auditMode: string, sources: number, quotes: number): string | null {
  if (auditMode === "STRICT") return null;
  return sources === 0 ? "retrieval" : quotes === 0 ? "context" : "answer";
}

type Json = Record<string, Value | undefined>;

function given(members: Members, ...names: string[]): Json {
  return Object.fromEntries(names.filter((name) => (members.get(name) ?? null) !== null).map((name) => [name, members.get(name)!]));
}

function orNull(members: Members, ...names: string[]): Json {
  return Object.fromEntries(names.map((name) => [name, members.get(name) ?? null]));
}

function hashOf(members: Json): Promise<string> {
  return jsonHash(new Map(Object.entries(members) as [string, Value][]));
}

/** The hashes of a run that do not follow from its inputs. */
export interface BaseHashes {
  question_hash?: string | null;
  preflight_hash?: string | null;
  context_root?: string | null;
  evidence_map_root?: string | null;
  conversation_hash?: string | null;
}

/** Returns the stages that the ledger builds from inputs (spec: Stage hashes). Hashes in inputs stand in for those in base. */
export async function buildNodes(inputs: Jsonable, base: BaseHashes = {}): Promise<Node[]> {
  const i = membersOf(inputs, "inputs");
  const known = (name: keyof BaseHashes): string | undefined => (typeof i.get(name) === "string" ? (i.get(name) as string) : (base[name] ?? undefined));
  const text = (name: string, fallback: string): string => (typeof i.get(name) === "string" ? (i.get(name) as string) : fallback);
  const answer = text("answer_text", "");
  const sources = i.get("sources");
  must(Array.isArray(sources), "malformed", "inputs have no list of sources");
  const summary: Value[] = sources.map((source) => new Map(Object.entries(orNull(membersOf(source, "source"), "chunk_idx", "document_root", "score", "source_role")) as [string, Value][]));
  const plan = given(i, "retrieval_plan_hash");
  const summaryHash = await jsonHash(summary);
  const quotes = i.get("n_quotes");
  const label = orNull(i, "audit_mode", "verifier_method");
  const hashes: Record<string, string | undefined> = {
    question: known("question_hash"), preflight: known("preflight_hash"), context: known("context_root"), evidence_map: known("evidence_map_root"),
    prompt: known("conversation_hash"),
    retrieval: plan.retrieval_plan_hash === undefined ? summaryHash : await hashOf({ ...plan, sources_summary_hash: summaryHash }),
    answer: await textHash(answer), raw_answer: await textHash(text("raw_answer_text", answer)), render: await textHash(text("rendered_text", answer)),
    parsed_claim_lattice: await jsonHash(i.get("parsed_lattice") ?? []),
    verify: await hashOf({
      ...label, ...orNull(i, "n_quotes", "n_verified"), ...given(i, "violations"), claim_statuses: i.get("claim_statuses") ?? [],
      failure_stage: failureStage(text("audit_mode", ""), sources.length, quotes instanceof Numeral ? Number(quotes.token) : 0),
    }),
    final_label: await hashOf({ ...label, ...orNull(i, "lookup_path"), ...given(i, "answer_mode") }),
  };
  const stages = [...(known("evidence_map_root") ? pointer : quote)];
  if (known("preflight_hash")) stages.splice(1, 0, "preflight");
  return stages.map((stage) => {
    const hash = hashes[stage];
    must(hash, "malformed", `the hash of stage ${stage} is not known`);
    return { stage, hash };
  });
}

/** Returns the stages of a rejected run (spec: Rejected runs). */
export async function rejectNodes(inputs: Jsonable, base: BaseHashes = {}): Promise<Node[]> {
  const i = membersOf(inputs, "reject_inputs");
  const answer = i.get("answer_text");
  const label = {
    audit_mode: "UNGROUNDED", verifier_method: "claim_lattice_pointer", ...given(i, "audit_mode", "verifier_method", "violations"), lookup_path: "preflight",
    rejection_reason: i.get("rejection_reason") ?? null, answer_text_hash: await textHash(typeof answer === "string" ? answer : ""),
  };
  const [question, preflight] = [i.get("question_hash") ?? base.question_hash, i.get("preflight_hash") ?? base.preflight_hash];
  must(typeof question === "string" && typeof preflight === "string", "malformed", "a rejected run needs question_hash and preflight_hash");
  return [{ stage: "question", hash: question }, { stage: "preflight", hash: preflight }, { stage: "final_label", hash: await hashOf(label) }];
}

const clauses = ["classifier", "answer_contract", "prompt_contract", "evidence_contract", "policy_refs", "question_state"];

/** Returns the hash of a preflight payload (spec: Preflight payload). */
export function preflightHash(payload: Jsonable): Promise<string> {
  const members = membersOf(payload, "preflight_payload");
  const [stage, version] = [members.get("stage") ?? null, members.get("node_version") ?? null];
  const known = [...members.keys()].every((name) => ["stage", "node_version", ...clauses].includes(name));
  if (!known || (stage ?? "preflight") !== "preflight" || (version ?? "preflight-node-v1") !== "preflight-node-v1") return jsonHash(members);
  const form: Json = { stage: "preflight", node_version: "preflight-node-v1" };
  for (const name of clauses) {
    const value = members.get(name) ?? null;
    const empty = value === null || value === "" || (Array.isArray(value) && value.length === 0);
    form[name] = empty ? new Map() : value;
  }
  return hashOf(form);
}

export function questionHash(text: string, mode?: "equivalence_class" | "strict"): Promise<string> {
  return textHash(questionForm(text, mode));
}

/** Returns the context_root of source roots in hexadecimal. */
export async function contextRoot(sourceRoots: readonly string[]): Promise<string> {
  return toHex(await runRoot([...new Set(sourceRoots)].sort().map(fromHex)));
}

export interface EvidencePlace {
  chunk_root: string;
  start: number | bigint;
  end: number | bigint;
}

export async function evidenceId(evidence: EvidencePlace): Promise<string> {
  return "E" + (await textHash(`${evidence.chunk_root}:${evidence.start}:${evidence.end}`)).slice(0, 8);
}

export async function evidenceMapRoot(ids: readonly string[]): Promise<string> {
  return toHex(await runRoot([...ids].sort(byCodePoint).map(wtf8)));
}

export const cacheDimensions = ["source_root", "question_hash", "model_profile_hash", "conversation_hash", "governance_policy_hash", "schema_version",
  "canonicalization_version", "chunking_version", "verifier_policy_hash"] as const;

/** Returns the cache key of eight dimensions, or of nine with verifier_policy_hash (spec: Cache key). */
export function cacheKey(dimensions: Partial<Record<(typeof cacheDimensions)[number], string | number | bigint | null>>): Promise<string> {
  const parts = cacheDimensions.map((name) => dimensions[name] ?? null);
  parts.slice(0, 8).forEach((part, i) => must(part !== null, "malformed", `cache dimension ${cacheDimensions[i]} is not given`));
  return textHash(parts.filter((part) => part !== null).join("|"));
}

// Citations

/** Returns the citations document in compact canonical JSON (spec: Citations document). */
export function citationsDocument(citations: Jsonable): string {
  const list = Array.isArray(citations) ? citations.map((c) => membersOf(c, "citation")) : [];
  const sections: Members = new Map();
  for (const citation of list) {
    const named = citation.get("section");
    const section = typeof named === "string" && named !== "" ? named : "unknown";
    sections.set(section, [...((sections.get(section) as Value[] | undefined) ?? []), citation]);
  }
  const sources = [...new Set(list.map((c) => c.get("source_id")).filter((id) => typeof id === "string"))].sort(byCodePoint);
  return canonical(new Map<string, Value>([["by_section", sections], ["all_citations", list], ["total_count", new Numeral(String(list.length))], ["source_ids", sources]]));
}

export interface RetrievalSource {
  id?: string | null;
  chunks?: readonly { text?: string | null }[] | null;
}

export interface RetrievedChunk {
  hash: string;
  text: string;
  source_id: string;
}

/** Returns the chunks of a pinned retrieval (spec: Pinned retrieval). */
export async function pinnedRetrieval(sources: readonly RetrievalSource[], required: readonly string[], topK = 5): Promise<RetrievedChunk[]> {
  const rows: RetrievedChunk[] = [];
  for (const source of sources) {
    for (const chunk of source.chunks ?? []) {
      rows.push({ hash: await chunkHash(chunk.text ?? ""), text: chunk.text ?? "", source_id: source.id ?? "unknown" });
    }
  }
  const wanted = new Set(required);
  const pinned = rows.filter((row) => wanted.delete(row.hash));
  const isRequired = new Set(required);
  const others = rows.filter((row) => !isRequired.has(row.hash)).sort((a, b) => (a.hash < b.hash ? -1 : a.hash > b.hash ? 1 : 0));
  return [...pinned, ...others].slice(0, topK);
}

// Paths

/** Returns the path_id of a route: 8 digits, or as many as asked for. */
export function pathId(route: readonly string[], digits = 8): string {
  return md5(wtf8(route.join(" → "))).slice(0, digits);
}

function squeeze(content: string): string {
  return strip(content.replace(/ {2,}/g, " ").replace(/\n{3,}/g, "\n\n"));
}

function withoutLinks(content: string): string {
  return content.replace(/\[\[[^\n]*?\]\]/g, "").replace(/\[[^\n]*?\]\([^\n]*?\)/g, "");
}

/** Returns the fingerprint of a passage without its links. */
export function contentFingerprint(content: string): string {
  return md5(wtf8(squeeze(withoutLinks(content)))).slice(0, 8);
}

/** Returns the fingerprint of a passage with its links. */
export function rawContentFingerprint(content: string): string {
  return md5(wtf8(squeeze(content))).slice(0, 8);
}

// Entries

/** Returns the digest of an idempotency key as the event names it (spec: Idempotency). */
export function idempotencyKeyDigest(key: string): Promise<string> {
  return textHash("key\u0000" + key);
}

/** Returns the digest of the key that a run_id is. */
export function runKeyDigest(kind: string, runId: string): Promise<string> {
  return textHash("run_id\u0000" + kind + "\u0000" + runId);
}

