// The hashes that an event names, recomputed from its content where this page knows
// the rule exactly.

const spaceCodes = new Set([9, 10, 11, 12, 13, 28, 29, 30, 31, 32, 0x85, 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000]);
for (let code = 0x2000; code <= 0x200a; code++) spaceCodes.add(code);

function isSpace(text, at) {
  return spaceCodes.has(text.charCodeAt(at));
}

function strip(text) {
  let start = 0, end = text.length;
  while (start < end && isSpace(text, start)) start++;
  while (end > start && isSpace(text, end - 1)) end--;
  return text.slice(start, end);
}

const lineEnd = /\r\n|[\n\r\u000b\u000c\u001c-\u001e\u0085\u2028\u2029]/;

function systemPrompt(text) {
  return strip(text.split(lineEnd).map(strip).join("\n"));
}

function output(text) {
  return strip(text).replace(/ {2,}/g, " ");
}

function words(text) {
  const list = [];
  for (let at = 0; at < text.length; ) {
    let end = at;
    while (end < text.length && !isSpace(text, end)) end++;
    if (end > at) list.push(text.slice(at, end));
    at = end + 1;
  }
  return list.join(" ");
}

// runRoot is the root of a run's own tree over the hashes of its stages.
async function runRoot(hashes) {
  let level = await Promise.all(hashes.map((hash) => sha256([0], fromHex(hash))));
  while (level.length > 1) {
    const next = [];
    for (let i = 0; i < level.length; i += 2) next.push(await sha256([3], level[i], level[i + 1] ?? level[i]));
    level = next;
  }
  return toHex(level[0]);
}

// Recomputed is what could be recomputed of an event: hash by name.
class Recomputed {
  // contents are texts by name, of the pieces that are there and valid UTF-8.
  constructor(members, contents) {
    this.members = members;
    this.contents = contents;
    this.hashes = new Map();
  }

  async fromText(name, content, rule) {
    const text = this.contents.get(content);
    if (text !== undefined) this.hashes.set(name, await textHash(rule(text)));
  }

  fromJSON(name, content, form) {
    return this.fromText(name, content, (text) => canonical(parseJSON(text), form));
  }

  async ipc() {
    if (!this.members.has("payload_schema")) await this.fromJSON("input_hash", "payload", spaced);
    await this.fromText("system_prompt_hash", "system_prompt", systemPrompt);
    await this.fromText("output_hash", "output", output);
    const hashes = this.members.get("hashes"), number = (name) => this.members.get(name)?.canonical();
    const chain = ["input_hash", "system_prompt_hash", "output_hash"].map((name) => hashes.get(name));
    if (!chain.every((hash) => typeof hash === "string") || number("seed") === undefined) return;
    const parts = [chain[0], chain[1], this.members.get("model"), number("temperature"), number("max_tokens"), number("seed")];
    this.hashes.set("ipc_id", await textHash(parts.join(":")));
    const environment = this.members.get("environment") ?? new Map();
    const place = ["ollama_build_hash", "model_digest", "host_platform"].map((name) => environment.get(name));
    if (place.every((part) => typeof part === "string")) {
      this.hashes.set("ipc_id_advanced", await textHash([...parts, ...place].join(":")));
    }
  }

  async runDAG() {
    const nodes = this.members.get("nodes");
    this.hashes.set("root", await runRoot(nodes.map((node) => node.get("hash"))));
    await this.fromJSON("conversation_hash", "messages", compact);
    await this.fromJSON("governance_policy_hash", "policy", compact);
    await this.fromJSON("verifier_policy_hash", "verifier_policy", compact);
    const inputs = this.contents.has("inputs") ? parseJSON(this.contents.get("inputs")) : new Map();
    const place = (stage) => nodes.findIndex((node) => node.get("stage") === stage);
    let answer = inputs.get("answer_text") ?? this.contents.get("answer_text"), at = place("answer");
    if (at < 0) {
      at = place("render");
      answer = inputs.get("rendered_text") ?? answer;
    }
    if (at >= 0 && typeof answer === "string") this.hashes.set("nodes/" + at, await textHash(answer));
  }

  async citationSet() {
    for (const [i] of this.members.get("citations").entries()) {
      const text = this.contents.get("citations/" + i + "/text");
      if (text !== undefined) this.hashes.set("citations/" + i, "sha256:" + (await textHash(words(text))));
    }
  }
}

// recompute gives what could be recomputed of an event of that kind.
async function recompute(kind, members, contents) {
  const found = new Recomputed(members, contents);
  if (kind === "ipc_record") await found.ipc();
  if (kind === "run_dag") await found.runDAG();
  if (kind === "citation_set") await found.citationSet();
  return found.hashes;
}

// namedHashes are the hashes that an event names, as recompute calls them: null where
// there is none.
function namedHashes(kind, members) {
  const hashes = new Map(members.get("hashes") ?? []);
  if (kind === "run_dag") members.get("nodes").forEach((node, i) => hashes.set("nodes/" + i, node.get("hash")));
  if (kind === "citation_set") members.get("citations").forEach((c, i) => hashes.set("citations/" + i, c.get("chunk_hash")));
  return hashes;
}
