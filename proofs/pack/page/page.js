"use strict";
var auditPack = (() => {
  var __defProp = Object.defineProperty;
  var __getOwnPropDesc = Object.getOwnPropertyDescriptor;
  var __getOwnPropNames = Object.getOwnPropertyNames;
  var __hasOwnProp = Object.prototype.hasOwnProperty;
  var __export = (target, all) => {
    for (var name in all)
      __defProp(target, name, { get: all[name], enumerable: true });
  };
  var __copyProps = (to, from, except, desc) => {
    if (from && typeof from === "object" || typeof from === "function") {
      for (let key of __getOwnPropNames(from))
        if (!__hasOwnProp.call(to, key) && key !== except)
          __defProp(to, key, { get: () => from[key], enumerable: !(desc = __getOwnPropDesc(from, key)) || desc.enumerable });
    }
    return to;
  };
  var __toCommonJS = (mod) => __copyProps(__defProp({}, "__esModule", { value: true }), mod);

  // proofs/pack/page/src/show.js
  var show_exports = {};
  __export(show_exports, {
    VerificationError: () => VerificationError,
    canonical: () => canonical,
    check: () => check,
    compact: () => compact,
    kinds: () => kinds,
    nodesRoot: () => nodesRoot,
    openAll: () => openAll,
    outputForm: () => outputForm,
    parseJSON: () => parseJSON,
    sha256: () => sha256,
    spaced: () => spaced,
    systemPromptForm: () => systemPromptForm,
    textHash: () => textHash,
    toHex: () => toHex,
    words: () => words,
    wtf8: () => wtf8
  });

  // clients/typescript/src/verify/errors.ts
  var VerificationError = class extends Error {
    constructor(code, message) {
      super(message);
      this.code = code;
    }
    code;
    name = "VerificationError";
  };
  var UnsupportedError = class extends VerificationError {
    name = "UnsupportedError";
    constructor(message) {
      super("unsupported", message);
    }
  };
  function must(holds2, code, message) {
    if (!holds2) throw new VerificationError(code, message);
  }
  function shown(text) {
    const short = text.length > 100 ? text.slice(0, 100) + "…" : text;
    return JSON.stringify(short);
  }

  // clients/typescript/src/verify/bytes.ts
  function fromBase64(text) {
    let binary;
    try {
      binary = atob(text);
    } catch {
      throw new VerificationError("malformed", "bytes are not written in base64");
    }
    must(btoa(binary) === text, "malformed", "bytes are not written in canonical base64");
    return Uint8Array.from(binary, (c) => c.charCodeAt(0));
  }
  function toHex(bytes) {
    let text = "";
    for (const b of bytes) text += b.toString(16).padStart(2, "0");
    return text;
  }
  function fromHex(text) {
    must(typeof text === "string" && /^[0-9a-f]{64}$/.test(text), "malformed", "a hash is not 64 lower-case hexadecimal digits");
    return Uint8Array.from({ length: 32 }, (_, i) => parseInt(text.slice(2 * i, 2 * i + 2), 16));
  }
  function concat(...parts) {
    const all = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
    let at = 0;
    for (const part of parts) {
      all.set(part, at);
      at += part.length;
    }
    return all;
  }
  function equal(a, b) {
    return a.length === b.length && a.every((byte, i) => byte === b[i]);
  }
  function subtle() {
    const found = globalThis.crypto?.subtle;
    if (!found) throw new UnsupportedError("this page has no cryptography here (WebCrypto); open it over https, from localhost, or as a file");
    return found;
  }
  async function sha256(...parts) {
    return new Uint8Array(await subtle().digest("SHA-256", concat(...parts)));
  }
  var encoder = new TextEncoder();
  function wtf8(text) {
    if (!/\p{Surrogate}/u.test(text)) return encoder.encode(text);
    const parts = [];
    for (const character of text) {
      const code = character.codePointAt(0);
      const lone = code >= 55296 && code <= 57343;
      parts.push(lone ? [224 | code >> 12, 128 | code >> 6 & 63, 128 | code & 63] : encoder.encode(character));
    }
    return concat(...parts);
  }
  function utf8Text(bytes) {
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      return null;
    }
  }
  function textOf(input, what) {
    if (typeof input === "string") return input;
    const text = utf8Text(input);
    must(text !== null, "malformed", `${what} is not valid UTF-8`);
    return text;
  }
  function count(text, what) {
    const n = Number(text);
    must(/^(0|[1-9]\d*)$/.test(text) && Number.isSafeInteger(n), "malformed", `${what} is ${shown(text)}, not a count below 2^53`);
    return n;
  }

  // clients/typescript/src/verify/json.ts
  var Numeral = class {
    constructor(token) {
      this.token = token;
    }
    token;
    /** Reports whether the number is an integer for the ledger: 1 is, 1.0 is not. */
    get isInteger() {
      return !/[.eE]/.test(this.token);
    }
    /** Returns an integer in plain decimal, or the shortest digits of a double as CPython prints them. */
    canonical() {
      return this.isInteger ? BigInt(this.token).toString() : float(Number(this.token));
    }
  };
  function float(value) {
    if (value === 0) return Object.is(value, -0) ? "-0.0" : "0.0";
    const [, sign = "", first = "", rest = "", exponent] = /^(-?)(\d)(?:\.(\d+))?e([+-]\d+)$/.exec(value.toExponential()) ?? [];
    const digits = first + rest;
    const point = Number(exponent);
    if (point < -4 || point >= 16) {
      return sign + first + (rest && "." + rest) + "e" + (point < 0 ? "-" : "+") + String(Math.abs(point)).padStart(2, "0");
    }
    if (point < 0) return sign + "0." + "0".repeat(-point - 1) + digits;
    return sign + digits.slice(0, point + 1).padEnd(point + 1, "0") + "." + (digits.slice(point + 1) || "0");
  }
  var maxDepth = 512;
  var maxDigits = 4300;
  var constants = /* @__PURE__ */ new Map([["true", true], ["false", false], ["null", null]]);
  var Parser = class {
    constructor(text) {
      this.text = text;
    }
    text;
    at = 0;
    depth = 0;
    document() {
      const value = this.value();
      this.space();
      must(this.at === this.text.length, "malformed", "not JSON: there is more after the value");
      return value;
    }
    /** Reads what a sticky pattern matches. */
    take(pattern, what) {
      pattern.lastIndex = this.at;
      const found = pattern.exec(this.text);
      must(found, "malformed", `not JSON: ${what} is missing at character ${this.at}`);
      this.at = pattern.lastIndex;
      return found[0];
    }
    space() {
      this.take(/[ \t\n\r]*/y, "space");
    }
    /** Reads a character and the space before it, if it is the next one. */
    next(character) {
      this.space();
      if (this.text[this.at] !== character) return false;
      this.at++;
      return true;
    }
    value() {
      this.space();
      const first = this.text[this.at];
      if (first === '"') return this.string();
      if (first === "{" || first === "[") {
        must(++this.depth <= maxDepth, "malformed", `the JSON has more than ${maxDepth} open brackets`);
        this.at++;
        const value = first === "{" ? this.object() : this.array();
        this.depth--;
        return value;
      }
      const word = this.take(/true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y, "a value");
      return constants.has(word) ? constants.get(word) : this.number(new Numeral(word));
    }
    number(n) {
      if (n.isInteger) {
        must(n.token.replace("-", "").length <= maxDigits, "malformed", `an integer has more than ${maxDigits} digits`);
      } else {
        must(Number.isFinite(Number(n.token)), "malformed", "a number is out of the range of doubles");
      }
      return n;
    }
    string() {
      let end = this.at + 1;
      while (this.text[end] !== '"') {
        must(end < this.text.length, "malformed", "not JSON: the end of a string is missing");
        end += this.text[end] === "\\" ? 2 : 1;
      }
      const token = this.text.slice(this.at, end + 1);
      this.at = end + 1;
      let value;
      try {
        value = JSON.parse(token);
      } catch {
      }
      must(typeof value === "string", "malformed", "not JSON: a string is malformed");
      return value;
    }
    array() {
      const list = [];
      if (this.next("]")) return list;
      do
        list.push(this.value());
      while (this.next(","));
      must(this.next("]"), "malformed", "not JSON: the end of an array is missing");
      return list;
    }
    object() {
      const members = /* @__PURE__ */ new Map();
      if (this.next("}")) return members;
      do {
        this.space();
        must(this.text[this.at] === '"', "malformed", "not JSON: a member name is missing");
        const name = this.string();
        must(!members.has(name), "malformed", `not JSON: an object has two members ${JSON.stringify(name)}`);
        must(this.next(":"), "malformed", "not JSON: a colon is missing");
        members.set(name, this.value());
      } while (this.next(","));
      must(this.next("}"), "malformed", "not JSON: the end of an object is missing");
      return members;
    }
  };
  function parseJSON(text) {
    return new Parser(text).document();
  }
  var shortEscapes = { '"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "	": "\\t" };
  function quoted(text) {
    const escape = (c) => shortEscapes[c] ?? "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0");
    return '"' + text.replace(/["\\\u0000-\u001f]/g, escape) + '"';
  }
  function byCodePoint(a, b) {
    for (let i = 0; ; ) {
      const x = a.codePointAt(i) ?? -1;
      const y = b.codePointAt(i) ?? -1;
      if (x !== y || x === -1) return x - y;
      i += x > 65535 ? 2 : 1;
    }
  }
  var compact = { comma: ",", colon: ":" };
  var spaced = { comma: ", ", colon: ": " };
  function canonical(value, form = compact) {
    if (value instanceof Numeral) return value.canonical();
    if (typeof value === "string") return quoted(value);
    if (Array.isArray(value)) return "[" + value.map((v) => canonical(v, form)).join(form.comma) + "]";
    if (value instanceof Map) {
      const names = [...value.keys()].sort(byCodePoint);
      return "{" + names.map((name) => quoted(name) + form.colon + canonical(value.get(name), form)).join(form.comma) + "}";
    }
    return String(value);
  }

  // clients/typescript/src/hashes/texts.ts
  var spaces = /* @__PURE__ */ new Set([9, 10, 11, 12, 13, 28, 29, 30, 31, 32, 133, 160, 5760, 8232, 8233, 8239, 8287, 12288]);
  for (let code = 8192; code <= 8202; code++) spaces.add(code);
  function isSpace(text, at) {
    return spaces.has(text.charCodeAt(at));
  }
  function strip(text) {
    let start = 0;
    let end = text.length;
    while (start < end && isSpace(text, start)) start++;
    while (end > start && isSpace(text, end - 1)) end--;
    return text.slice(start, end);
  }
  function words(text) {
    const list = [];
    for (let at = 0; at < text.length; ) {
      let end = at;
      while (end < text.length && !isSpace(text, end)) end++;
      if (end > at) list.push(text.slice(at, end));
      at = end + 1;
    }
    return list;
  }
  var lineEnd = /\r\n|[\n\r\u000b\u000c\u001c-\u001e\u0085\u2028\u2029]/;
  function systemPromptForm(text) {
    return strip(text.split(lineEnd).map(strip).join("\n"));
  }
  function outputForm(text) {
    return strip(text).replace(/ {2,}/g, " ");
  }
  async function textHash(text) {
    return toHex(await sha256(wtf8(text)));
  }
  function jsonHash(value, form = compact) {
    return textHash(canonical(value, form));
  }
  async function chunkHash(text) {
    return "sha256:" + await textHash(words(text).join(" "));
  }

  // clients/typescript/src/verify/note.ts
  var ed25519 = 1;
  var cosignatureV1 = 4;
  async function parseVerifierKey(text) {
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
  function parseVerifierKeys(keys) {
    return Promise.all(keys.map((key) => typeof key === "string" ? parseVerifierKey(key) : Promise.resolve(key)));
  }
  var imported = /* @__PURE__ */ new WeakMap();
  async function verifySignature(key, message, signature) {
    let usable;
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
  var maxNote = 1 << 20;
  var maxSignatures = 100;
  function parseNote(note, what = "the note") {
    const all = textOf(note, what);
    const malformed = `${what} is malformed`;
    must(all.length <= maxNote, "malformed", `${what} is too long`);
    must(!/[\u0000-\u0009\u000b-\u001f]|\p{Surrogate}/u.test(all), "malformed", `${malformed}: it has a control character`);
    const end = all.lastIndexOf("\n\n");
    must(end >= 0 && all.endsWith("\n") && end + 2 < all.length, "malformed", `${malformed}: it has no signature`);
    const lines = all.slice(end + 2, -1).split("\n");
    must(lines.length <= maxSignatures, "malformed", `${malformed}: it has more than ${maxSignatures} signatures`);
    const signatures = lines.map((line) => {
      const parts = /^— ([^+\s]+) ([A-Za-z0-9+/]+=*)$/u.exec(line);
      must(parts, "malformed", `${malformed}: ${shown(line)} is not a signature`);
      const bytes = fromBase64(parts[2]);
      must(bytes.length > 4, "malformed", `${malformed}: a signature is too short`);
      return { name: parts[1], id: toHex(bytes.slice(0, 4)), bytes: bytes.slice(4) };
    });
    return { text: all.slice(0, end + 1), signatures };
  }
  async function signersOf(note, keys, what) {
    const signers = [];
    for (const signature of note.signatures) {
      const key = keys.find((k) => k.purpose === "log" && k.name === signature.name && k.id === signature.id);
      if (!key) continue;
      const holds2 = await verifySignature(key, wtf8(note.text), signature.bytes);
      must(holds2, "signature", `the signature does not hold: ${what} is not what ${key.name}+${key.id} signed`);
      signers.push(key);
    }
    return signers;
  }
  function parseCheckpoint(signed) {
    const note = parseNote(signed, "the checkpoint");
    const [origin = "", size = "", root = "", ...extensions] = note.text.slice(0, -1).split("\n");
    must(origin !== "", "malformed", "the checkpoint is malformed: it has no origin");
    must(/^[A-Za-z0-9+/]{43}=$/.test(root), "malformed", `the checkpoint is malformed: its root is ${shown(root)}`);
    must(!extensions.includes(""), "malformed", "the checkpoint is malformed: it has an empty line");
    return { ...note, origin, size: count(size, "the checkpoint is malformed: its size"), root: fromBase64(root), note: textOf(signed, "the checkpoint") };
  }
  async function verifyCheckpoint(checkpoint, keys) {
    const signers = await signersOf(checkpoint, keys, "the checkpoint");
    must(signers.length > 0, "wrong_key", `the checkpoint is signed with another key, so it says nothing about the log of this one; it is signed by ${checkpoint.signatures.slice(0, 4).map((s) => `${s.name}+${s.id}`).join(", ")}`);
    const own = signers.filter((key) => key.name === checkpoint.origin);
    must(own.length > 0, "origin", `the checkpoint is of ${shown(checkpoint.origin)}, which did not sign it`);
    const counting = own.find((key) => key.until === void 0 || checkpoint.size <= key.until);
    must(counting, "retired", `the checkpoint has size ${checkpoint.size}, but the key that signed it was retired at size ${own[0].until}`);
    return counting;
  }

  // clients/typescript/src/verify/tree.ts
  function leafHash(entry) {
    return sha256([0], entry);
  }
  function nodeHash(left, right) {
    return sha256([1], left, right);
  }
  function split(n) {
    let k = 1;
    while (2 * k < n) k *= 2;
    return k;
  }
  function inclusionRanges(index, size) {
    must(
      Number.isSafeInteger(index) && Number.isSafeInteger(size) && index >= 0 && index < size,
      "range",
      `event ${index} is beyond the end of the signed tree, which has ${size} events`
    );
    const path = [];
    for (let start = 0, end = size; end - start > 1; ) {
      const middle = start + split(end - start);
      if (index < middle) {
        path.unshift({ start: middle, end });
        end = middle;
      } else {
        path.unshift({ start, end: middle });
        start = middle;
      }
    }
    return path;
  }
  async function followPath(leaf, index, size, path, onStep) {
    const ranges = inclusionRanges(index, size);
    must(path.length <= ranges.length, "inclusion", "its path in the tree is too long");
    must(path.length === ranges.length, "inclusion", "its path in the tree is too short");
    const steps = [];
    let node = leaf;
    let range = { start: index, end: index + 1 };
    for (const [i, sibling] of path.entries()) {
      const siblingRange = ranges[i];
      const left = siblingRange.start < range.start;
      node = left ? await nodeHash(sibling, node) : await nodeHash(node, sibling);
      range = left ? { start: siblingRange.start, end: range.end } : { start: range.start, end: siblingRange.end };
      const step2 = { sibling, siblingSide: left ? "left" : "right", siblingRange, node, range };
      steps.push(step2);
      onStep?.(step2);
    }
    return steps;
  }
  async function verifyInclusion(leaf, index, size, path, root, onStep) {
    const steps = await followPath(leaf, index, size, path, onStep);
    const reached = steps.at(-1)?.node ?? leaf;
    must(
      equal(reached, root),
      "inclusion",
      `the path does not lead to the signed root: it leads to ${toHex(reached)}, and the checkpoint signs ${toHex(root)}; the event or its proof was changed, or it is not in the log`
    );
    return steps;
  }
  async function runRoot(leaves) {
    must(leaves.length > 0, "malformed", "a run has no stages");
    let level = await Promise.all(leaves.map((leaf) => sha256([0], leaf)));
    while (level.length > 1) {
      const next = [];
      for (let i = 0; i < level.length; i += 2) next.push(await sha256([3], level[i], level[i + 1] ?? level[i]));
      level = next;
    }
    return level[0];
  }

  // clients/typescript/src/hashes/records.ts
  async function nodesRoot(nodes) {
    return toHex(await runRoot(nodes.map((node) => fromHex(node.hash))));
  }
  var quote = "question retrieval context prompt answer verify final_label".split(" ");
  var pointer = "question retrieval evidence_map prompt raw_answer parsed_claim_lattice verify render final_label".split(" ");

  // clients/typescript/src/hashes/recompute.ts
  var Recomputation = class {
    /** contents are texts by name, of those pieces of content that are known and valid UTF-8. */
    constructor(members, contents) {
      this.members = members;
      this.contents = contents;
    }
    members;
    contents;
    hashes = /* @__PURE__ */ new Map();
    async fromText(name, content, form) {
      const text = this.contents.get(content);
      if (text !== void 0) this.hashes.set(name, await textHash(form(text)));
    }
    async fromJSON(name, content, form) {
      const text = this.contents.get(content);
      if (text !== void 0) this.hashes.set(name, await jsonHash(parseJSON(text), form));
    }
    async ipc() {
      if (!this.members.has("payload_schema")) await this.fromJSON("input_hash", "payload", spaced);
      await this.fromText("system_prompt_hash", "system_prompt", systemPromptForm);
      await this.fromText("output_hash", "output", outputForm);
      const hashes = membersOf(this.members.get("hashes"));
      const number = (name) => {
        const value = this.members.get(name);
        return value instanceof Numeral ? value.canonical() : void 0;
      };
      const chain = ["input_hash", "system_prompt_hash", "output_hash"].map((name) => hashes.get(name));
      const numbers = ["temperature", "max_tokens", "seed"].map(number);
      if (!chain.every((hash) => typeof hash === "string") || numbers.includes(void 0)) return;
      const parts = [chain[0], chain[1], this.members.get("model"), ...numbers];
      this.hashes.set("ipc_id", await textHash(parts.map(textOrNone).join(":")));
      const environment = membersOf(this.members.get("environment"));
      const place = ["ollama_build_hash", "model_digest", "host_platform"].map((name) => environment.get(name));
      if (place.every((part) => typeof part === "string")) this.hashes.set("ipc_id_advanced", await textHash([...parts, ...place].map(textOrNone).join(":")));
    }
    async runDAG() {
      const nodes = listOf(this.members.get("nodes"));
      this.hashes.set("root", await nodesRoot(nodes.map((node) => ({ hash: textOrNone(node.get("hash")) }))));
      await this.fromJSON("conversation_hash", "messages", compact);
      await this.fromJSON("governance_policy_hash", "policy", compact);
      await this.fromJSON("verifier_policy_hash", "verifier_policy", compact);
      const inputs = membersOf(this.contents.has("inputs") ? parseJSON(this.contents.get("inputs")) : void 0);
      const place = (stage) => nodes.findIndex((node) => node.get("stage") === stage);
      let answer = inputs.get("answer_text") ?? this.contents.get("answer_text");
      let at = place("answer");
      if (at < 0) {
        at = place("render");
        answer = inputs.get("rendered_text") ?? answer;
      }
      if (at >= 0 && typeof answer === "string") this.hashes.set(`nodes/${at}`, await textHash(answer));
    }
    async citationSet() {
      for (const i of listOf(this.members.get("citations")).keys()) {
        const text = this.contents.get(`citations/${i}/text`);
        if (text !== void 0) this.hashes.set(`citations/${i}`, await chunkHash(text));
      }
    }
  };
  function membersOf(value) {
    return value instanceof Map ? value : /* @__PURE__ */ new Map();
  }
  function textOrNone(value) {
    return typeof value === "string" ? value : "";
  }
  function listOf(value) {
    return Array.isArray(value) ? value.map(membersOf) : [];
  }
  async function recompute(kind, record, contents) {
    const found = new Recomputation(record, contents);
    if (kind === "ipc_record") await found.ipc();
    if (kind === "run_dag") await found.runDAG();
    if (kind === "citation_set") await found.citationSet();
    return found.hashes;
  }
  function namedHashes(kind, record) {
    const text = (value) => typeof value === "string" ? value : null;
    const hashes = new Map([...membersOf(record.get("hashes"))].map(([name, hash]) => [name, text(hash)]));
    if (kind === "run_dag") listOf(record.get("nodes")).forEach((node, i) => hashes.set(`nodes/${i}`, text(node.get("hash"))));
    if (kind === "citation_set") listOf(record.get("citations")).forEach((citation, i) => hashes.set(`citations/${i}`, text(citation.get("chunk_hash"))));
    return hashes;
  }

  // proofs/pack/page/src/verify.js
  var holds = "holds";
  var fails = "fails";
  var unchecked = "unchecked";
  var kinds = {
    ledger_created: "the ledger was created",
    ipc_record: "how one text was generated (IPC record)",
    run_dag: "the stages of a run (run-DAG)",
    citation_set: "what an answer rests on (citation set)",
    path_fingerprint: "a path and its content (path fingerprint)",
    record_state_changed: "a record’s state was changed",
    path_validated: "a path was validated",
    source_registered: "a source was registered",
    source_revoked: "a source was revoked",
    content_redacted: "content was erased",
    record_refused: "a record was refused",
    key_rotated: "the signing key was changed",
    note: "a note on a record"
  };
  function need(condition, message) {
    must(condition, "malformed", message);
  }
  async function step(steps, name, check2) {
    try {
      steps.push({ name, verdict: holds, says: await check2() });
      return true;
    } catch (error) {
      const says = error instanceof VerificationError ? error.message : "the pack is malformed: " + error.message;
      steps.push({ name, verdict: error instanceof UnsupportedError ? unchecked : fails, says });
      return false;
    }
  }
  function worst(steps) {
    return [fails, unchecked].find((verdict) => steps.some((s) => s.verdict === verdict)) ?? holds;
  }
  var Verification = class {
    constructor(pack, key) {
      this.pack = pack;
      this.key = key;
      this.steps = [];
      this.records = [];
      this.bySeq = /* @__PURE__ */ new Map();
      this.contents = /* @__PURE__ */ new Map();
      this.used = /* @__PURE__ */ new Set();
    }
    async run() {
      if (!await step(this.steps, "The file", () => this.form())) return this;
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
  };
  var RecordVerification = class {
    constructor(whole, record) {
      this.whole = whole;
      this.record = record;
      this.steps = [];
      this.event = null;
      this.pieces = [];
      this.hashes = [];
      this.refuted = [];
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
      if (this.record.redacted_by !== void 0) await step(this.steps, "The erasure", () => this.erased());
      for (const [name, named] of members.get("content") ?? []) await this.keep(name, named);
      await step(this.steps, "The hashes", () => this.recomputed());
    }
    async keep(name, named) {
      const piece = { name, size: 0, digest: "", bytes: null, changed: false, erased: this.record.redacted_by !== void 0 };
      this.pieces.push(piece);
      const there = named instanceof Map && Object.hasOwn(this.whole.pack.contents, named.get("sha256"));
      if (named instanceof Map) [piece.digest, piece.size] = [named.get("sha256"), named.get("size")?.token];
      if (piece.erased || !there) return;
      piece.changed = !await step(this.steps, "Content " + name, async () => {
        const bytes = await this.whole.piece(piece.digest);
        need(String(bytes.length) === piece.size, "it has " + bytes.length + " bytes, the event says " + piece.size);
        piece.bytes = bytes;
        return "The kept bytes have the digest that the event names.";
      });
    }
    // erased checks that an event of the log says so.
    erased() {
      const by = this.record.redacted_by, event = this.whole.bySeq.get(by)?.event;
      need(event, "event " + by + ", which is said to have erased the content, is not in this file");
      const seqs = event.get("record").get("seqs"), number = (value) => Number(value.token);
      const covers = (e) => Array.isArray(e) ? number(e[0]) <= this.record.seq && this.record.seq <= number(e[1]) : number(e) === this.record.seq;
      need(event.get("kind") === "content_redacted" && Array.isArray(seqs) && seqs.some(covers), "event " + by + " did not erase the content of this record");
      return "The content was erased. Event " + by + " of the log says so.";
    }
    async recomputed() {
      const kind = this.event.get("kind"), members = this.event.get("record"), checks = this.event.get("checks") ?? /* @__PURE__ */ new Map();
      const contents = /* @__PURE__ */ new Map();
      for (const piece of this.pieces) {
        const text = piece.bytes && utf8Text(piece.bytes);
        if (typeof text === "string") contents.set(piece.name, text);
      }
      for (const [name, check2] of checks) {
        if (check2.get("result") === "mismatch") this.refuted.push({ name, claimed: check2.get("claimed"), computed: check2.get("computed") });
      }
      const found = await recompute(kind, members, contents);
      const named = namedHashes(kind, members), wrong = [];
      for (const [name, stated] of named) {
        const check2 = checks.get(checkName(name, members)), result = check2?.get("result") ?? "";
        this.hashes.push({ name, stated, recomputed: found.has(name), holds: found.get(name) === stated, result });
        if (found.has(name) && found.get(name) !== stated) wrong.push(name + ": the event says " + stated + ", its content gives " + found.get(name));
        if (result === "mismatch" && check2.get("computed") && check2.get("computed") !== stated) wrong.push(name + ": the event says that another hash was computed");
      }
      need(wrong.length === 0, wrong.join("; "));
      if (named.size === 0) return "The event names no hashes of content.";
      const n = this.hashes.filter((hash) => hash.recomputed).length;
      return n + " of the " + named.size + " hashes in the event were computed again here, and agree.";
    }
  };
  function isEventTime(text) {
    const time = new Date(text);
    return /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/.test(text) && !Number.isNaN(time.getTime()) && time.toISOString().slice(0, 19) === text.slice(0, 19);
  }
  function checkName(name, members) {
    const [list, i] = name.split("/");
    if (list === "citations") return name + "/chunk_hash";
    if (list !== "nodes") return name;
    const stages = members.get("nodes").map((node) => node.get("stage"));
    return stages.indexOf(stages[i]) === Number(i) ? "stage:" + stages[i] : "";
  }

  // proofs/pack/page/src/show.js
  function element(name, className, ...children) {
    const made = document.createElement(name);
    if (className) made.className = className;
    made.append(...children.filter((child) => child !== null));
    return made;
  }
  function foreign(text, className) {
    return element("bdi", className, String(text));
  }
  function byId(id) {
    return document.getElementById(id);
  }
  var marks = {
    holds: ["✓", "holds: "],
    fails: ["✗", "does not hold: "],
    unchecked: ["?", "not checked: "]
  };
  function mark(verdict) {
    const [sign, words2] = marks[verdict], made = element("span", "mark", sign);
    made.setAttribute("role", "img");
    made.setAttribute("aria-label", words2);
    return made;
  }
  function stepsOf(steps) {
    const list = element("ul", "steps");
    for (const step2 of steps) {
      list.append(element("li", step2.verdict, mark(step2.verdict), element("span", "", element("strong", "", foreign(step2.name), ": "), foreign(step2.says))));
    }
    return list;
  }
  function describe(list, rows) {
    list.replaceChildren(...rows.filter(([, value]) => value).flatMap(([name, value]) => [element("dt", "", name), element("dd", "", foreign(value))]));
    return list;
  }
  function table(label, heads, rows) {
    const head = element("tr", "", ...heads.map((text) => {
      const cell = element("th", "", text);
      cell.scope = "col";
      return cell;
    }));
    const body = rows.map((cells) => element("tr", "", ...cells.map((cell) => element("td", "", cell))));
    const made = element("table", "", element("thead", "", head), element("tbody", "", ...body));
    made.setAttribute("aria-label", label);
    return made;
  }
  var origins = {
    match: "computed by the ledger, and claimed by the writer",
    mismatch: "computed by the ledger; the writer claimed another",
    computed: "computed by the ledger",
    claimed: "claimed by the writer"
  };
  function indented(value, indent) {
    const deeper = indent + "  ", between = ",\n" + deeper;
    if (Array.isArray(value) && value.length > 0) return "[\n" + deeper + value.map((v) => indented(v, deeper)).join(between) + "\n" + indent + "]";
    if (!(value instanceof Map) || value.size === 0) return canonical(value, spaced);
    return "{\n" + deeper + [...value].map(([name, v]) => quoted(name) + ": " + indented(v, deeper)).join(between) + "\n" + indent + "}";
  }
  function plain(value) {
    return typeof value === "string" ? value : indented(value, "");
  }
  function hashTable(record) {
    const rows = record.hashes.map((hash) => {
      const by = hash.recomputed ? "computed here" : origins[hash.result] ?? "no check of its own";
      return [foreign(hashLabel(hash.name, record.event)), foreign(hash.stated ?? "none", "hash"), hash.stated === null ? "" : (!hash.recomputed ? "" : hash.holds ? "✓ " : "✗ ") + by];
    });
    return rows.length ? [element("h3", "", "Hashes"), table("Hashes", ["of", "hash", "known from"], rows)] : [];
  }
  function claimTable(record) {
    const rows = record.refuted.map((claim) => [foreign(claim.name), foreign(claim.claimed ?? "none", "hash"), foreign(claim.computed ?? "none", "hash")]);
    return rows.length ? [element("h3", "", "Claims of the writer that did not hold"), table("Claims that did not hold", ["of", "claimed", "computed by the ledger"], rows)] : [];
  }
  function hashLabel(name, event) {
    const [list, i] = name.split("/"), members = event.get("record");
    if (list === "nodes") return "stage " + members.get("nodes")[i].get("stage");
    if (list === "citations") return "chunk of " + members.get("citations")[i].get("source_id");
    return name;
  }
  function contentOf(record) {
    return record.pieces.flatMap((piece) => {
      const title = element("h3", "", "Content: ", foreign(piece.name), " (" + piece.size + " bytes)");
      if (piece.bytes) {
        const text = utf8Text(piece.bytes), shown2 = element("pre", "", text ?? toHex(piece.bytes));
        shown2.dir = "auto";
        shown2.tabIndex = 0;
        return [title, text === null ? element("p", "", "Not valid UTF-8; its bytes in hexadecimal:") : null, shown2];
      }
      const why = piece.erased ? "Erased. Its digest stays in the event: " : piece.changed ? "Changed, and therefore not shown. The event names the digest " : "Not in this file. Its digest is in the event: ";
      return [title, element("p", "", why, foreign(piece.digest, "hash"))];
    }).filter((part) => part !== null);
  }
  var shownElsewhere = /* @__PURE__ */ new Set(["content", "hashes", "nodes", "citations"]);
  function eventOf(record) {
    const { event } = record, members = event.get("record");
    const rows = [["recorded", event.get("time")], ["by", event.get("actor")]];
    for (const [name, value] of members) {
      if (!shownElsewhere.has(name)) rows.push([foreign(name), plain(value)]);
    }
    const whole = element("details", "", element("summary", "", "The event, word for word"), element("pre", "", indented(event, "")));
    return [element("h3", "", "What the event says"), describe(element("dl"), rows), ...hashTable(record), ...claimTable(record), ...contentOf(record), whole];
  }
  function showRecord(record) {
    const verdict = worst(record.steps), { event } = record;
    const kind = event ? kinds[event.get("kind")] ?? event.get("kind") : "it could not be read";
    const run = event?.get("record").get("run_id");
    const title = element("summary", "", mark(verdict), " ", element("strong", "", "Event " + record.record.seq), ": ", foreign(kind), element(
      "span",
      "quiet",
      event ? ", recorded " + event.get("time") : "",
      run ? ", run " : "",
      run ? foreign(run) : "",
      refuted(record.refuted.length)
    ));
    const made = element("details", "record " + verdict, title, stepsOf(record.steps));
    made.dataset.seq = record.record.seq;
    made.addEventListener("toggle", () => fill(made, record));
    if (verdict === fails) made.open = true;
    return made;
  }
  function refuted(n) {
    return n === 0 ? "" : n === 1 ? "; one claim of the writer did not hold" : "; " + n + " claims of the writer did not hold";
  }
  function fill(shown2, record) {
    if (shown2.dataset.filled || !record.event) return;
    shown2.dataset.filled = "yes";
    shown2.append(...eventOf(record));
  }
  var contentSays = {
    included: "with their content as far as it is not erased",
    "left out": "without their content, which whoever made the file left out",
    "no right": "without their content, which whoever made the file may not read"
  };
  function showVerdict(done) {
    const n = done.records.length, all = n === 1 ? "The record" : "All " + n + " records";
    const first = done.steps.find((s) => s.verdict === fails), bad = done.records.filter((record) => worst(record.steps) === fails);
    const words2 = {
      verified: ["✓ Verified", all + " in this file " + (n === 1 ? "is" : "are") + " in the log that the key you gave signs, unchanged."],
      consistent: ["Consistent, but whose?", all + " in this file agree" + (n === 1 ? "s" : "") + " with the key that the file brings along. To know that it is the ledger’s, compare it with one that you trust: paste that below."],
      unchecked: ["Not checked", "This browser cannot check all of it: " + (done.steps.find((s) => s.verdict === unchecked)?.says ?? "")],
      failed: ["✗ Not verified", first ? first.name + ": " + first.says : bad.length + " of " + n + " records do not hold: event " + bad.map((r) => r.record.seq).slice(0, 10).join(", ") + "."]
    }[done.verdict()];
    document.documentElement.className = done.verdict();
    document.documentElement.dataset.verdict = done.verdict();
    byId("verdict-title").textContent = words2[0];
    byId("verdict-says").replaceChildren(foreign(words2[1]));
  }
  function showAll(done) {
    const { pack, checkpoint, signer } = done;
    byId("whole").replaceChildren(...stepsOf(done.steps).children);
    if (checkpoint) {
      describe(byId("log"), [
        ["log", checkpoint.origin],
        ["events in it", String(checkpoint.size)],
        ["signed with", signer?.text ?? ""],
        ["this file’s key", signer && !done.key ? "" : (pack.verifier_keys ?? []).join(" ")]
      ]);
    }
    if (done.records.length > 0) {
      document.title = "Audit pack of " + pack.ledger;
      byId("about").replaceChildren("Ledger ", foreign(pack.ledger), ", file made ", foreign(pack.exported), ", " + done.records.length + " records.");
      byId("records-says").textContent = "In the order of the log, " + (contentSays[pack.content] ?? "") + ".";
    }
    byId("records").replaceChildren(...done.records.map(showRecord));
    showVerdict(done);
  }
  function openAll() {
    for (const shown2 of document.querySelectorAll("details.record")) shown2.dispatchEvent(new Event("toggle"));
    for (const shown2 of document.querySelectorAll("details")) shown2.open = true;
  }
  function encoded(pack) {
    return JSON.stringify(pack).replace(/[<>&\u2028\u2029]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
  }
  var latest = 0;
  async function check(key) {
    const turn = ++latest;
    const text = byId("pack").textContent;
    let pack = null;
    try {
      pack = JSON.parse(text);
    } catch {
    }
    const done = new Verification(pack ?? {}, key);
    if (pack && encoded(pack) !== text) done.steps.push({ name: "The data", verdict: fails, says: "it is not in its canonical form" });
    if (!globalThis.crypto?.subtle) {
      done.steps.push({ name: "The browser", verdict: unchecked, says: "it offers no cryptography here; open the file from your disk, or over https" });
    } else {
      await done.run();
    }
    if (turn === latest) showAll(done);
    return done.verdict();
  }
  byId("key-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const key = byId("key").value.trim();
    byId("key-says").textContent = "";
    try {
      if (key) await parseVerifierKey(key);
      await check(key);
    } catch (error) {
      byId("key-says").textContent = error.message;
    }
  });
  addEventListener("beforeprint", openAll);
  check("");
  return __toCommonJS(show_exports);
})();
