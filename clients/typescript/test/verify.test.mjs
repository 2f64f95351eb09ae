import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import {
  ForkError, Pins, Tiles, UnsupportedError, VerificationError, consistencyRanges, cosignatures, fromHex, openCheckpoint, parseCheckpoint, parseLogKeys, parseVerifierKey, parseVerifierKeys,
  requireVerified, tilePath, toHex, verify, verifyConsistency, verifyInclusion,
} from "../dist/verify/index.js";
import { Log, Signer, consistency, path, root } from "./support/log.mjs";

const spec = readFileSync(new URL("../../../docs/spec/log.md", import.meta.url), "utf8");

/** Reads an example of the specification. */
function example(name) {
  const block = new RegExp("^```example " + name + "\\n(.*?)^```$", "ms").exec(spec)[1].replaceAll("\n  ", "");
  return Object.fromEntries(block.trim().split("\n").map((line) => line.split(/ += (.*)/s).slice(0, 2)));
}

const logKey = new Signer("log.example.com/texts", 7);
const failsWith = (code) => (error) => error instanceof VerificationError && error.code === code;

describe("the specification's examples", () => {
  const { verifier_key: key } = example("key");

  it("verifies the receipt and reports its path", async () => {
    const steps = [];
    const found = await verify(example("receipt").receipt, { keys: [key], onStep: (step) => steps.push(step) });
    assert.equal(found.verdict, "holds", JSON.stringify(found.steps));
    assert.deepEqual(found.steps.map((s) => s.name), ["format", "checkpoint", "signature", "event", "inclusion", "members"]);
    assert.equal(found.event.seq, 1);
    assert.equal(found.eventHash, example("chain").event_hash_1);
    assert.deepEqual(found.path.map((s) => [s.siblingSide, s.siblingRange, s.range]), [
      ["left", { start: 0, end: 1 }, { start: 0, end: 2 }], ["right", { start: 2, end: 3 }, { start: 0, end: 3 }]]);
    assert.equal(toHex(found.path[1].node), example("tree").root_3);
    assert.deepEqual(steps.filter((s) => s.verdict === "running").map((s) => s.path.length), [1, 2]);
    assert.deepEqual(found.uncovered, []);
  });

  it("verifies the tlog-proof", async () => {
    const found = await requireVerified(JSON.parse(example("tlog-proof").file), { keys: [key] });
    assert.equal(found.format, "tlog-proof");
    assert.equal(found.eventHash, example("chain").event_hash_1);
  });

  it("reads the handover and finds the key's successor", async () => {
    const { handover } = example("handover");
    const next = handover.split("\\n")[3];
    const logKeys = JSON.stringify({ origin: "log.example.com/texts", verifier_key: next, retired: [{ verifier_key: key, replaced_at: 2, signed_up_to: 5, handover: JSON.parse(handover) }] });
    const keys = await parseLogKeys(logKeys);
    assert.deepEqual(keys.map((k) => [k.text, k.until]), [[next, undefined], [key, 5]]);
    await assert.rejects(parseLogKeys(logKeys.replace("log.example.com/texts+", "log.example.com/other+")), failsWith("malformed"));
    await assert.rejects(parseLogKeys(logKeys.replace("/j+YQ4=", "/j+YQ8=")), failsWith("signature"));
    await assert.rejects(parseLogKeys(logKeys.replace("5Y06/bEg", "5Y06/bEh")), failsWith("signature"));
  });
});

describe("a changed receipt", () => {
  const log = new Log(logKey).grow(13);
  const receipt = log.receipt(5);
  const cases = [
    ["a minimal receipt", () => JSON.stringify(Object.fromEntries(Object.entries(JSON.parse(receipt)).slice(0, 9))), "format", "no_proof"],
    ["the event", (r) => r.replace('"text":"event 5"', '"text":"event 6"'), "event", "chain_link"],
    ["the previous hash", (r) => r.replace(/"prev_event_hash":"./, (m) => m.slice(0, -1) + (m.endsWith("0") ? "1" : "0")), "event", "chain_link"],
    ["the leaf hash", (r) => r.replace(/"leaf_hash":"./, (m) => m.slice(0, -1) + (m.endsWith("0") ? "1" : "0")), "event", "chain_link"],
    ["a hash of the path", (r) => r.replace(/"hashes":\["./, (m) => m.slice(0, -1) + (m.endsWith("0") ? "1" : "0")), "inclusion", "inclusion"],
    ["a path cut short", (r) => r.replace(/"hashes":\["[0-9a-f]{64}",/, '"hashes":['), "inclusion", "inclusion"],
    ["the index", (r) => r.replace('"leaf_index":5', '"leaf_index":4'), "format", "inclusion"],
    ["the size", (r) => r.replace('"tree_size":13', '"tree_size":12'), "checkpoint", "inclusion"],
    ["the signed size", (r) => r.replace("\\n13\\n", "\\n14\\n").replace('"tree_size":13', '"tree_size":14'), "signature", "signature"],
    ["the signature's key", (r) => r.replace("— log.example.com", "— log.example.org"), "signature", "wrong_key"],
    ["the origin", (r) => r.replace('"checkpoint":"log.example.com/texts\\n', '"checkpoint":"log.example.com/other\\n'), "signature", "signature"],
    ["a leading zero", (r) => r.replace("\\n13\\n", "\\n013\\n"), "checkpoint", "malformed"],
    ["the kind", (r) => r.replace('"kind":"note"', '"kind":"ipc_record"'), "members", "field"],
    ["the time", (r) => r.replace("03:04:05", "03:04:06"), "members", "field"],
    ["a check that the event lacks", (r) => r.replace('"checks":{}', '"checks":{"input_hash":{"result":"match"}}'), "members", "field"],
    ["a shape that the event lacks", (r) => r.replace('"hashes":{}', '"hashes":{},"shape":"quote"'), "members", "field"],
    ["what the record lacks", (r) => r.replace('"hashes":{}', '"hashes":{},"incomplete":["seed"]'), "members", "field"],
    ["a member twice", (r) => r.replace('"hashes":{}', '"hashes":{},"hashes":{}'), "format", "malformed"],
    ["no JSON", (r) => r.slice(0, -1), "format", "malformed"],
  ];
  for (const [what, change, step, code] of cases) {
    it(`fails: ${what}`, async () => {
      const changed = change(receipt);
      assert.notEqual(changed, receipt);
      const found = await verify(changed, { keys: [logKey.key] });
      assert.equal(found.verdict, "fails");
      assert.deepEqual([found.error.code, found.steps.find((s) => s.verdict === "fails").name], [code, step], found.error.message);
    });
  }

  it("verifies unchanged, in any spelling, and says which members have no proof", async () => {
    const spelled = receipt.replace('"seq":5', ' "seq" : 5').replace("{", '{"drift":{"cause":"seed"},"replayed":true,').replace('"event 5"', '"\\u0065vent 5"');
    const found = await requireVerified(spelled, { keys: [logKey.key] });
    assert.deepEqual(found.uncovered, ["drift", "replayed"]);
    assert.deepEqual(found.covered, ["ledger", "seq", "kind", "time", "event_hash", "prev_event_hash", "leaf_hash", "hashes", "checks", "event", "inclusion", "checkpoint"]);
  });

  it("is not changed by a number's spelling, which hashes differently", async () => {
    // The event hash covers the spelling of numbers, although 1.0 and 1 are the same number in JavaScript.
    const found = await verify(receipt.replace('"rules":1', '"rules":1.0'), { keys: [logKey.key] });
    assert.equal(found.error.code, "chain_link");
  });

  it("fails with another key, and with a key that was retired before", async () => {
    const other = new Signer("log.example.com/texts", 8);
    assert.equal((await verify(receipt, { keys: [other.key] })).error.code, "wrong_key");
    assert.equal((await verify(receipt, { keys: [{ ...(await parseVerifierKey(logKey.key)), until: 12 }] })).error.code, "retired");
    assert.equal((await verify(receipt, { keys: [{ ...(await parseVerifierKey(logKey.key)), until: 13 }] })).verdict, "holds");
  });
});

describe("witnesses", () => {
  const log = new Log(logKey).grow(3);
  const [w1, w2, w3] = [1, 2, 3].map((n) => new Signer(`witness.example/w${n}`, 40 + n, 4));
  const text = log.text();
  const note = log.checkpoint() + w1.cosign(text, 1767323045) + w2.cosign(text, 1767323046) + new Signer("unknown.example", 9, 4).cosign(text, 1);
  const receipt = log.receipt(1).replace(/"checkpoint":".*"/, () => `"checkpoint":${JSON.stringify(note)}`);

  it("counts the cosignatures of trusted witnesses", async () => {
    const witnesses = [w1.key, w2.key, w3.key];
    const found = await requireVerified(receipt, { keys: [logKey.key], witnesses, quorum: 2 });
    assert.deepEqual(found.cosignatures.map((c) => [c.key.name, c.time]), [["witness.example/w1", 1767323045], ["witness.example/w2", 1767323046]]);
    assert.equal((await verify(receipt, { keys: [logKey.key], witnesses, quorum: 3 })).error.code, "witnesses");
  });

  it("refuses a cosignature of another time, and does not take a log's signature for one", async () => {
    const signature = Buffer.from(w1.cosign(text, 5).split(" ")[2], "base64").subarray(4);
    signature[7] = 6;
    const parsed = parseCheckpoint(log.checkpoint() + w1.line(signature));
    await assert.rejects(cosignatures(parsed, await parseVerifierKeys([w1.key])), failsWith("signature"));
    const asLog = new Signer("witness.example/w1", 41, 1);
    const confused = parseCheckpoint(log.checkpoint(3, asLog));
    assert.deepEqual(await cosignatures(confused, await parseVerifierKeys([asLog.key])), []);
  });

  it("verifies the example of tlog-cosignature's format", async () => {
    await assert.rejects(openCheckpoint(note, [w1.key]), failsWith("wrong_key"), "a witness's key is not a log's");
  });
});

describe("proofs", () => {
  const log = new Log(logKey).grow(70);
  const hashes = log.leaves.map((leaf) => Uint8Array.from(leaf));

  it("verifies every inclusion proof up to size 70, and refuses changed ones", async () => {
    for (const size of [1, 2, 3, 4, 5, 7, 8, 13, 33, 64, 70]) {
      const whole = Uint8Array.from(root(log.leaves.slice(0, size)));
      for (let i = 0; i < size; i++) {
        const proof = path(i, log.leaves.slice(0, size)).map((h) => Uint8Array.from(h));
        await verifyInclusion(hashes[i], i, size, proof, whole);
        if (size > 1) await assert.rejects(verifyInclusion(hashes[i], (i + 1) % size, size, proof, whole), failsWith("inclusion"));
      }
      await assert.rejects(verifyInclusion(hashes[0], size, size, [], whole), failsWith("range"));
    }
  });

  it("verifies every consistency proof up to size 33, and refuses changed ones", async () => {
    for (let second = 1; second <= 33; second++) {
      const after = Uint8Array.from(root(log.leaves.slice(0, second)));
      for (let first = 1; first <= second; first++) {
        const before = Uint8Array.from(root(log.leaves.slice(0, first)));
        const proof = consistency(first, log.leaves.slice(0, second)).map((h) => Uint8Array.from(h));
        assert.equal(consistencyRanges(first, second).length, proof.length);
        await verifyConsistency(first, before, second, after, proof);
        if (proof.length === 0) continue;
        await assert.rejects(verifyConsistency(first, before, second, after, proof.slice(1)), failsWith("consistency"));
        for (let i = 0; i < proof.length; i++) {
          const changed = proof.map((h, j) => (i === j ? Uint8Array.from(h, (b, k) => (k === 5 ? b ^ 1 : b)) : h));
          await assert.rejects(verifyConsistency(first, before, second, after, changed), failsWith("consistency"), `${first} ${second} ${i}`);
        }
      }
    }
    await assert.rejects(verifyConsistency(0, hashes[0], 1, hashes[0], []), failsWith("range"));
  });

  it("computes the same proofs from tiles", async () => {
    const large = new Log(logKey).grow(700);
    const hex = (list) => list.map((h) => toHex(h));
    for (const size of [1, 2, 255, 256, 257, 511, 512, 513, 700]) {
      const tiles = new Tiles(large.fetch);
      const leaves = large.leaves.slice(0, size);
      assert.equal(toHex(await tiles.root(size)), root(leaves).toString("hex"));
      for (const i of [0, 1, 254, 255, 256, 300, 511, 512, 699].filter((n) => n < size)) {
        assert.deepEqual(hex(await tiles.inclusionProof(i, size)), path(i, leaves).map((h) => h.toString("hex")), `${i} ${size}`);
      }
      for (const first of [1, 2, 3, 200, 256, 257, 512, 600].filter((n) => n <= size)) {
        assert.deepEqual(hex(await tiles.consistencyProof(first, size)), consistency(first, leaves).map((h) => h.toString("hex")), `${first} ${size}`);
      }
    }
  });

  it("follows the path through tiles, and notices a changed tile", async () => {
    const large = new Log(logKey).grow(300);
    const receipt = large.receipt(290);
    const fetched = [];
    const found = await requireVerified(receipt, { keys: [logKey.key], tiles: new Tiles((name) => (fetched.push(name), large.fetch(name))) });
    assert.deepEqual(fetched.sort(), ["tile/0/001.p/44", "tile/1/000.p/1"]);
    assert.equal(found.path.length, path(290, large.leaves).length);
    const lying = async (name) => Uint8Array.from(await large.fetch(name), (b, i) => (i === 40 * 32 ? b ^ 1 : b));
    assert.equal((await verify(receipt, { keys: [logKey.key], tiles: new Tiles(lying) })).error.code, "inclusion");
    await assert.rejects(verify(receipt, { keys: [logKey.key], tiles: new Tiles(async () => { throw new Error("no network"); }) }), /no network/);
    assert.equal((await verify(receipt, { keys: [logKey.key], tiles: new Tiles(async () => null) })).error.code, "range");
    // The full tile is sufficient if the server no longer has the partial one.
    const grown = new Log(logKey).grow(600);
    const onlyFull = async (name) => (name.includes(".p/") && name.startsWith("tile/0/001") ? null : grown.fetch(name));
    await requireVerified(grown.receipt(290, 300), { keys: [logKey.key], tiles: new Tiles(onlyFull) });
  });

  it("verifies an old receipt against a later checkpoint", async () => {
    const grown = new Log(logKey).grow(600);
    const next = new Signer("log.example.com/texts", 9);
    const text = grown.text();
    const options = { keys: [next.key], checkpoint: text + "\n" + next.sign(text), tiles: new Tiles(grown.fetch) };
    const found = await requireVerified(grown.receipt(7, 300), options);
    assert.equal(found.checkpoint.size, 600);
    const forked = new Log(logKey).grow(290).grow(10, "other");
    assert.equal((await verify(forked.receipt(7, 300), options)).error.code, "consistency");
  });

  it("writes tile paths as tlog-tiles does", () => {
    assert.deepEqual([tilePath(1, 1234067, 256), tilePath(0, 0, 3), tilePath("entries", 1000, 256)], ["tile/1/x001/x234/067", "tile/0/000.p/3", "tile/entries/x001/000"]);
  });
});

describe("pins", () => {
  const stored = () => {
    const map = new Map();
    return { map, pins: new Pins({ get: (name) => map.get(name), set: (name, value) => void map.set(name, value) }) };
  };
  const log = new Log(logKey).grow(40);
  const prove = (of) => async (first, second) => consistency(first, of.leaves.slice(0, second)).map((h) => h.toString("hex"));

  it("remembers the largest checkpoint", async () => {
    const { pins } = stored();
    await assert.rejects(pins.remember(log.checkpoint(10), { prove: prove(log) }), failsWith("wrong_key"));
    await pins.pinKey(logKey.key);
    const changes = [];
    for (const size of [10, 10, 40, 20]) changes.push((await pins.remember(log.checkpoint(size), { prove: prove(log) })).change);
    assert.deepEqual(changes, ["first", "same", "grown", "older"]);
    assert.equal((await pins.checkpoint(logKey.name)).size, 40);
  });

  it("begins with an empty log", async () => {
    const { pins } = stored();
    await pins.pinKey(logKey.key);
    await pins.remember(log.checkpoint(0), { prove: prove(log) });
    assert.equal((await pins.remember(log.checkpoint(3), { prove: prove(log) })).change, "grown");
  });

  it("notices a fork, and keeps both checkpoints as evidence", async () => {
    for (const size of [30, 40, 50]) {
      const { pins, map } = stored();
      await pins.pinKey(logKey.key);
      await pins.remember(log.checkpoint(40), { prove: prove(log) });
      const kept = [...map];
      const fork = new Log(logKey).grow(25).grow(25, "other");
      const shown = fork.checkpoint(size);
      const error = await pins.remember(shown, { prove: prove(fork) }).then(() => null, (e) => e);
      assert.ok(error instanceof ForkError && error.code === "fork", String(error));
      assert.deepEqual(error.evidence, { remembered: log.checkpoint(40), shown });
      assert.deepEqual([...map], kept, "nothing new is remembered");
    }
  });

  it("notices a rollback, and does not take a failed request for one", async () => {
    const { pins } = stored();
    await pins.pinKey(logKey.key);
    await pins.remember(log.checkpoint(40), { prove: prove(log) });
    const refused = async () => { throw new Error("no network"); };
    await assert.rejects(pins.remember(log.checkpoint(30), { prove: refused, newest: true }), failsWith("rollback"));
    await assert.rejects(pins.remember(log.checkpoint(30), { prove: refused }), /no network/);
  });

  it("does not let a server evade the pins with another origin", async () => {
    const { pins, map } = stored();
    const answer = ({ name, key }) => JSON.stringify({ origin: name, verifier_key: key, retired: [] });
    const other = new Signer("log.example.com/others", 8);
    assert.equal((await pins.followKeys(answer(logKey), "https://ledger.example")).changed, "first");
    const kept = [...map];
    await assert.rejects(pins.followKeys(answer(other), "https://ledger.example"), failsWith("key_changed"));
    assert.deepEqual([...map], kept, "nothing new is remembered");
    assert.equal((await pins.followKeys(answer(logKey), "https://ledger.example")).changed, "same");
    assert.equal((await pins.followKeys(answer(other), "https://other.example")).changed, "first");
  });

  it("accepts a new key only from the old one", async () => {
    const next = new Signer("log.example.com/texts", 8);
    const text = `colophon key rotation v1\n${logKey.name}\n${logKey.key}\n${next.key}\n`;
    const handover = text + "\n" + next.sign(text) + logKey.sign(text);
    const answer = (signedUpTo, by = handover) => JSON.stringify({ origin: logKey.name, verifier_key: next.key,
      retired: [{ verifier_key: logKey.key, replaced_at: 12, signed_up_to: signedUpTo, handover: by }] });
    const { pins } = stored();
    const first = await pins.followKeys(JSON.stringify({ origin: logKey.name, verifier_key: logKey.key, retired: [] }));
    assert.equal(first.changed, "first");
    assert.equal((await pins.followKeys(answer(null))).changed, "rotated");
    assert.equal((await pins.key(logKey.name)).text, logKey.key, "while both sign, the old key stays pinned");
    const { keys } = await pins.followKeys(answer(20));
    assert.deepEqual(keys.map((k) => [k.text, k.until]), [[next.key, undefined], [logKey.key, 20]]);
    assert.equal((await pins.key(logKey.name)).text, next.key);
    // The pins refuse a key that replaces the new one without a handover, and a handover that the old key did not sign.
    await assert.rejects(pins.followKeys(JSON.stringify({ origin: logKey.name, verifier_key: logKey.key, retired: [] })), failsWith("key_changed"));
    await assert.rejects(pins.followKeys(answer(20, text + "\n" + next.sign(text))), failsWith("wrong_key"));
  });
});

describe("a runtime without Ed25519", () => {
  it("says that it cannot check, never that all holds", async () => {
    const importKey = crypto.subtle.importKey;
    const log = new Log(logKey).grow(2);
    try {
      crypto.subtle.importKey = () => Promise.reject(new DOMException("unknown", "NotSupportedError"));
      const found = await verify(log.receipt(1), { keys: [logKey.key] });
      assert.equal(found.verdict, "unchecked");
      assert.ok(found.error instanceof UnsupportedError);
      const changed = await verify(log.receipt(1).replace('"kind":"note"', '"kind":"x"'), { keys: [logKey.key] });
      assert.deepEqual([changed.verdict, changed.error.code], ["fails", "field"]);
    } finally {
      crypto.subtle.importKey = importKey;
    }
  });
});

describe("bad keys", () => {
  for (const [what, text] of [
    ["nonsense", "nonsense"], ["another id", logKey.key.replace(/\+[0-9a-f]{8}\+/, "+00000000+")], ["another algorithm", new Signer("a.example", 1, 6).key],
    ["too short", logKey.key.slice(0, -8)], ["base64 with other trailing bits", "a+00000000+AR=="],
  ]) {
    it(what, () => assert.rejects(parseVerifierKey(text), failsWith("malformed")));
  }

  it("refuses a hash in capitals", () => assert.throws(() => fromHex("AB".repeat(32)), failsWith("malformed")));
});
