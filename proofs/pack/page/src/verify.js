// Verification of a pack. Each check becomes a step: its name, its verdict (holds, fails, or unchecked), and what it
// found. The rules are those of the TypeScript client.

import { namedHashes, recompute } from "../../../../clients/typescript/src/hashes/recompute.js";
import { fromBase64, fromHex, sha256, toHex, utf8Text } from "../../../../clients/typescript/src/verify/bytes.js";
import { UnsupportedError, VerificationError, must } from "../../../../clients/typescript/src/verify/errors.js";
import { Numeral, canonical, parseJSON } from "../../../../clients/typescript/src/verify/json.js";
import { parseCheckpoint, parseVerifierKeys, verifyCheckpoint } from "../../../../clients/typescript/src/verify/note.js";
import { leafHash, verifyInclusion } from "../../../../clients/typescript/src/verify/tree.js";

export const holds = "holds", fails = "fails", unchecked = "unchecked";

// kinds says what each kind of event is about.
export const kinds = {
  ledger_created: "the ledger was created", ipc_record: "how one text was generated (IPC record)", run_dag: "the stages of a run (run-DAG)",
  citation_set: "what an answer rests on (citation set)", path_fingerprint: "a path and its content (path fingerprint)",
  record_state_changed: "a record’s state was changed", path_validated: "a path was validated", source_registered: "a source was registered",
  source_revoked: "a source was revoked", content_redacted: "content was erased", record_refused: "a record was refused", key_rotated: "the signing key was changed",
  note: "a note on a record",
};

function need(condition, message) {
  must(condition, "malformed", message);
}

// step runs a check, appends its result to steps, and returns whether it holds. If check throws because the pack is
// malformed, the verdict is fails.
async function step(steps, name, check) {
  try {
    steps.push({ name, verdict: holds, says: await check() });
    return true;
  } catch (error) {
    const says = error instanceof VerificationError ? error.message : "the pack is malformed: " + error.message;
    steps.push({ name, verdict: error instanceof UnsupportedError ? unchecked : fails, says });
    return false;
  }
}

// worst returns the worst verdict of several steps.
export function worst(steps) {
  return [fails, unchecked].find((verdict) => steps.some((s) => s.verdict === verdict)) ?? holds;
}

export class Verification {
  constructor(pack, key) {
    this.pack = pack;
    this.key = key; // the reader's key, or "" for the keys in the pack
    this.steps = []; // about the pack as a whole
    this.records = [];
    this.bySeq = new Map();
    this.contents = new Map(); // by digest: bytes that were found to have it
    this.used = new Set();
  }

  async run() {
    if (!(await step(this.steps, "The file", () => this.form()))) return this;
    await step(this.steps, "The signature", () => this.signature());
    for (const record of this.pack.records) {
      const one = new RecordVerification(this, record);
      this.records.push(one);
      await one.log();
      if (one.event) this.bySeq.set(record.seq, one);
    }
    for (const one of this.records) await one.content();
    await step(this.steps, "The content", () => this.allContent());
    return this;
  }

  // form checks that all is there that the rest is about.
  form() {
    const pack = this.pack, text = (value) => need(typeof value === "string", "the pack lacks something that it should have");
    need(pack.format === "colophon-audit-pack@1", "the pack has a format that this page does not know");
    [pack.ledger, pack.exported, pack.checkpoint, pack.content].forEach(text);
    need(Array.isArray(pack.verifier_keys) && Array.isArray(pack.records) && pack.contents instanceof Object, "the pack lacks keys, records or contents");
    // The page shows these two although no proof covers them, so a forger must not be able to choose their text.
    need(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(pack.exported) && !Number.isNaN(Date.parse(pack.exported)), "the pack does not say when it was made");
    need(["included", "left out", "no right"].includes(pack.content), "the pack does not say whether it has content");
    need(pack.records.length > 0, "the pack has no records");
    pack.verifier_keys.forEach(text);
    let last = -1;
    for (const record of pack.records) {
      need(Number.isSafeInteger(record.seq) && record.seq > last, "the records are not in their order");
      text(record.entry);
      need(Array.isArray(record.inclusion), "a record lacks its path in the tree");
      last = record.seq;
    }
    this.checkpoint = parseCheckpoint(pack.checkpoint);
    return "It is complete, and in a format that this page knows.";
  }

  async signature() {
    const keys = await parseVerifierKeys(this.key ? [this.key] : this.pack.verifier_keys);
    this.signer = await verifyCheckpoint(this.checkpoint, keys);
    return "The checkpoint was signed with " + (this.key ? "the key that you gave." : "the key that this file brings along.");
  }

  async allContent() {
    for (const digest of Object.keys(this.pack.contents)) {
      need(this.used.has(digest), "no record names the content with the digest " + digest);
    }
    return this.used.size > 0 ? "Records name every piece of content that is in the file." : "There is no content in the file.";
  }

  // piece gives kept bytes, which must have the digest that they are kept under.
  async piece(digest) {
    this.used.add(digest);
    if (!this.contents.has(digest)) {
      const bytes = fromBase64(this.pack.contents[digest]), sum = toHex(await sha256(bytes));
      need(sum === digest, "the kept bytes have the digest " + sum + ", the event says " + digest + ": they were changed");
      this.contents.set(digest, bytes);
    }
    return this.contents.get(digest);
  }

  // verdict is "verified" with the reader's key, "consistent" with the file's own.
  verdict() {
    const all = worst(this.steps.concat(this.records.flatMap((record) => record.steps)));
    if (all === fails) return "failed";
    if (all === unchecked) return "unchecked";
    return this.key ? "verified" : "consistent";
  }
}

class RecordVerification {
  constructor(whole, record) {
    this.whole = whole;
    this.record = record;
    this.steps = [];
    this.event = null; // null until readEvent succeeds
    this.pieces = [];
    this.hashes = [];
    this.refuted = []; // claims of the writer that do not match
  }

  // log checks the record as an entry of the log: place, event, chain.
  async log() {
    const { record, whole } = this, { size, root } = whole.checkpoint;
    await step(this.steps, "Place in the log", async () => {
      this.entry = fromBase64(record.entry);
      await verifyInclusion(await leafHash(this.entry), record.seq, size, record.inclusion.map(fromHex), root);
      return "It is event " + record.seq + " of the " + size + " that the checkpoint covers.";
    });
    if (!this.entry) return;
    this.hash = toHex(await sha256(this.entry));
    await step(this.steps, "The event", () => this.readEvent());
    await step(this.steps, "The chain", () => this.link());
  }

  readEvent() {
    need(this.entry.length > 32, "the entry holds no event");
    const text = utf8Text(this.entry.slice(32));
    need(text !== null, "the event is no valid text");
    const event = parseJSON(text);
    need(event instanceof Map && canonical(event) === text, "the event is not in its canonical form");
    need(event.get("seq") instanceof Numeral && event.get("seq").token === String(this.record.seq), "the event's own number is another one");
    need(event.get("ledger") === this.whole.pack.ledger, "the event is of another ledger");
    need(typeof event.get("kind") === "string" && typeof event.get("time") === "string" && event.get("record") instanceof Map, "the event lacks its kind, time or record");
    // An event of an unknown form would otherwise hold, although its hashes are unchecked.
    need(event.get("v")?.token === "1", "the event has a version that this page does not know");
    need(event.get("rules")?.token === "1", "the event has rules that this page does not know");
    need(Object.hasOwn(kinds, event.get("kind")), "the event has a kind that this page does not know");
    need(isEventTime(event.get("time")), "the event's time is not a time of the ledger");
    this.text = text;
    this.event = event;
    return "Its event hash, computed here, is " + this.hash + ".";
  }

  link() {
    const prev = toHex(this.entry.slice(0, 32)), seq = this.record.seq;
    const before = this.whole.records.find((other) => other.record.seq === seq - 1);
    if (seq === 0) {
      need(/^0+$/.test(prev), "the first event names an event before it");
      return "It is the first event of the log.";
    }
    if (!before?.hash) return "It follows the event with the hash " + prev + ", which is not in this file.";
    need(before.hash === prev, "it names " + prev + " as the event before it, but event " + (seq - 1) + " is " + before.hash);
    return "It follows event " + (seq - 1) + ", which is in this file too.";
  }

  // content checks the content that the event names, and the hashes made of it.
  async content() {
    if (!this.event) return;
    const members = this.event.get("record");
    if (this.record.redacted_by !== undefined) await step(this.steps, "The erasure", () => this.erased());
    for (const [name, named] of members.get("content") ?? []) await this.keep(name, named);
    await step(this.steps, "The hashes", () => this.recomputed());
  }

  async keep(name, named) {
    const piece = { name, size: 0, digest: "", bytes: null, changed: false, erased: this.record.redacted_by !== undefined };
    this.pieces.push(piece);
    const there = named instanceof Map && Object.hasOwn(this.whole.pack.contents, named.get("sha256"));
    if (named instanceof Map) [piece.digest, piece.size] = [named.get("sha256"), named.get("size")?.token];
    if (piece.erased || !there) return;
    piece.changed = !(await step(this.steps, "Content " + name, async () => {
      const bytes = await this.whole.piece(piece.digest);
      need(String(bytes.length) === piece.size, "it has " + bytes.length + " bytes, the event says " + piece.size);
      piece.bytes = bytes;
      return "The kept bytes have the digest that the event names.";
    }));
  }

  // erased checks that an event of the log says so.
  erased() {
    const by = this.record.redacted_by, event = this.whole.bySeq.get(by)?.event;
    need(event, "event " + by + ", which is said to have erased the content, is not in this file");
    const seqs = event.get("record").get("seqs"), number = (value) => Number(value.token);
    const covers = (e) => (Array.isArray(e) ? number(e[0]) <= this.record.seq && this.record.seq <= number(e[1]) : number(e) === this.record.seq);
    need(event.get("kind") === "content_redacted" && Array.isArray(seqs) && seqs.some(covers), "event " + by + " did not erase the content of this record");
    return "The content was erased. Event " + by + " of the log says so.";
  }

  async recomputed() {
    const kind = this.event.get("kind"), members = this.event.get("record"), checks = this.event.get("checks") ?? new Map();
    const contents = new Map();
    for (const piece of this.pieces) {
      const text = piece.bytes && utf8Text(piece.bytes);
      if (typeof text === "string") contents.set(piece.name, text);
    }
    for (const [name, check] of checks) {
      if (check.get("result") === "mismatch") this.refuted.push({ name, claimed: check.get("claimed"), computed: check.get("computed") });
    }
    const found = await recompute(kind, members, contents);
    const named = namedHashes(kind, members), wrong = [];
    for (const [name, stated] of named) {
      const check = checks.get(checkName(name, members)), result = check?.get("result") ?? "";
      this.hashes.push({ name, stated, recomputed: found.has(name), holds: found.get(name) === stated, result });
      if (found.has(name) && found.get(name) !== stated) wrong.push(name + ": the event says " + stated + ", its content gives " + found.get(name));
      if (result === "mismatch" && check.get("computed") && check.get("computed") !== stated) wrong.push(name + ": the event says that another hash was computed");
    }
    need(wrong.length === 0, wrong.join("; "));
    if (named.size === 0) return "The event names no hashes of content.";
    const n = this.hashes.filter((hash) => hash.recomputed).length;
    return n + " of the " + named.size + " hashes in the event were computed again here, and agree.";
  }
}

// isEventTime reports whether text is a time as the ledger writes it.
function isEventTime(text) {
  const time = new Date(text); // corrects days such as February 30, which the comparison finds
  return /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/.test(text) && !Number.isNaN(time.getTime()) && time.toISOString().slice(0, 19) === text.slice(0, 19);
}

// checkName returns the name that the check of a hash has in the event, or "" for a stage whose name an earlier stage
// already has.
function checkName(name, members) {
  const [list, i] = name.split("/");
  if (list === "citations") return name + "/chunk_hash";
  if (list !== "nodes") return name;
  const stages = members.get("nodes").map((node) => node.get("stage"));
  return stages.indexOf(stages[i]) === Number(i) ? "stage:" + stages[i] : "";
}
