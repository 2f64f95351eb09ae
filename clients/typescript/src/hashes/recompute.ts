// The hashes that an event names, recomputed from the content that it names, where the rule needs nothing else.

import { type Members, Numeral, type Value, compact, parseJSON, spaced, type Form } from "../verify/json.js";
import { chunkHash, jsonHash, outputForm, systemPromptForm, textHash } from "./texts.js";
import { nodesRoot } from "./records.js";

class Recomputation {
  readonly hashes = new Map<string, string>();

  /** contents are texts by name, of those pieces of content that are known and valid UTF-8. */
  constructor(
    private readonly members: Members,
    private readonly contents: ReadonlyMap<string, string>,
  ) {}

  private async fromText(name: string, content: string, form: (text: string) => string): Promise<void> {
    const text = this.contents.get(content);
    if (text !== undefined) this.hashes.set(name, await textHash(form(text)));
  }

  private async fromJSON(name: string, content: string, form: Form): Promise<void> {
    const text = this.contents.get(content);
    if (text !== undefined) this.hashes.set(name, await jsonHash(parseJSON(text), form));
  }

  async ipc(): Promise<void> {
    if (!this.members.has("payload_schema")) await this.fromJSON("input_hash", "payload", spaced);
    await this.fromText("system_prompt_hash", "system_prompt", systemPromptForm);
    await this.fromText("output_hash", "output", outputForm);
    const hashes = membersOf(this.members.get("hashes"));
    const number = (name: string): string | undefined => {
      const value = this.members.get(name);
      return value instanceof Numeral ? value.canonical() : undefined;
    };
    const chain = ["input_hash", "system_prompt_hash", "output_hash"].map((name) => hashes.get(name));
    const numbers = ["temperature", "max_tokens", "seed"].map(number);
    if (!chain.every((hash) => typeof hash === "string") || numbers.includes(undefined)) return;
    const parts = [chain[0], chain[1], this.members.get("model"), ...numbers];
    this.hashes.set("ipc_id", await textHash(parts.map(textOrNone).join(":")));
    const environment = membersOf(this.members.get("environment"));
    const place = ["ollama_build_hash", "model_digest", "host_platform"].map((name) => environment.get(name));
    if (place.every((part) => typeof part === "string")) this.hashes.set("ipc_id_advanced", await textHash([...parts, ...place].map(textOrNone).join(":")));
  }

  async runDAG(): Promise<void> {
    const nodes = listOf(this.members.get("nodes"));
    this.hashes.set("root", await nodesRoot(nodes.map((node) => ({ hash: textOrNone(node.get("hash")) }))));
    await this.fromJSON("conversation_hash", "messages", compact);
    await this.fromJSON("governance_policy_hash", "policy", compact);
    await this.fromJSON("verifier_policy_hash", "verifier_policy", compact);
    const inputs = membersOf(this.contents.has("inputs") ? parseJSON(this.contents.get("inputs")!) : undefined);
    const place = (stage: string): number => nodes.findIndex((node) => node.get("stage") === stage);
    let answer = inputs.get("answer_text") ?? this.contents.get("answer_text");
    let at = place("answer");
    if (at < 0) {
      at = place("render");
      answer = inputs.get("rendered_text") ?? answer;
    }
    if (at >= 0 && typeof answer === "string") this.hashes.set(`nodes/${at}`, await textHash(answer));
  }

  async citationSet(): Promise<void> {
    for (const i of listOf(this.members.get("citations")).keys()) {
      const text = this.contents.get(`citations/${i}/text`);
      if (text !== undefined) this.hashes.set(`citations/${i}`, await chunkHash(text));
    }
  }
}

function membersOf(value: Value | undefined): Members {
  return value instanceof Map ? value : new Map<string, Value>();
}

function textOrNone(value: Value | undefined): string {
  return typeof value === "string" ? value : "";
}

function listOf(value: Value | undefined): Members[] {
  return Array.isArray(value) ? value.map(membersOf) : [];
}

/** Returns what can be recomputed of an event's record: hash by name. A stage is `nodes/<i>`, a citation `citations/<i>`.
 * contents are the record's contents as texts, by the names that the event gives them. */
export async function recompute(kind: string, record: Members, contents: ReadonlyMap<string, string>): Promise<Map<string, string>> {
  const found = new Recomputation(record, contents);
  if (kind === "ipc_record") await found.ipc();
  if (kind === "run_dag") await found.runDAG();
  if (kind === "citation_set") await found.citationSet();
  return found.hashes;
}

/** Returns the hashes that an event names, under the names of recompute. A hash is null where the record has none. */
export function namedHashes(kind: string, record: Members): Map<string, string | null> {
  const text = (value: Value | undefined): string | null => (typeof value === "string" ? value : null);
  const hashes = new Map([...membersOf(record.get("hashes"))].map(([name, hash]) => [name, text(hash)]));
  if (kind === "run_dag") listOf(record.get("nodes")).forEach((node, i) => hashes.set(`nodes/${i}`, text(node.get("hash"))));
  if (kind === "citation_set") listOf(record.get("citations")).forEach((citation, i) => hashes.set(`citations/${i}`, text(citation.get("chunk_hash"))));
  return hashes;
}
