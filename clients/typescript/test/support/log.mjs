// A log with entries, tiles, and signed checkpoints that needs no server. It uses only node:crypto.
import { createHash, createPrivateKey, createPublicKey, sign } from "node:crypto";

const sha256 = (...parts) => {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
};

/** A signing key with a name. algorithm is 1 for logs and 4 for witnesses. */
export class Signer {
  constructor(name, seed, algorithm = 1) {
    this.name = name;
    this.private = createPrivateKey({ key: Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), Buffer.alloc(32, seed)]), format: "der", type: "pkcs8" });
    const material = Buffer.concat([Buffer.from([algorithm]), createPublicKey(this.private).export({ format: "der", type: "spki" }).subarray(-32)]);
    this.id = sha256(Buffer.from(name + "\n"), material).subarray(0, 4);
    this.key = `${name}+${this.id.toString("hex")}+${material.toString("base64")}`;
  }

  line(signature) {
    return `— ${this.name} ${Buffer.concat([this.id, signature]).toString("base64")}\n`;
  }

  sign(text) {
    return this.line(sign(null, Buffer.from(text), this.private));
  }

  cosign(text, time) {
    const stamp = Buffer.alloc(8);
    stamp.writeBigUInt64BE(BigInt(time));
    return this.line(Buffer.concat([stamp, sign(null, Buffer.from(`cosignature/v1\ntime ${time}\n${text}`), this.private)]));
  }
}

const node = (left, right) => sha256(Buffer.from([1]), left, right);

function root(leaves) {
  if (leaves.length === 0) return sha256();
  if (leaves.length === 1) return leaves[0];
  let k = 1;
  while (2 * k < leaves.length) k *= 2;
  return node(root(leaves.slice(0, k)), root(leaves.slice(k)));
}

/** Returns an inclusion proof, by the definition in RFC 6962, 2.1.1. */
export function path(index, leaves) {
  if (leaves.length === 1) return [];
  let k = 1;
  while (2 * k < leaves.length) k *= 2;
  return index < k ? [...path(index, leaves.slice(0, k)), root(leaves.slice(k))] : [...path(index - k, leaves.slice(k)), root(leaves.slice(0, k))];
}

/** Returns a consistency proof, by the definition in RFC 6962, 2.1.2. */
export function consistency(first, leaves, whole = true) {
  if (first === leaves.length) return whole ? [] : [root(leaves)];
  let k = 1;
  while (2 * k < leaves.length) k *= 2;
  return first <= k ? [...consistency(first, leaves.slice(0, k), whole), root(leaves.slice(k))]
    : [...consistency(first - k, leaves.slice(k), false), root(leaves.slice(0, k))];
}

/** A log of events, each with a text. */
export class Log {
  entries = [];
  leaves = [];
  tip = Buffer.alloc(32);

  constructor(signer) {
    this.signer = signer;
  }

  /** Appends n events. */
  grow(n, text = "event") {
    for (let i = 0; i < n; i++) {
      const seq = this.leaves.length;
      const body = `{"actor":"lab","checks":{},"kind":"note","ledger":"default","record":{"text":"${text} ${seq}"},"rules":1,"seq":${seq},"time":"2026-01-02T03:04:05.000000Z","v":1}`;
      const entry = Buffer.concat([this.tip, Buffer.from(body)]);
      this.entries.push(entry);
      this.leaves.push(sha256(Buffer.from([0]), entry));
      this.tip = sha256(entry);
    }
    return this;
  }

  text(size = this.leaves.length) {
    return `${this.signer.name}\n${size}\n${root(this.leaves.slice(0, size)).toString("base64")}\n`;
  }

  checkpoint(size, ...others) {
    const text = this.text(size);
    return text + "\n" + this.signer.sign(text) + others.map((signer) => signer.sign(text)).join("");
  }

  receipt(seq, size = this.leaves.length) {
    const entry = this.entries[seq];
    const body = entry.subarray(32).toString();
    const hex = (bytes) => bytes.toString("hex");
    const inclusion = { leaf_index: seq, tree_size: size, hashes: path(seq, this.leaves.slice(0, size)).map(hex) };
    const head = { ledger: "default", seq, kind: "note", time: "2026-01-02T03:04:05.000000Z", event_hash: hex(sha256(entry)), prev_event_hash: hex(entry.subarray(0, 32)),
      leaf_hash: hex(this.leaves[seq]), hashes: {}, checks: {} };
    return `{${JSON.stringify(head).slice(1, -1)},"event":${body},"inclusion":${JSON.stringify(inclusion)},"checkpoint":${JSON.stringify(this.checkpoint(size))}}`;
  }

  /** Returns a tile of the log at its current size, as a server does. */
  fetch = async (name) => {
    const parts = /^tile\/(\d+)\/((?:x\d{3}\/)*\d{3})(?:\.p\/(\d+))?$/.exec(name);
    if (!parts) throw new Error(`not a tile path: ${name}`);
    const level = Number(parts[1]);
    const index = Number(parts[2].replaceAll(/[x/]/g, ""));
    const width = parts[3] === undefined ? 256 : Number(parts[3]);
    const under = 256 ** level;
    const hashes = [];
    for (let i = index * 256; i < index * 256 + width && (i + 1) * under <= this.leaves.length; i++) hashes.push(root(this.leaves.slice(i * under, (i + 1) * under)));
    return hashes.length === width ? Uint8Array.from(Buffer.concat(hashes)) : null;
  };
}

export { root, sha256 };
