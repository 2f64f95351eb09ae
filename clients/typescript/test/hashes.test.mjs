// The client computes the hashes of the vectors that CPython wrote and of the examples in the specification.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import * as hashes from "../dist/hashes/index.js";
import { canonical, compact, entryOf, eventHash, fromHex, leafHash, parseJSON, spaced, toHex, VerificationError, wtf8 } from "../dist/verify/index.js";
import { md5 } from "../dist/hashes/md5.js";

const root = new URL("../../../", import.meta.url);
// parseJSON keeps all digits of a number; JSON.parse would lose some.
const vectors = (name) => parseJSON(readFileSync(new URL(`testdata/vectors/${name}.json`, root), "utf8"));
const list = (value, name) => value.get(name).map((members) => Object.fromEntries(members));
const number = (n) => Number(n.token);
const plain = (value) => JSON.parse(canonical(value));

describe("canonical JSON", () => {
  const v = vectors("canonical-json");

  it("equals CPython's", async () => {
    for (const c of list(v, "values")) {
      assert.equal(canonical(parseJSON(c.json), compact), c.compact);
      assert.equal(canonical(parseJSON(c.json), spaced), c.spaced);
      assert.equal(await hashes.jsonHash(parseJSON(c.json), spaced), c.sha256_spaced);
    }
    for (const c of list(v, "lone_surrogates")) assert.equal(await hashes.jsonHash(parseJSON(c.json)), c.sha256_compact_wtf8);
  });

  it("refuses what the ledger refuses", () => {
    for (const c of list(v, "reject")) assert.throws(() => parseJSON(c.json), VerificationError, c.why);
    for (const text of ["", " ", "[1,]", "{,}", '{"a" 1}', "01", "1.", ".5", "+1", "NaN", "-Infinity", "tru", '"\t"', '"\\x"', '"', "[", "\ufeff1", "1 2", "{'a':1}", "1e400"]) {
      assert.throws(() => parseJSON(text), VerificationError, text);
    }
    assert.equal(canonical(parseJSON("1".repeat(4300))).length, 4300);
    assert.throws(() => parseJSON("-" + "1".repeat(4301)), VerificationError);
    assert.equal(canonical(parseJSON("1".repeat(4400) + "e-4399")), "1.1111111111111112");
  });

  it("prints the numbers of the specification", () => {
    const text = readFileSync(new URL("docs/spec/text-and-json.md", root), "utf8");
    const lines = /^```example numbers\n(.*?)^```$/ms.exec(text)[1].trim().split("\n");
    assert.ok(lines.length > 10);
    for (const line of lines) {
      const [number, form] = line.split(/ += /);
      assert.equal(canonical(parseJSON(number)), form);
    }
  });
});

describe("IPC records", () => {
  const v = vectors("ipc");

  it("hashes texts and payloads", async () => {
    for (const c of list(v, "system_prompts")) {
      assert.equal(hashes.systemPromptForm(c.text), c.normalised);
      assert.equal(await hashes.systemPromptHash(c.text), c.sha256);
    }
    for (const c of list(v, "outputs")) {
      assert.equal(hashes.outputForm(c.text), c.normalised);
      assert.equal(await hashes.outputHash(c.text), c.sha256);
    }
    for (const c of list(v, "payloads")) assert.equal(await hashes.inputHash(hashes.raw(c.json)), c.sha256, c.json);
  });

  it("computes ipc_id and ipc_id_advanced", async () => {
    for (const c of [...list(v, "ipc_ids"), ...list(v, "ipc_ids_advanced")]) {
      const environment = c.model_digest === undefined ? undefined : c;
      assert.equal(await hashes.ipcId({ ...c, temperature: hashes.raw(c.temperature_json) }, environment), c.sha256);
    }
  });

  it("keeps numbers that JavaScript loses only if they are given as text", async () => {
    assert.equal(hashes.toJSON({ a: hashes.float(1), b: 1.0, c: hashes.raw("[1e5]"), d: 123456789012345678901n, e: undefined, f: [undefined] }),
      '{"a":1.0,"b":1,"c":[1e5],"d":123456789012345678901,"f":[null]}');
    assert.notEqual(await hashes.inputHash({ weight: 1.0 }), await hashes.inputHash(hashes.raw('{"weight":1.0}')));
    assert.equal(await hashes.inputHash({ weight: hashes.float(1) }), await hashes.inputHash(hashes.raw('{"weight":1.0}')));
    assert.equal(hashes.toJSON({ at: new Date(0), text: "\ud800" }), '{"at":"1970-01-01T00:00:00.000Z","text":"\\ud800"}');
    for (const n of [1e21, 5e-324, -0, 0.1, 1e-7, 123456789]) assert.equal(hashes.toJSON(n), JSON.stringify(n));
    assert.throws(() => hashes.float(NaN), VerificationError);
  });

  it("computes the examples of the specification", async () => {
    const text = readFileSync(new URL("docs/spec/hashes.md", root), "utf8");
    const example = (name) => Object.fromEntries(new RegExp("^```example " + name + "\\n(.*?)^```$", "ms").exec(text)[1].replaceAll("\n  ", "").trim().split("\n").map((l) => l.split(/ += (.*)/s).slice(0, 2)));
    assert.equal(await hashes.seedlessInputHash(hashes.raw(example("seedless").payload)), example("seedless").seedless_input_hash);
    const axis = example("axis-payload");
    assert.equal(await hashes.inputHash(hashes.raw(axis.payload), "axis-payload-1"), axis.input_hash);
    const stages = example("stages");
    const base = { question_hash: await hashes.questionHash(JSON.parse(stages.question)), conversation_hash: await hashes.jsonHash(parseJSON(stages.messages)),
      context_root: await hashes.contextRoot(JSON.parse(stages.roots)) };
    const nodes = await hashes.buildNodes(hashes.raw(stages.inputs), base);
    assert.deepEqual(nodes, JSON.parse(stages.nodes).map(({ stage, hash }) => ({ stage, hash })));
    assert.equal(await hashes.nodesRoot(nodes), stages.root);
    assert.equal(await hashes.preflightHash(hashes.raw(example("preflight-legacy").payload)), example("preflight-legacy").hash);
    assert.equal(await hashes.cacheKey(JSON.parse(example("cache-key").dimensions)), example("cache-key").cache_key);
  });
});

describe("run-DAGs", () => {
  const v = vectors("run-dag");

  it("builds stages and roots", async () => {
    for (const [name, build] of [["build", hashes.buildNodes], ["reject", hashes.rejectNodes]]) {
      for (const c of v.get(name)) {
        const nodes = await build(c.get("inputs"));
        assert.deepEqual(nodes, c.get("dag").get("nodes").map((node) => Object.fromEntries(node)));
        assert.equal(await hashes.nodesRoot(nodes), c.get("dag").get("root"));
      }
    }
    for (const c of list(v, "merkle")) assert.equal(await hashes.nodesRoot(c.leaves.map((hash) => ({ hash }))), c.root);
    for (const c of list(v, "localize_failure")) assert.equal(hashes.failureStage(c.audit_mode, number(c.n_sources), number(c.n_quotes)), c.stage);
  });

  it("computes the other hashes", async () => {
    for (const c of list(v, "preflight")) assert.equal(await hashes.preflightHash(c.payload), c.sha256);
    for (const c of list(v, "questions")) {
      for (const [mode, hash] of [["equivalence_class", c.sha256], ["strict", c.sha256_strict]]) {
        assert.equal(hashes.questionForm(c.text, mode), c[mode], c.text);
        assert.equal(await hashes.questionHash(c.text, mode), hash);
      }
    }
    for (const c of list(v, "cache_keys")) {
      const dimensions = Object.fromEntries(c.dimensions.map((value, i) => [hashes.cacheDimensions[i], value]));
      assert.equal(await hashes.cacheKey(dimensions), c.sha256);
    }
    for (const c of list(v, "context_roots")) assert.equal(await hashes.contextRoot(c.document_roots), c.root);
    for (const c of list(v, "evidence_map_roots")) assert.equal(await hashes.evidenceMapRoot(c.evidence_ids), c.root);
    for (const c of list(v, "evidence_ids")) assert.equal(await hashes.evidenceId({ ...c, start: number(c.start), end: number(c.end) }), c.id);
    for (const c of list(v, "json_hashes")) assert.equal(await hashes.jsonHash(parseJSON(c.json)), c.sha256);
  });

  it("names shapes", () => {
    const quote = "question retrieval context prompt answer verify final_label".split(" ");
    assert.deepEqual([hashes.shapeOf(quote), hashes.shapeOf([quote[0], "preflight", ...quote.slice(1)]), hashes.shapeOf(["question", "preflight", "final_label"]), hashes.shapeOf(["x"])],
      ["quote", "quote", "reject", "unrecognised"]);
  });
});

describe("citations and paths", () => {
  it("hashes chunks, documents, and retrievals", async () => {
    const v = vectors("citations");
    for (const c of list(v, "chunks")) assert.equal(await hashes.chunkHash(c.text), c.hash);
    for (const c of list(v, "documents")) assert.equal(hashes.citationsDocument(c.citations), canonical(c.document));
    for (const c of list(v, "pinned_retrieval")) {
      assert.deepEqual(await hashes.pinnedRetrieval(plain(c.sources), c.required_chunk_hashes, number(c.top_k)), plain(c.chunks));
    }
  });

  it("computes fingerprints", () => {
    const v = vectors("paths");
    for (const c of list(v, "path_ids")) assert.deepEqual([hashes.pathId(c.route), hashes.pathId(c.route, 16)], [c.path_id, c.path_id_16]);
    for (const c of list(v, "contents")) {
      assert.deepEqual([hashes.contentFingerprint(c.content), hashes.rawContentFingerprint(c.content)], [c.content_fingerprint, c.raw_content_fingerprint]);
    }
  });

  it("computes MD5 of every length around a block", () => {
    for (let n = 0; n < 200; n++) {
      const bytes = randomBytes(n);
      assert.equal(md5(bytes), createHash("md5").update(bytes).digest("hex"));
    }
  });
});

describe("the chain", () => {
  it("links entries", async () => {
    const v = vectors("audit-chain");
    let tip = fromHex(v.get("genesis_prev_event_hash"));
    for (const c of list(v, "events")) {
      const entry = entryOf(tip, wtf8(canonical(c.body)));
      assert.equal(Buffer.from(entry).toString("hex"), c.entry_hex);
      tip = await eventHash(entry);
      assert.deepEqual([toHex(tip), toHex(await leafHash(entry))], [c.event_hash, c.leaf_hash]);
    }
  });
});
