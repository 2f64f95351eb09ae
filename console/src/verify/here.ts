// Verification in the browser. Nothing that the server says is taken on trust, except the first
// key that this browser sees of a log.
import { recompute, namedHashes } from "../../../clients/typescript/src/hashes/recompute.js";
import {
  ForkError, inclusionRanges, Numeral, parseVerifierKey, type PathStep, Pins, type Range, sha256, type Step, Tiles, toHex, UnsupportedError, utf8Text, VerificationError, verify,
  type Verification, type VerifierKey,
} from "../../../clients/typescript/src/verify/index.js";
import { address, parseAnswer, Problem, request, type Schemas } from "../api/client.ts";
import { forBrowser } from "../api/kept.ts";
import { count, listed, number } from "../words.ts";

/** Line is one check, in words. A note says something that is no check. */
export interface Line {
  name: string;
  verdict: "holds" | "fails" | "unchecked" | "note";
  says: string;
}

/** Alarm is a reason to distrust the whole log. Its evidence is what two parties can compare. */
export interface Alarm {
  title: string;
  says: string;
  evidence?: string;
}

/** Progress is what is known so far. */
export interface Progress {
  lines: Line[];
  path: PathStep[]; // followed so far
  ranges: Range[]; // siblings of the whole path, known in advance
  index: number;
  size: number; // of the tree to which the path leads; 0 until it is known
  alarm?: Alarm;
  origin?: string;
  key?: string; // the verifier key that is trusted
  firstSight: boolean; // this browser saw the key for the first time
  verdict?: "holds" | "fails" | "unchecked"; // when everything is done
  verification?: Verification;
}

const store = { get: (name: string) => forBrowser.get(name), set: (name: string, value: string) => forBrowser.set(name, value) };

export const pins = new Pins(store, "pin:");

const originName = (ledger: string) => `log:${ledger}`;
const witnessName = (origin: string) => `witnesses:${origin}`;

/** pinnedLog returns the origin that a ledger had when this browser verified it last. */
export function pinnedLog(ledger: string): string | null {
  return forBrowser.get(originName(ledger));
}

/** forget deletes everything that this browser remembers of a ledger's log. */
export function forget(ledger: string): void {
  const origin = pinnedLog(ledger);
  for (const name of origin === null ? [] : [`pin:key:${origin}`, `pin:checkpoint:${origin}`, witnessName(origin)]) forBrowser.set(name, null);
  forBrowser.set(originName(ledger), null);
}

/** witnessKeys returns the verifier keys of the witnesses that the person trusts for a log. */
export function witnessKeys(origin: string): string[] {
  return (forBrowser.get(witnessName(origin)) ?? "").split("\n").filter((line) => line !== "");
}

/** keepWitnessKeys keeps keys of witnesses, one on each line. It throws if a line is not such a key. */
export async function keepWitnessKeys(origin: string, text: string): Promise<void> {
  const lines = text.split("\n").map((line) => line.trim()).filter((line) => line !== "");
  for (const line of lines) {
    const key = await parseVerifierKey(line);
    if (key.purpose !== "witness") throw new VerificationError("wrong_key", `${key.name}+${key.id} is the key of a log, not of a witness`);
  }
  forBrowser.set(witnessName(origin), lines.length > 0 ? lines.join("\n") : null);
}

async function logText(ledger: string, name: string, signal?: AbortSignal): Promise<string> {
  return (await request(address("/v1/ledgers/{ledger}/log/", { ledger }) + name, { signal })).text();
}

function tilesOf(ledger: string, signal?: AbortSignal): Tiles {
  return new Tiles(async (path) => {
    try {
      return new Uint8Array(await (await request(address("/v1/ledgers/{ledger}/log/", { ledger }) + path, { signal })).arrayBuffer());
    } catch (error) {
      if (error instanceof Problem && error.status === 404) return null;
      throw error;
    }
  });
}

/** alarmOf returns the alarm that an error is, or undefined if the error says nothing about the log as a whole. */
function alarmOf(error: unknown): Alarm | undefined {
  if (error instanceof ForkError) {
    const evidence = JSON.stringify(error.evidence, null, 2);
    if (error.code === "rollback") {
      return { title: "The server shows less than it has signed before", evidence,
        says: `This browser has seen a signed checkpoint of a longer log: ${error.message}. Either this server is a copy that lags behind, or events were lost. If this does not change soon, keep the evidence and ask the operator.` };
    }
    return { title: "This is not the log that this browser saw before", evidence,
      says: `The server signed two logs that contradict each other: ${error.message}. Do not rely on this ledger. Show the evidence to the operator and to others who use the ledger.` };
  }
  if (error instanceof VerificationError && error.code === "key_changed") {
    return { title: "The key of the log is not the one that this browser knows", says: `${sentence(error.message)} The earlier key did not sign a handover to it. Ask the operator, through a channel other than this page, which key is right.` };
  }
  return undefined;
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;
}

/** trustedKeys pins the key of the ledger's log, or follows its changes from the pinned one. */
async function trustedKeys(ledger: string, signal?: AbortSignal): Promise<{ keys: VerifierKey[]; changed: "first" | "same" | "rotated"; origin: string }> {
  const text = await logText(ledger, "key", signal);
  const { origin = "" } = JSON.parse(text) as { origin?: string };
  const before = pinnedLog(ledger);
  // A server could evade the pins of one log by naming another.
  if (before !== null && before !== origin) throw new VerificationError("key_changed", `the ledger was the log ${before} before, and now calls itself ${origin}`);
  const found = await pins.followKeys(text);
  forBrowser.set(originName(ledger), origin);
  return { ...found, origin };
}

/** watch compares the newest checkpoint with the one that this browser remembers. It does nothing for a log of which it remembers none. */
export async function watch(ledger: string, signal: AbortSignal): Promise<Alarm | undefined> {
  if (pinnedLog(ledger) === null) return undefined;
  for (let attempt = 1; ; attempt++) {
    try {
      const { keys } = await trustedKeys(ledger, signal);
      const tiles = tilesOf(ledger, signal);
      await pins.remember(await logText(ledger, "checkpoint", signal), { newest: true, keys, prove: (first, second) => tiles.consistencyProof(first, second) });
      return undefined;
    } catch (error) {
      const alarm = alarmOf(error);
      if (alarm || !(error instanceof VerificationError) || error instanceof UnsupportedError) return alarm; // no answer says nothing about the log
      if (attempt === 2) return { title: "The newest checkpoint is not signed by the log", says: `${sentence(error.message)} Do not rely on this ledger until the operator has explained this.` };
      // The key can have changed between the two requests.
    }
  }
}

type Row = Schemas["RecordAnswer"];

const stepTitles: Record<string, string> = {
  format: "The receipt is complete", checkpoint: "The checkpoint can be read", signature: "The log signed the checkpoint", witnesses: "Witnesses signed it too",
  event: "The event has this hash", inclusion: "The path leads to the signed root", members: "The receipt says what the event says",
};

/** verifyRecord verifies a record, and everything of it that the page shows. onProgress gets a new value after every step. It throws only if the server does not answer. */
export async function verifyRecord(ledger: string, row: Row, onProgress: (progress: Progress) => void, signal: AbortSignal): Promise<Progress> {
  let progress: Progress = { lines: [], path: [], ranges: [], index: row.seq, size: 0, firstSight: false };
  const set = (change: Partial<Progress>) => {
    progress = { ...progress, ...change };
    onProgress(progress);
  };
  const line = (name: string, verdict: Line["verdict"], says: string) => set({ lines: [...progress.lines, { name, verdict, says }] });
  const end = (): Progress => {
    const holds = (name: string) => progress.verification?.steps.some((step) => step.name === name && step.verdict === "holds") ?? false;
    set({ verdict: progress.lines.some((l) => l.verdict === "fails") ? "fails" : holds("signature") && holds("inclusion") ? "holds" : "unchecked" });
    return progress;
  };
  // check makes a check. An error that is not about the proof is the caller's.
  const check = async (name: string, make: () => Promise<{ verdict?: Line["verdict"]; says: string }>): Promise<boolean> => {
    try {
      const { verdict = "holds", says } = await make();
      line(name, verdict, says);
      return verdict !== "fails";
    } catch (error) {
      if (!(error instanceof VerificationError)) throw error;
      const alarm = alarmOf(error);
      if (alarm) set({ alarm });
      line(name, error instanceof UnsupportedError ? "unchecked" : "fails", sentence(error.message));
      return false;
    }
  };

  let keys: VerifierKey[] = [];
  const known = await check("The key of the log", async () => {
    const found = await trustedKeys(ledger, signal);
    keys = found.keys;
    set({ origin: found.origin, firstSight: found.changed === "first", key: keys[0]?.text ?? "" });
    if (found.changed === "first") return { verdict: "note", says: `This browser sees the key of the log ${found.origin} for the first time, and keeps it. From now on, it notices if the key changes.` };
    if (found.changed === "rotated") return { says: "The log has a new key, and the key that this browser knew has signed the handover." };
    return { says: `The key of ${found.origin} is the one that this browser has kept.` };
  });
  if (!known) return end();

  const tiles = tilesOf(ledger, signal);
  const receipt = await (await request(address("/v1/ledgers/{ledger}/records/{seq}/receipt", { ledger, seq: row.seq }), { signal, headers: { Accept: "application/json" } })).text();
  const checkpoint = await logText(ledger, "checkpoint", signal);
  const same = await check("The log since the last visit", async () => {
    const seen = await pins.remember(checkpoint, { newest: true, keys, prove: (first, second) => tiles.consistencyProof(first, second) });
    const { size } = seen.checkpoint, before = seen.before?.size ?? 0;
    if (seen.change === "first") return { verdict: "note", says: `This browser keeps the checkpoint of ${count(size, "event")}. The next one must continue it.` };
    if (seen.change === "same") return { says: `It still has the ${count(size, "event")} that this browser saw last, under the same root.` };
    return { says: `It had ${count(before, "event")} when this browser saw it last, and has ${number(size)} now. The earlier tree is the beginning of the new one: the tiles show it.` };
  });

  const witnesses = witnessKeys(keys[0]?.name ?? "");
  const begin = (size: number) => {
    if (size > row.seq) set({ size, ranges: inclusionRanges(row.seq, size) });
  };
  const sizeOf = (note: string) => Number(note.split("\n", 2)[1]);
  begin(same ? sizeOf(checkpoint) : 0);
  const onStep = (step: Step) => {
    if (step.path) set({ path: [...step.path] });
    if (step.verdict !== "running") line(stepTitles[step.name] ?? step.name, step.verdict, sentence(step.says));
  };
  // If the newest checkpoint is in doubt, the receipt is verified by its own.
  const verification = await verify(receipt, { keys, tiles, onStep, ...(same ? { checkpoint } : {}), ...(witnesses.length > 0 ? { witnesses, quorum: 1 } : {}) });
  if (progress.size === 0 && verification.checkpoint) begin(verification.checkpoint.size);
  set({ verification });
  noteOtherSignatures(verification, witnesses.length, line);
  const { event } = verification;
  if (!event) return end();

  await check("This page shows that event", () => {
    const own = utf8Text((verification.entry ?? new Uint8Array()).slice(32));
    const holds = own !== null && row.event_hash === verification.eventHash && equalJSON(parseAnswer(own), row.event);
    return Promise.resolve(holds ? { says: "Conditions, hashes, and checks on this page are those of the event that was verified." }
      : { verdict: "fails" as const, says: "The event that the server sent to this page is not the one in the log." });
  });
  if (row.redacted_by !== undefined) line("The texts", "note", "They were erased. Their digests remain in the event.");
  else await check("The texts are those that were recorded", () => verifyTexts(ledger, row.seq, event, signal));
  return end();
}

/** noteOtherSignatures names cosignatures whose keys the person has not given. */
function noteOtherSignatures({ checkpoint, cosignatures }: Verification, given: number, line: (name: string, verdict: Line["verdict"], says: string) => void): void {
  if (!checkpoint) return;
  const checked = new Set(cosignatures.map((one) => one.key.name));
  const others = [...new Set(checkpoint.signatures.map((one) => one.name))].filter((name) => name !== checkpoint.origin && !checked.has(name));
  if (others.length === 0) return;
  line("Other signatures", "note", `The checkpoint is also signed in the name of ${listed(others.slice(0, 4))}. ${given > 0 ? "You gave no key for it." : "To check such a signature, give the key of the witness below."}`);
}

function equalJSON(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null || Array.isArray(a) !== Array.isArray(b)) return false;
  const [x, y] = [a as Record<string, unknown>, b as Record<string, unknown>], names = Object.keys(x);
  return names.length === Object.keys(y).length && names.every((name) => Object.hasOwn(y, name) && equalJSON(x[name], y[name]));
}

const mostTexts = 200; // of one record; more are left unchecked, and the page says so

/** verifyTexts compares the texts with the digests in the event, and computes its hashes again. */
async function verifyTexts(ledger: string, seq: number, event: NonNullable<Verification["event"]>, signal: AbortSignal): Promise<{ verdict?: Line["verdict"]; says: string }> {
  const contents = event.record.get("content");
  const names = contents instanceof Map ? [...contents.keys()] : [];
  const texts = new Map<string, string>();
  for (const name of names.slice(0, mostTexts)) {
    let bytes: Uint8Array<ArrayBuffer>;
    try {
      bytes = new Uint8Array(await (await request(address("/v1/ledgers/{ledger}/records/{seq}/content/{path}", { ledger, seq, path: name }), { signal })).arrayBuffer());
    } catch (error) {
      if (error instanceof Problem && [401, 403, 404, 410].includes(error.status)) return { verdict: "unchecked", says: `The server does not show you ${name}: ${error.message || error.title}. Its digest is part of the verified event.` };
      throw error;
    }
    const named = contents instanceof Map ? contents.get(name) : undefined, digest = toHex(await sha256(bytes));
    if (!(named instanceof Map) || named.get("sha256") !== digest) return { verdict: "fails", says: `${name} was changed: its digest is ${digest}, but the event names another.` };
    const text = utf8Text(bytes);
    if (text !== null) texts.set(name, text);
  }
  const stated = namedHashes(event.kind, event.record), rules = event.members.get("rules");
  const found = rules instanceof Numeral && rules.token === "1" ? await recompute(event.kind, event.record, texts) : new Map<string, string>();
  const wrong = [...found].filter(([name, hash]) => stated.has(name) && stated.get(name) !== hash).map(([name]) => name);
  if (wrong.length > 0) return { verdict: "fails", says: `Recomputed from the texts, ${listed(wrong)} ${wrong.length === 1 ? "differs" : "differ"} from the event.` };
  const again = [...found.keys()].filter((name) => stated.has(name)).length;
  const part = names.length > mostTexts ? ` Only the first ${mostTexts} of ${number(names.length)} were compared.` : "";
  if (names.length === 0) return { verdict: "note", says: "The record has no texts of its own." };
  return { says: `${names.length === 1 ? "The text has the digest" : `${count(Math.min(names.length, mostTexts), "text")} have the digests`} that the event names.${again > 0 ? ` ${count(again, "hash", "hashes")} of the record ${again === 1 ? "was" : "were"} computed again here, and ${again === 1 ? "agrees" : "agree"}.` : ""}${part}` };
}
