// Signed notes, verifier keys, checkpoints, and cosignatures (C2SP signed-note, tlog-checkpoint,
// tlog-cosignature; spec: Origin and keys; Checkpoints; Key rotation).

import { type Bytes, concat, count, fromBase64, sha256, subtle, textOf, toBase64, toHex, wtf8 } from "./bytes.js";
import { UnsupportedError, VerificationError, must, shown } from "./errors.js";
import { textMember } from "./event.js";
import { Numeral, type Value, parseJSON } from "./json.js";
import type { Hash } from "./tree.js";

/** A verifier key, `<name>+<key id>+<base64>`. */
export interface VerifierKey {
  readonly text: string;
  readonly name: string; // the origin of a log, or the name of a witness
  readonly id: string; // 8 hexadecimal digits
  readonly purpose: "log" | "witness"; // which messages the key signs: note texts, or cosignature/v1
  readonly public: Bytes;
  /** The size of the largest checkpoint on which the signature counts. Without it, there is no bound. */
  readonly until?: number;
}

const ed25519 = 0x01;
const cosignatureV1 = 0x04;

/** Reads a verifier key of a log or of a witness. */
export async function parseVerifierKey(text: string): Promise<VerifierKey> {
  const parts = /^([^+\s]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+=*)$/.exec(text.trim());
  must(parts, "malformed", "this is not a verifier key, which looks like name+12345678+A…");
  const [, name = "", id = "", material = ""] = parts;
  const bytes = fromBase64(material);
  const algorithm = bytes[0];
  must(bytes.length === 33 && (algorithm === ed25519 || algorithm === cosignatureV1), "malformed", "this is not the verifier key of an Ed25519 key");
  const sum = await sha256(wtf8(name + "\n"), bytes);
  must(toHex(sum.slice(0, 4)) === id, "malformed", "this verifier key is damaged: its number is not that of the key");
  return { text: text.trim(), name, id, purpose: algorithm === ed25519 ? "log" : "witness", public: bytes.slice(1) };
}

/** Reads verifier keys that are given as texts or are already read. */
export function parseVerifierKeys(keys: readonly (string | VerifierKey)[]): Promise<VerifierKey[]> {
  return Promise.all(keys.map((key) => (typeof key === "string" ? parseVerifierKey(key) : Promise.resolve(key))));
}

const imported = new WeakMap<VerifierKey, Promise<CryptoKey>>();

/** Reports whether the key has signed the message. It throws an UnsupportedError without Ed25519 in WebCrypto. */
export async function verifySignature(key: VerifierKey, message: Bytes, signature: Bytes): Promise<boolean> {
  let usable: CryptoKey;
  try {
    const crypto = subtle();
    const importing = imported.get(key) ?? crypto.importKey("raw", key.public, { name: "Ed25519" }, false, ["verify"]);
    imported.set(key, importing);
    usable = await importing;
  } catch (error) {
    imported.delete(key);
    if (error instanceof UnsupportedError) throw error;
    throw new UnsupportedError("this program cannot check Ed25519 signatures; Chrome, Chromium, and Edge can from 137, Firefox from 129, Safari from 17, Node from 18.17");
  }
  return subtle().verify({ name: "Ed25519" }, usable, signature, message);
}

/** One signature line of a note. */
export interface NoteSignature {
  readonly name: string;
  readonly id: string;
  readonly bytes: Bytes; // without the key id
}

/** A signed note. Nothing is verified yet. */
export interface Note {
  readonly text: string; // with its last line end
  readonly signatures: readonly NoteSignature[];
}

const maxNote = 1 << 20; // characters
const maxSignatures = 100;

/** Reads a signed note. what names it in messages. */
export function parseNote(note: string | Uint8Array, what = "the note"): Note {
  const all = textOf(note, what);
  const malformed = `${what} is malformed`;
  must(all.length <= maxNote, "malformed", `${what} is too long`);
  // eslint-disable-next-line no-control-regex -- a note has no control characters but line ends
  must(!/[\u0000-\u0009\u000b-\u001f]|\p{Surrogate}/u.test(all), "malformed", `${malformed}: it has a control character`);
  const end = all.lastIndexOf("\n\n");
  must(end >= 0 && all.endsWith("\n") && end + 2 < all.length, "malformed", `${malformed}: it has no signature`);
  const lines = all.slice(end + 2, -1).split("\n");
  must(lines.length <= maxSignatures, "malformed", `${malformed}: it has more than ${maxSignatures} signatures`);
  const signatures = lines.map((line) => {
    const parts = /^— ([^+\s]+) ([A-Za-z0-9+/]+=*)$/u.exec(line);
    must(parts, "malformed", `${malformed}: ${shown(line)} is not a signature`);
    const bytes = fromBase64(parts[2]!);
    must(bytes.length > 4, "malformed", `${malformed}: a signature is too short`);
    return { name: parts[1]!, id: toHex(bytes.slice(0, 4)), bytes: bytes.slice(4) };
  });
  return { text: all.slice(0, end + 1), signatures };
}

/** Returns those of the keys that signed the note. A wrong signature in the name of one of them is an error. */
async function signersOf(note: Note, keys: readonly VerifierKey[], what: string): Promise<VerifierKey[]> {
  const signers: VerifierKey[] = [];
  for (const signature of note.signatures) {
    const key = keys.find((k) => k.purpose === "log" && k.name === signature.name && k.id === signature.id);
    if (!key) continue;
    const holds = await verifySignature(key, wtf8(note.text), signature.bytes);
    must(holds, "signature", `the signature does not hold: ${what} is not what ${key.name}+${key.id} signed`);
    signers.push(key);
  }
  return signers;
}

/** A checkpoint: what a log says about its tree. */
export interface Checkpoint extends Note {
  readonly origin: string;
  readonly size: number;
  readonly root: Hash;
  readonly note: string; // the whole signed note
}

/** Reads a checkpoint. Nothing is verified yet. */
export function parseCheckpoint(signed: string | Uint8Array): Checkpoint {
  const note = parseNote(signed, "the checkpoint");
  const [origin = "", size = "", root = "", ...extensions] = note.text.slice(0, -1).split("\n");
  must(origin !== "", "malformed", "the checkpoint is malformed: it has no origin");
  must(/^[A-Za-z0-9+/]{43}=$/.test(root), "malformed", `the checkpoint is malformed: its root is ${shown(root)}`);
  must(!extensions.includes(""), "malformed", "the checkpoint is malformed: it has an empty line");
  return { ...note, origin, size: count(size, "the checkpoint is malformed: its size"), root: fromBase64(root), note: textOf(signed, "the checkpoint") };
}

/** Verifies the log's signature and returns the key that signed as the origin (spec: Checkpoints). */
export async function verifyCheckpoint(checkpoint: Checkpoint, keys: readonly VerifierKey[]): Promise<VerifierKey> {
  const signers = await signersOf(checkpoint, keys, "the checkpoint");
  must(signers.length > 0, "wrong_key", "the checkpoint is signed with another key, so it says nothing about the log of this one; "
    + `it is signed by ${checkpoint.signatures.slice(0, 4).map((s) => `${s.name}+${s.id}`).join(", ")}`);
  const own = signers.filter((key) => key.name === checkpoint.origin);
  must(own.length > 0, "origin", `the checkpoint is of ${shown(checkpoint.origin)}, which did not sign it`);
  const counting = own.find((key) => key.until === undefined || checkpoint.size <= key.until);
  must(counting, "retired", `the checkpoint has size ${checkpoint.size}, but the key that signed it was retired at size ${own[0]!.until}`);
  return counting;
}

/** Reads a checkpoint and verifies the log's signature. */
export async function openCheckpoint(signed: string | Uint8Array, keys: readonly (string | VerifierKey)[]): Promise<Checkpoint & { signer: VerifierKey }> {
  const checkpoint = parseCheckpoint(signed);
  return { ...checkpoint, signer: await verifyCheckpoint(checkpoint, await parseVerifierKeys(keys)) };
}

/** A witness's statement that it saw the log only grow, up to this checkpoint. */
export interface Cosignature {
  readonly key: VerifierKey;
  readonly time: number; // seconds since 1970
}

/** Returns the cosignatures of known witnesses (cosignature/v1). A wrong one in the name of a known witness is an error. */
export async function cosignatures(checkpoint: Checkpoint, witnesses: readonly VerifierKey[]): Promise<Cosignature[]> {
  const found: Cosignature[] = [];
  for (const { name, id, bytes } of checkpoint.signatures) {
    const key = witnesses.find((k) => k.purpose === "witness" && k.name === name && k.id === id);
    if (!key || found.some((c) => c.key === key)) continue;
    must(bytes.length === 8 + 64, "signature", `the cosignature of ${name} has ${bytes.length} bytes instead of 72`);
    const time = new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0);
    must(time <= 1n << 53n, "signature", `the cosignature of ${name} has no possible time`);
    const message = concat(wtf8(`cosignature/v1\ntime ${time}\n`), wtf8(checkpoint.text));
    must(await verifySignature(key, message, bytes.slice(8)), "signature", `the cosignature does not hold: the checkpoint is not what ${name}+${id} cosigned`);
    found.push({ key, time: Number(time) });
  }
  return found;
}

/** One key of a log. */
interface LogKey {
  key: VerifierKey;
  replacedAt?: number;
}

/** Verifies the answer of GET log/key and returns the log's keys, the newest first. Every handover must be signed by both keys.
 * The sizes are only the server's claim: a walk of the log proves them. */
export async function parseLogKeys(text: string): Promise<VerifierKey[]> {
  const root = parseJSON(text);
  must(root instanceof Map && Array.isArray(root.get("retired")), "malformed", "log/key has no list retired");
  const newest = await parseVerifierKey(textMember(root, "verifier_key", "log/key"));
  must(root.get("origin") === newest.name, "malformed", "the origin of log/key is not that of its key");
  const keys: LogKey[] = [{ key: newest }];
  let bound = Infinity; // size of the previous change; changes are listed from the newest to the oldest
  for (const row of root.get("retired") as Value[]) {
    must(row instanceof Map, "malformed", "log/key lists a key that is not an object");
    const key = await parseVerifierKey(textMember(row, "verifier_key", "log/key"));
    const seq = (name: string): number | undefined => {
      const value = row.get(name);
      if (value === null || value === undefined) return undefined;
      must(value instanceof Numeral, "malformed", `${name} of log/key is not a number`);
      const n = count(value.token, `${name} of log/key`);
      must(n < bound, "malformed", `the changes of keys in log/key are not in their order`);
      bound = n;
      return n;
    };
    const until = seq("signed_up_to");
    const replacedAt = seq("replaced_at");
    must(replacedAt !== undefined, "malformed", "log/key lists a key without replaced_at");
    must(until !== undefined || keys.length === 1, "malformed", "log/key lists an older key that was never retired");
    must(!keys.some((k) => k.key.text === key.text), "malformed", "log/key lists a key twice");
    await verifyHandover(textMember(row, "handover", "log/key"), key, keys.at(-1)!.key);
    keys.push({ key: until === undefined ? key : { ...key, until }, replacedAt });
  }
  return keys.map((k) => k.key);
}

async function verifyHandover(handover: string, previous: VerifierKey, next: VerifierKey): Promise<void> {
  const note = parseNote(handover, "the handover");
  const text = `colophon key rotation v1\n${previous.name}\n${previous.text}\n${next.text}\n`;
  must(previous.name === next.name && note.text === text, "malformed", `the handover is not from ${previous.text} to ${next.text}`);
  const signers = await signersOf(note, [previous, next], "the handover");
  for (const key of [previous, next]) must(signers.includes(key), "wrong_key", `the handover has no signature by ${key.text}`);
}

/** Returns the keys to trust if one trusts a key of the log: that key and its successors. An earlier key may have been stolen since. */
export function keysFrom(keys: readonly VerifierKey[], trusted: VerifierKey): VerifierKey[] {
  const at = keys.findIndex((key) => key.text === trusted.text);
  if (at < 0) throw new VerificationError("key_changed", `the log's keys do not include ${trusted.text}, and no handover leads from it to ${keys[0]?.text ?? "any key"}`);
  return keys.slice(0, at + 1);
}

/** Returns a signed note with another signature. For tests, and for programs that collect cosignatures. */
export function addSignature(note: string, name: string, id: string, signature: Uint8Array): string {
  const idBytes = Uint8Array.from({ length: 4 }, (_, i) => parseInt(id.slice(2 * i, 2 * i + 2), 16));
  return `${note}— ${name} ${toBase64(concat(idBytes, signature))}\n`;
}
