// Receipts, tlog-proof files, and nested proofs (spec: Verifying a receipt; tlog-proof files; Nested proofs).

import { type Bytes, concat, count, equal, fromBase64, fromHex, textOf, toHex, wtf8 } from "./bytes.js";
import { VerificationError, must, shown } from "./errors.js";
import { type Event, countMember, objectMember, parseEvent, repeated, splitEntry, textMember } from "./event.js";
import { type Members, type Value, canonical, hasLoneSurrogate, parseJSON } from "./json.js";
import { type Checkpoint, type Cosignature, type VerifierKey, cosignatures, parseCheckpoint, parseVerifierKeys, verifyCheckpoint } from "./note.js";
import { type Step, Steps, type Verdict } from "./steps.js";
import type { Tiles } from "./tiles.js";
import { type Hash, type PathStep, entryOf, eventHash, leafHash, verifyConsistency, verifyInclusion, verifyRunPath } from "./tree.js";

export interface VerifyOptions {
  /** Verifier keys that you trust. One of them must have signed. */
  keys: readonly (string | VerifierKey)[];
  /** Verifier keys of witnesses that you trust, and how many of them must have cosigned (default: 0). */
  witnesses?: readonly (string | VerifierKey)[];
  quorum?: number;
  /** Rebuilds the path from the log's tiles instead of using the one in the receipt. */
  tiles?: Tiles;
  /** A checkpoint of the same log to which the path leads, in place of the receipt's own. It needs tiles. */
  checkpoint?: string;
  /** Called as soon as the result of a step is known, and at each step of the path. */
  onStep?: (step: Step) => void;
}

export interface Verification {
  /** "holds" only if every step holds. */
  readonly verdict: Verdict;
  readonly steps: readonly Step[];
  /** The first check that failed, else the first that this runtime could not make. */
  readonly error?: VerificationError;
  readonly format: "receipt" | "tlog-proof" | "nested proof";
  /** What was read, as far as it could be read. */
  readonly event?: Event;
  readonly entry?: Bytes;
  readonly eventHash?: string;
  readonly leafHash?: string;
  readonly checkpoint?: Checkpoint;
  readonly signer?: VerifierKey;
  readonly cosignatures: readonly Cosignature[];
  readonly path: readonly PathStep[];
  /** Members of the receipt that the proof covers, and members that only the server claims. */
  readonly covered: readonly string[];
  readonly uncovered: readonly string[];
}

/** What a proof says before it is verified. */
interface Claim {
  entry: Bytes;
  seq: number;
  size?: number;
  path: Hash[];
  checkpoint: string;
  receipt?: Members; // undefined for a tlog-proof
}

const names = ["ledger", "seq", "kind", "time", "event_hash", "prev_event_hash", "leaf_hash", "hashes", "checks", "shape", "failure_stage",
  "incomplete", "replayed", "event", "inclusion", "checkpoint"];
const always = new Set(["ledger", "seq", "kind", "time", "event_hash", "prev_event_hash", "leaf_hash", "hashes", "checks", "event", "inclusion", "checkpoint"]);
const maxPath = 64;

function readReceipt(receipt: Members): Claim {
  const what = "the receipt";
  for (const name of ["ledger", "kind", "time"]) textMember(receipt, name, what);
  for (const name of ["hashes", "checks"]) objectMember(receipt, name, what);
  for (const name of ["event_hash", "prev_event_hash", "leaf_hash"]) fromHex(receipt.get(name));
  const seq = countMember(receipt, "seq", what);
  must(!receipt.has("replayed") || receipt.get("replayed") === true, "malformed", "replayed of the receipt is not true");
  if (!["event", "inclusion", "checkpoint"].some((name) => receipt.has(name))) {
    throw new VerificationError("no_proof", `the receipt of event ${seq} is minimal and proves nothing; fetch /records/${seq}/receipt`);
  }
  const inclusion = objectMember(receipt, "inclusion", what);
  must(countMember(inclusion, "leaf_index", "inclusion") === seq, "inclusion", `leaf_index is not seq, which is ${seq}`);
  must(!hasLoneSurrogate(receipt), "malformed", "the receipt has a lone surrogate");
  return {
    entry: entryOf(fromHex(receipt.get("prev_event_hash")), wtf8(canonical(objectMember(receipt, "event", what)))),
    seq, size: countMember(inclusion, "tree_size", "inclusion"), path: hashList(inclusion.get("hashes")),
    checkpoint: textMember(receipt, "checkpoint", what), receipt,
  };
}

function hashList(value: Value | undefined): Hash[] {
  must(Array.isArray(value) && value.length <= maxPath, "malformed", `the path of the receipt is not a list of at most ${maxPath} hashes`);
  return value.map(fromHex);
}

const tlogProofTitle = "c2sp.org/tlog-proof@v1\n";

function readTlogProof(text: string): Claim {
  const what = "the tlog-proof";
  const end = text.indexOf("\n\n");
  must(end >= 0, "malformed", `${what} has no checkpoint`);
  const lines = text.slice(tlogProofTitle.length, end).split("\n");
  const extra = /^extra (.+)$/.exec(lines[0]!);
  must(extra, "no_proof", `${what} does not have the entry as extra data`);
  const index = /^index (.+)$/.exec(lines[1] ?? "");
  must(index && lines.length - 2 <= maxPath, "malformed", `${what} has no index, or too many hashes`);
  const path = lines.slice(2).map((line) => {
    const hash = fromBase64(line);
    must(hash.length === 32, "malformed", `${what} has ${shown(line)} in place of a hash`);
    return hash;
  });
  return { entry: fromBase64(extra[1]!), seq: count(index[1]!, `the index of ${what}`), path, checkpoint: text.slice(end + 2) };
}

/** Verifies a receipt, a tlog-proof file, or a nested proof.
 *
 * Give the text as the server sent it (`await response.text()`), not an object that was parsed and printed again:
 * JavaScript turns 0.0 into 0, and the hash would be another. It does not throw for a proof that does not hold: see verdict and steps. */
export async function verify(input: string | Uint8Array, options: VerifyOptions): Promise<Verification> {
  const verification = new ReceiptVerification(options);
  await verification.run(input);
  return verification.result();
}

/** Verifies as verify does, and throws a VerificationError unless every check holds. */
export async function requireVerified(input: string | Uint8Array, options: VerifyOptions): Promise<Verification> {
  const result = await verify(input, options);
  if (result.error) throw result.error;
  return result;
}

class ReceiptVerification {
  private readonly steps: Steps;
  private format: Verification["format"] = "receipt";
  private claim?: Claim;
  private nested?: Members;
  private event?: Event;
  private hash?: Hash;
  private leaf?: Hash;
  private checkpoint?: Checkpoint;
  private signer?: VerifierKey;
  private cosigned: Cosignature[] = [];
  private path: PathStep[] = [];

  constructor(private readonly options: VerifyOptions) {
    this.steps = new Steps(options.onStep);
  }

  async run(input: string | Uint8Array): Promise<void> {
    if (!(await this.steps.check("format", () => this.read(input)))) return;
    if (await this.steps.check("checkpoint", () => this.readCheckpoint())) {
      await this.steps.check("signature", () => this.verifySignature());
      if (this.options.witnesses || this.options.quorum) await this.steps.check("witnesses", () => this.verifyWitnesses());
    }
    await this.steps.check("event", () => this.verifyEvent());
    if (this.checkpoint && this.leaf) await this.steps.check("inclusion", () => this.verifyPlace());
    if (this.event) await this.steps.check("members", () => this.verifyMembers());
    if (this.nested && this.event) await this.steps.check("part", () => this.verifyPart());
  }

  result(): Verification {
    const { steps, claim } = this;
    const receipt = claim?.receipt;
    return {
      verdict: steps.verdict, steps: steps.list, format: this.format, cosignatures: this.cosigned, path: this.path,
      covered: receipt ? names.filter((name) => name !== "replayed" && (always.has(name) || receipt.has(name))) : [],
      uncovered: receipt ? [...receipt.keys()].filter((name) => name === "replayed" || !names.includes(name)) : [],
      ...(steps.error && { error: steps.error }), ...(this.event && { event: this.event }), ...(claim && { entry: claim.entry }),
      ...(this.hash && { eventHash: toHex(this.hash) }), ...(this.leaf && { leafHash: toHex(this.leaf) }),
      ...(this.checkpoint && { checkpoint: this.checkpoint }), ...(this.signer && { signer: this.signer }),
    };
  }

  private read(input: string | Uint8Array): string {
    const text = textOf(input, "the file");
    if (text.startsWith(tlogProofTitle)) {
      this.format = "tlog-proof";
      this.claim = readTlogProof(text);
      return "It is a complete tlog-proof file.";
    }
    const root = parseJSON(text);
    must(root instanceof Map, "malformed", "the receipt is not an object");
    if (!root.has("format")) {
      this.claim = readReceipt(root);
      return "It is a complete receipt.";
    }
    this.format = "nested proof";
    must(root.get("format") === "colophon-nested-proof@1", "malformed", `the format is ${shown(canonical(root.get("format")))}, which is not known here`);
    only(root, "the nested proof", ["format", "stage", "citation", "text", "receipt"]);
    must(root.has("stage") !== root.has("citation"), "malformed", "a nested proof has either a stage or a citation");
    this.claim = readReceipt(objectMember(root, "receipt", "the nested proof"));
    this.nested = root;
    return "It is a complete nested proof.";
  }

  private readCheckpoint(): string {
    const later = this.options.checkpoint;
    this.checkpoint = parseCheckpoint(later ?? this.claim!.checkpoint);
    const { size, origin } = this.checkpoint;
    const own = this.claim!.size;
    must(later !== undefined || own === undefined || own === size, "inclusion", `tree_size is ${own}, but the checkpoint's is ${size}`);
    return `The checkpoint says that the log ${origin} has ${size} events, and names the root of their tree.`;
  }

  private async verifySignature(): Promise<string> {
    this.signer = await verifyCheckpoint(this.checkpoint!, await parseVerifierKeys(this.options.keys));
    return `The checkpoint is signed by ${this.signer.name}+${this.signer.id}, which you trust.`;
  }

  private async verifyWitnesses(): Promise<string> {
    const { witnesses = [], quorum = 0 } = this.options;
    this.cosigned = await cosignatures(this.checkpoint!, await parseVerifierKeys(witnesses));
    must(this.cosigned.length >= quorum, "witnesses", `${this.cosigned.length} of the witnesses that you trust have cosigned, but ${quorum} must`);
    return `${this.cosigned.length} of the ${witnesses.length} witnesses that you trust have cosigned.`;
  }

  private async verifyEvent(): Promise<string> {
    const { entry, receipt } = this.claim!;
    const { body } = splitEntry(entry);
    this.hash = await eventHash(entry);
    this.leaf = await leafHash(entry);
    if (receipt) {
      const [stated, leaf] = ["event_hash", "leaf_hash"].map((name) => textMember(receipt, name, "the receipt"));
      must(stated === toHex(this.hash), "chain_link", `the event hash, computed here, is ${toHex(this.hash)}, but the receipt says ${stated!}`);
      must(leaf === toHex(this.leaf), "chain_link", `the leaf hash, computed here, is ${toHex(this.leaf)}, but the receipt says ${leaf!}`);
    }
    this.event = parseEvent(body);
    return `The event hash, computed here, is ${toHex(this.hash)}; it covers the event and the hash of the event before it.`;
  }

  private async verifyPlace(): Promise<string> {
    const { seq, path } = this.claim!;
    const { size, root } = this.checkpoint!;
    const hashes = this.options.tiles && seq < size ? await this.options.tiles.inclusionProof(seq, size) : path;
    this.path = await verifyInclusion(this.leaf!, seq, size, hashes, root, (step) => this.steps.follow("inclusion", step));
    const { checkpoint, tiles } = this.options;
    if (checkpoint !== undefined && tiles && this.claim!.size !== undefined) await this.verifyOwn(tiles);
    return `Its path leads in ${hashes.length} steps to the signed root: it is event ${seq} of ${size}.`;
  }

  /** Verifies that the tree of the receipt's own checkpoint is the beginning of the later one. */
  private async verifyOwn(tiles: Tiles): Promise<void> {
    const own = parseCheckpoint(this.claim!.checkpoint);
    const later = this.checkpoint!;
    must(own.origin === later.origin, "origin", `the receipt is of ${shown(own.origin)}, but the later checkpoint is of ${shown(later.origin)}`);
    const [first, second] = own.size <= later.size ? [own, later] : [later, own];
    await verifyConsistency(first.size, first.root, second.size, second.root, await tiles.consistencyProof(first.size, second.size));
  }

  private verifyMembers(): string {
    const { receipt, seq } = this.claim!;
    const event = this.event!;
    must(event.seq === seq, "field", `seq is ${seq}, but the event's is ${event.seq}`);
    if (!receipt) return "The number of the event is its place in the log.";
    for (const name of ["ledger", "kind", "time"] as const) {
      const stated = textMember(receipt, name, "the receipt");
      must(stated === event[name], "field", `${name} of the receipt is ${shown(stated)}, but the event's is ${shown(event[name])}`);
    }
    for (const [name, value] of Object.entries(repeated(event))) {
      const [stated, own] = [receipt.get(name), value].map((v) => (v === undefined ? "absent" : canonical(v)));
      must(stated === own, "field", `${name} of the receipt is ${shown(stated!)}, but the event gives ${shown(own!)}`);
    }
    return "Everything that the receipt repeats of the event agrees with it.";
  }

  private async verifyPart(): Promise<string> {
    return this.nested!.has("stage") ? this.verifyStage(objectMember(this.nested!, "stage", "the nested proof"))
      : this.verifyCitation(objectMember(this.nested!, "citation", "the nested proof"));
  }

  private async verifyStage(stage: Members): Promise<string> {
    only(stage, "the stage", ["name", "index", "hash", "root", "path"]);
    const event = this.event!;
    must(event.kind === "run_dag", "field", `the proof is for a stage, but the event is of kind ${event.kind}`);
    const nodes = event.record.get("nodes");
    must(Array.isArray(nodes), "malformed", "the event has no list of stages");
    const index = countMember(stage, "index", "the stage");
    const node = nodes[index];
    must(node instanceof Map, "field", `the proof is for stage ${index}, but the event has ${nodes.length} stages`);
    const [name, hash, root] = [textMember(stage, "name", "the stage"), fromHex(stage.get("hash")), fromHex(stage.get("root"))];
    must(node.get("stage") === name && node.get("hash") === toHex(hash), "field", `stage ${index} of the event has another name or hash`);
    must(repeatedRoot(event) === toHex(root), "field", "the root of the run is not that of the event");
    const path = stage.get("path");
    must(Array.isArray(path) && path.length <= 16, "malformed", "the path of the stage is not a list of at most 16 steps");
    const steps = path.map((step) => {
      must(step instanceof Map && typeof step.get("is_left") === "boolean", "malformed", "a step of the stage's path is malformed");
      only(step, "a step of the stage's path", ["sibling", "is_left"]);
      return { sibling: fromHex(step.get("sibling")), isLeft: step.get("is_left") as boolean };
    });
    await verifyRunPath(hash, index, nodes.length, steps, root);
    return `The hash of stage ${name} is part of the run's root, which the event names.`;
  }

  private verifyCitation(citation: Members): string {
    only(citation, "the citation", ["index", "chunk_hash"]);
    const event = this.event!;
    must(event.kind === "citation_set", "field", `the proof is for a citation, but the event is of kind ${event.kind}`);
    const list = event.record.get("citations");
    const index = countMember(citation, "index", "the citation");
    const named = Array.isArray(list) ? list[index] : undefined;
    must(named instanceof Map, "field", `the event has no citation ${index}`);
    must(named.get("chunk_hash") === textMember(citation, "chunk_hash", "the citation"), "field", `citation ${index} of the event has another chunk_hash`);
    return `Citation ${index} of the event has this chunk hash.`;
  }
}

function repeatedRoot(event: Event): Value | undefined {
  const hashes = event.record.get("hashes");
  return hashes instanceof Map ? hashes.get("root") : undefined;
}

/** Refuses members with other names. */
function only(members: Members, what: string, known: string[]): void {
  for (const name of members.keys()) must(known.includes(name), "malformed", `${what} has a member ${shown(name)}, which is not known here`);
}

/** Compares an entry of the log, such as one from GET /events, with the entry of a verified proof. */
export function sameEntry(a: Uint8Array, b: Uint8Array): boolean {
  return equal(a, b);
}

/** Joins the hash of the event before and the event's canonical JSON into an entry. */
export function entryOfEvent(previous: string, event: Value): Bytes {
  return concat(fromHex(previous), wtf8(canonical(event)));
}
