import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs, { mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, rmdirSync, statSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it, mock } from "node:test";
import { fileURLToPath } from "node:url";
import { Ledger as BrowserLedger } from "../dist/browser.js";
import { Ledger, LedgerError, UnreachableError, raw, withColophon, withLabels } from "../dist/index.js";
import { FileSpool } from "../dist/client/spool.js";
import { StoreFullError } from "../dist/client/store.js";
import { inputHash, outputHash } from "../dist/hashes/index.js";
import { verify, VerificationError } from "../dist/verify/index.js";
import { Log, Signer } from "./support/log.mjs";
import { Server, eventually, receiptOf, standIn } from "./support/server.mjs";

const scratch = mkdtempSync(join(tmpdir(), "colophon-ts-client-"));
after(() => rmSync(scratch, { recursive: true, force: true }));
let folders = 0;
const folder = () => join(scratch, String(++folders));
const record = (n, others) => ({ model: "m", payload: { n }, output: `text ${n}`, ...others });
const segments = (ledgerFolder) => readdirSync(ledgerFolder, { recursive: true }).filter((name) => /node-\d+.*\.ndjson$/.test(name) && !name.includes("rejected"));
const quiet = { warn: () => undefined };
const program = fileURLToPath(new URL("support/program.mjs", import.meta.url));

function run(...args) {
  const child = spawn(process.execPath, [program, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  child.text = "";
  child.stdout.on("data", (data) => (child.text += data));
  child.ended = new Promise((resolve) => child.on("exit", (code, signal) => resolve(signal ?? code)));
  return child;
}

describe("with a real server", () => {
  let server;
  before(async () => {
    server = await new Server().start();
  });
  after(() => server.remove());

  it("records in the background, with the hashes that are computed here", async () => {
    const spool = folder();
    const receipts = [];
    const ledger = new Ledger({ url: server.url, spool, verifierKeys: [await server.key()], labels: { service: "test" }, producer: "p", onReceipt: (r, text) => receipts.push([r, text]), ...quiet });
    const payload = { question: "Who?", weight: raw("1.0") };
    assert.equal(ledger.record("ipc_record", { model: "gemma2:2b", payload, system_prompt: "Be brief.", output: " An  answer. ", temperature: 0, max_tokens: 10, seed: 7, labels: { a: "b" }, run_id: null }), true);
    assert.equal(ledger.record("note", { record_seq: 99999, topic: "t", text: "no such record" }), true);
    assert.equal(await ledger.flush(20_000), true);
    const [[receipt, text]] = receipts;
    assert.equal(receipt.hashes.input_hash, await inputHash(raw('{"question":"Who?","weight":1.0}')));
    assert.equal(receipt.hashes.output_hash, await outputHash(" An  answer. "));
    assert.equal((await verify(text, { keys: [await server.key()] })).verdict, "holds");
    assert.deepEqual(receipt.event.record.labels, { a: "b", service: "test" });
    assert.match(receipt.event.record.producer.id, /^p\/[0-9a-f]{8}$/);
    const { accepted, recorded, rejected, unverified, dropped } = ledger.stats();
    assert.deepEqual({ accepted, recorded, rejected, unverified, dropped }, { accepted: 2, recorded: 1, rejected: 1, unverified: 0, dropped: 0 });
    const kept = readdirSync(spool, { recursive: true }).filter((name) => name.includes("rejected"));
    assert.equal(kept.length, 1);
    const entry = JSON.parse(readFileSync(join(spool, kept[0]), "utf8"));
    assert.equal(entry.line.record.text, "no such record");
    assert.ok(entry.status >= 400 && entry.reason);
    await ledger.close();
    assert.deepEqual(segments(spool), []);
  });

  it("posts and verifies, and throws what the server says", async () => {
    const ledger = new Ledger({ url: `${server.url}/v1/ledgers/default`, spool: folder(), verifierKeys: [await server.key()], ...quiet });
    const receipt = await ledger.post("ipc_record", record(1, { run_id: "run-1" }));
    assert.equal((await ledger.post("ipc_record", record(1, { run_id: "run-1" }))).replayed, true);
    assert.equal((await ledger.get("/records", { run_id: "run-1" })).rows?.length ?? 1, 1);
    assert.ok(receipt.seq > 0);
    await assert.rejects(ledger.post("ipc_record", record(2, { run_id: "run-1" })), (e) => e instanceof LedgerError && e.status === 409 && !e.temporary);
    await assert.rejects(ledger.post("ipc_record", { model: 3 }), (e) => e instanceof LedgerError && /model/.test(e.message));
    await assert.rejects(ledger.post("note", {}), TypeError);
    const other = new Ledger({ url: server.url, spool: folder(), verifierKeys: [new Signer("other.example", 3).key], ...quiet });
    await assert.rejects(other.post("ipc_record", record(3)), (e) => e instanceof VerificationError && e.code === "wrong_key");
    other.record("ipc_record", record(4));
    assert.equal(await other.flush(20_000), true);
    assert.deepEqual([other.stats().recorded, other.stats().unverified], [1, 1]);
    await Promise.all([ledger.close(), other.close()]);
  });

  it("uses any text as a key, and refuses one that the ledger would ignore", async () => {
    const warnings = [];
    const found = [];
    const ledger = new Ledger({ url: server.url, spool: folder(), verifierKeys: [await server.key()], onReceipt: (r) => found.push(r), warn: (message) => warnings.push(message) });
    for (const key of ["Schlüssel 1", "鍵 🗝"]) {
      const { seq } = await ledger.post("ipc_record", record(1), { key });
      assert.equal((await ledger.post("ipc_record", record(1), { key })).seq, seq);
      assert.equal(ledger.record("ipc_record", record(1), { key }), true);
      assert.equal(await ledger.flush(20_000), true);
      assert.deepEqual([found.at(-1).seq, found.at(-1).replayed], [seq, true], "the same key in a batch");
    }
    const before = (await server.records()).length;
    for (const key of ["", " ", "\t", "\ud800", 7]) {
      await assert.rejects(ledger.post("ipc_record", record(2), { key }), (e) => e instanceof TypeError && /leave it out/.test(e.message));
      assert.equal(ledger.record("ipc_record", record(2), { key }), false);
    }
    for (const key of [" a", "a\nb"]) await assert.rejects(ledger.post("ipc_record", record(2), { key }), (e) => e instanceof TypeError && /use record/.test(e.message));
    assert.equal(ledger.stats().invalid, 5);
    assert.match(warnings[0], /is not recorded: .*leave it out/);
    assert.equal((await server.records()).length, before);
    assert.notEqual((await ledger.post("ipc_record", record(2), { key: null })).seq, (await ledger.post("ipc_record", record(2), { key: null })).seq, "null is no key");
    const posted = (await server.records()).length;
    for (const key of ["", "\ud800"]) await withColophon(ledger, { model: "m", payload: { q: 1 } }, (g) => { g.key = key; }); // a generation throws nothing, so it gets a random key
    assert.equal(await ledger.flush(20_000), true);
    assert.equal((await server.records()).length, posted + 2);
    await ledger.close();
  });

  it("numbers only records without a key and a run_id, so that others stay the same when they are posted again", async () => {
    const ledger = new Ledger({ url: server.url, spool: folder(), producer: "p", ...quiet });
    const posted = [];
    for (const [n, others, options] of [[1, { run_id: "numbered-1" }], [2, {}, { key: "numbered-2" }]]) {
      posted.push(await ledger.post("ipc_record", record(n, others), options));
      assert.equal((await ledger.post("ipc_record", record(n, others), options)).replayed, true);
    }
    posted.push(await ledger.post("ipc_record", record(3)), await ledger.post("ipc_record", record(3)));
    const producers = await Promise.all(posted.map(async ({ seq }) => (await ledger.get(`/records/${seq}`)).event.record.producer?.seq));
    assert.deepEqual(producers, [undefined, undefined, 1, 2]);
    await ledger.close();
  });

  it("sends only hashes with hashesOnly", async () => {
    const found = [];
    const ledger = new Ledger({ url: server.url, spool: folder(), hashesOnly: true, onReceipt: (r) => found.push(r), ...quiet });
    ledger.record("ipc_record", { model: "m", payload: { q: "secret", seed: 4, w: raw("2.0") }, system_prompt: " p ", output: "o  o", usage: { input_tokens: 3, text: "secret" } });
    assert.equal(await ledger.flush(20_000), true);
    assert.equal(found[0].hashes.input_hash, await inputHash(raw('{"q":"secret","w":2.0}')));
    assert.equal(found[0].hashes.output_hash, await outputHash("o  o"));
    assert.equal(found[0].checks.output_hash.result, "claimed");
    await ledger.close();
  });

  it("sends no text with hashesOnly, however it is given, and takes the seed null for none", async () => {
    const found = [];
    const ledger = new Ledger({ url: server.url, spool: folder(), hashesOnly: true, onReceipt: (r, text) => found.push([r, text]), ...quiet });
    const given = { model: "m", payload: { q: 1, seed: null } };
    const [hashOfNull, hashOfText] = [await inputHash({ q: 1, seed: null }), await outputHash("secret  text")];
    const outputs = [raw('"secret  text"'), new String("secret  text"), { toJSON: () => "secret  text" }, "secret  text", { secret: 1 }];
    for (const output of outputs) ledger.record("ipc_record", { ...given, output, system_prompt: output });
    assert.equal(await ledger.flush(20_000), true);
    assert.deepEqual(found.map(([{ hashes }]) => [hashes.input_hash, hashes.output_hash]), outputs.map((_, n) => [hashOfNull, n < 4 ? hashOfText : null]));
    for (const [{ seq }, text] of found) assert.doesNotMatch(text + (await ledger.getText(`/records/${seq}`)), /secret/);
    await ledger.close();
  });

  it("records what a function generates, and its errors", async () => {
    const found = [];
    const lines = [];
    const ledger = new Ledger({ url: server.url, spool: folder(), onReceipt: (r) => found.push(r), ...quiet });
    const record = ledger.record.bind(ledger);
    ledger.record = (kind, body) => (lines.push(body), record(kind, body));
    const text = await withLabels({ conversation: "c1" }, () => withColophon(ledger, { model: "m", payload: { q: 1 }, system_prompt: "p", labels: { x: "y" } }, async () => "an answer"));
    assert.equal(text, "an answer");
    await assert.rejects(withColophon(ledger, { model: "m", payload: { q: 2 } }, () => { throw new RangeError("no"); }), RangeError);
    assert.equal(await withColophon(ledger, { model: "m", payload: { q: 3 } }, (g) => { g.output = "mine"; g.labels.more = "é".repeat(100); return 7; }), 7);
    assert.equal(await ledger.flush(20_000), true);
    assert.equal(found.length, 3);
    assert.deepEqual([lines[0].output, lines[0].labels], ["an answer", { conversation: "c1", x: "y" }]);
    assert.deepEqual([lines[1].output, lines[1].labels], [undefined, { error: "RangeError" }]);
    assert.deepEqual([lines[2].output, lines[2].labels.more], ["mine", "é".repeat(64)]);
    await ledger.close();
  });

  it("records several generations of one run, each with its own key", async () => {
    const found = [];
    const ledger = new Ledger({ url: server.url, spool: folder(), producer: "p", verifierKeys: [await server.key()], onReceipt: (r) => found.push(r), ...quiet });
    for (const answer of ["one", "two"]) await withColophon(ledger, { model: "m", payload: { q: 1 }, run_id: "answer/1" }, () => answer);
    for (let n = 0; n < 2; n++) await withColophon(ledger, { model: "m", payload: { q: 1 }, run_id: "answer/2", timestamp: "2026-01-02T03:04:05Z", usage: { duration_ms: 1 } }, (g) => { g.key = "mine"; });
    assert.equal(await ledger.flush(20_000), true);
    const { recorded, replayed, rejected } = ledger.stats();
    assert.deepEqual({ recorded, replayed, rejected }, { recorded: 4, replayed: 1, rejected: 0 });
    assert.deepEqual(found.map((r) => [r.event.record.run_id, r.event.record.producer?.seq, r.replayed ?? false]), [["answer/1", 1, false], ["answer/1", 2, false], ["answer/2", undefined, false], ["answer/2", undefined, true]]);
    assert.equal(new Set(found.map((r) => r.event.record.idempotency_key)).size, 3);
    await ledger.close();
  });

  it("works in memory, as in a browser", async () => {
    const ledger = new BrowserLedger({ url: server.url, flushInterval: 5, ...quiet });
    for (let i = 0; i < 100; i++) ledger.record("ipc_record", record(i));
    assert.equal(await ledger.flush(20_000), true);
    assert.equal(ledger.stats().recorded, 100);
    await ledger.close();
  });

  it("sends each record once while the server is down and the process is killed", async () => {
    const spool = folder();
    const before = (await server.records()).length;
    await server.stop("SIGKILL");
    const url = server.url;
    const first = run("record", url, spool, "first", "300", "kill");
    assert.equal(await first.ended, "SIGKILL");
    const synced = Number(/synced (\d+)/.exec(first.text)[1]);
    assert.ok(synced >= 300);
    // A process that exits while the server is down also leaves its records in the spool, even if it calls process.exit.
    const second = run("record", url, spool, "second", "50", "exit");
    assert.equal(await second.ended, 0);
    await server.start();
    const third = run("record", url, spool, "third", "50", "end");
    assert.equal(await third.ended, 0);
    const wanted = synced + 50 + 50;
    await eventually(async () => {
      const ledger = new Ledger({ url, spool, flushInterval: 5, ...quiet });
      ledger.record("ipc_record", record(0, { run_id: "poke" }));
      await ledger.flush(5_000);
      const done = segments(spool).length === 0;
      await ledger.close();
      return done;
    }, "the spool is empty");
    const runs = (await server.records()).map((row) => row.run_id ?? row.event?.record?.run_id).filter((id) => /^(first|second|third)-/.test(id ?? ""));
    assert.equal(new Set(runs).size, runs.length, "each once");
    for (let i = 0; i < synced; i++) assert.ok(runs.includes(`first-${i}`), `first-${i}`);
    assert.ok(runs.length >= wanted, `${runs.length} of at least ${wanted}`);
    assert.ok((await server.records()).length > before);
  });
});

describe("with a ledger that misbehaves", () => {
  const answerAll = ({ response, lines }) => response.end(lines.map((line) => receiptOf(line) + "\n").join(""));

  it("waits as long as Retry-After says, and repeats lines with the same key", async () => {
    const server = await standIn((given) => {
      if (given.number > 1) return answerAll(given);
      given.response.writeHead(503, { "Retry-After": "1", "Content-Type": "application/problem+json" });
      given.response.end(JSON.stringify({ status: 503, title: "Unavailable", detail: "the disk is full" }));
    });
    const ledger = new Ledger({ url: server.url, spool: folder(), flushInterval: 1, ...quiet });
    ledger.record("ipc_record", record(1));
    await eventually(() => ledger.stats().recorded === 1, "recorded");
    const [first, second] = server.requests;
    assert.deepEqual(second.lines, first.lines);
    assert.ok(JSON.parse(first.lines[0]).idempotency_key);
    assert.ok(second.at - first.at > 950, `${second.at - first.at} ms`);
    await ledger.close();
    await server.close();
  });

  it("does not end the wait that Retry-After asks for when it is flushed", async () => {
    const server = await standIn((given) => (given.number > 1 ? answerAll(given) : given.response.writeHead(503, { "Retry-After": "1" }).end()));
    const ledger = new Ledger({ url: server.url, spool: folder(), flushInterval: 1, ...quiet });
    ledger.record("ipc_record", record(1));
    await eventually(() => ledger.stats().lastError !== "", "the first answer");
    assert.equal(await ledger.flush(20_000), true);
    const [first, second] = server.requests;
    assert.ok(second.at - first.at > 950, `${second.at - first.at} ms`);
    await ledger.close();
    await server.close();
  });

  it("sends again only what was not answered", async () => {
    const server = await standIn((given) => {
      if (given.number > 1) return answerAll(given);
      const [a, b, c] = given.lines;
      given.response.end(`${receiptOf(a)}\n${JSON.stringify({ status: 429, detail: "too many" })}\n${receiptOf(c)}\n`.replace("b", b ? "b" : "b"));
    });
    const ledger = new Ledger({ url: server.url, spool: folder(), flushInterval: 20, ...quiet });
    for (const n of [1, 2, 3]) ledger.record("ipc_record", record(n), { key: `k${n}` });
    assert.equal(await ledger.flush(20_000), true);
    assert.deepEqual(server.requests.map((r) => r.lines.map((line) => JSON.parse(line).idempotency_key)), [["k1", "k2", "k3"], ["k2"]]);
    await ledger.close();
    await server.close();
  });

  it("does not settle problems after a line that must wait, because they may be due to it", async () => {
    const problem = (status) => JSON.stringify({ status, detail: "no" }) + "\n";
    const server = await standIn((given) => {
      if (given.number > 1) return answerAll(given);
      given.response.end(problem(422) + problem(503) + problem(404) + receiptOf(given.lines[3]) + "\n" + problem(500));
    });
    const ledger = new Ledger({ url: server.url, spool: folder(), flushInterval: 20, ...quiet });
    for (const n of [0, 1, 2, 3, 4]) ledger.record("ipc_record", record(n), { key: `k${n}` });
    assert.equal(await ledger.flush(20_000), true);
    assert.deepEqual(server.requests[1].lines.map((line) => JSON.parse(line).idempotency_key), ["k1", "k2", "k4"]);
    assert.deepEqual([ledger.stats().recorded, ledger.stats().rejected], [4, 1]);
    await ledger.close();
    await server.close();
  });

  it("splits a batch that is too long for a proxy, and keeps a line that is", async () => {
    const server = await standIn((given) => {
      if (given.lines.length <= 2 && !given.lines.some((line) => line.includes("text 5"))) return answerAll(given);
      given.response.writeHead(413).end("too long");
    });
    const spool = folder();
    const ledger = new Ledger({ url: server.url, spool, flushInterval: 20, ...quiet });
    for (let n = 0; n < 9; n++) ledger.record("ipc_record", record(n));
    assert.equal(await ledger.flush(20_000), true);
    assert.deepEqual([ledger.stats().recorded, ledger.stats().rejected], [8, 1]);
    await ledger.close();
    await server.close();
  });

  it("keeps records while the token is wrong, and says so once", async () => {
    let allowed = false;
    const warnings = [];
    const server = await standIn((given) => (allowed ? answerAll(given) : given.response.writeHead(401).end()));
    const ledger = new Ledger({ url: server.url, token: "t", spool: folder(), flushInterval: 1, warn: (message) => warnings.push(message) });
    ledger.record("ipc_record", record(1));
    await eventually(() => server.requests.length > 2, "several attempts");
    assert.equal(server.requests[0].headers.authorization, "Bearer t");
    allowed = true;
    assert.equal(await ledger.flush(20_000), true);
    assert.equal(warnings.length, 1, warnings.join("\n"));
    assert.match(warnings[0], /401/);
    await ledger.close();
    await server.close();
  });

  it("does not wait longer than told for a ledger that does not answer, and does not follow redirects", async () => {
    const server = await standIn(() => new Promise(() => undefined));
    const ledger = new Ledger({ url: server.url, spool: folder(), timeout: 100, ...quiet });
    const begun = performance.now();
    ledger.record("ipc_record", record(1));
    assert.equal(await ledger.flush(500), false);
    assert.equal(await ledger.close(500), false);
    assert.ok(performance.now() - begun < 10_000);
    await server.close();
    const away = await standIn(({ response }) => response.writeHead(307, { Location: "http://127.0.0.1:1/" }).end());
    const other = new Ledger({ url: away.url, token: "secret", spool: folder(), ...quiet });
    await assert.rejects(other.get("/stats"), (e) => e instanceof LedgerError && /redirect/.test(e.message));
    await other.close();
    await away.close();
    await assert.rejects(new Ledger({ url: "http://127.0.0.1:1", spool: folder(), ...quiet }).getText("/stats"), UnreachableError);
  });

  it("refuses what is not JSON, and drops what has no room, without throwing", async () => {
    const warnings = [];
    const ledger = new Ledger({ url: "http://127.0.0.1:1", spool: folder(), maxQueueBytes: 2000, warn: (message) => warnings.push(message) });
    const loop = {};
    loop.self = loop;
    assert.equal(ledger.record("ipc_record", { model: "m", payload: loop }), false);
    assert.equal(ledger.record("ipc_record", { model: "m", payload: { get a() { throw new Error("mine"); } } }), false);
    let taken = 0;
    while (ledger.record("ipc_record", record(taken))) taken++;
    assert.ok(taken > 3 && taken < 20);
    assert.deepEqual([ledger.stats().invalid, ledger.stats().dropped, ledger.stats().accepted], [2, 1, taken]);
    assert.equal(await ledger.sync(5_000), true);
    assert.equal(ledger.stats().queued, 0);
    await ledger.close(10);
    assert.equal(warnings.filter((w) => w.includes("is not recorded")).length, 1);
  });

  it("replaces lone surrogates, except in run-DAGs", async () => {
    const server = await standIn(answerAll);
    const warnings = [];
    const ledger = new Ledger({ url: server.url, spool: folder(), flushInterval: 1, warn: (message) => warnings.push(message) });
    ledger.record("ipc_record", record(1, { output: "a\ud83d", labels: { "\udfff": "x" }, payload: { q: ["😀".slice(1)], whole: "😀 \\ud800", n: raw("1.0") } }));
    ledger.record("run_dag", { answer_text: "a\ud800b" });
    ledger.record("ipc_record", record(2, { output: "😀 \\ud800" }));
    await withColophon(ledger, { model: "m", payload: raw('{"q":"\\uDC00"}') }, () => "fine");
    assert.equal(await ledger.flush(20_000), true);
    const lines = server.requests.flatMap((r) => r.lines);
    const [first, second, third, fourth] = lines.map((line) => JSON.parse(line).record);
    assert.deepEqual([first.output, first.labels, first.payload.q, first.payload.whole], ["a\ufffd", { "\ufffd": "x" }, ["\ufffd"], "😀 \\ud800"]);
    assert.match(lines[0], /"n":1\.0/);
    assert.deepEqual([second.answer_text, third.output, fourth.payload.q], ["a\ud800b", "😀 \\ud800", "\ufffd"]);
    assert.deepEqual([ledger.stats().repaired, ledger.stats().recorded], [2, 4]);
    assert.equal(warnings.length, 1);
    await ledger.close();
    await server.close();
  });

  it("replaces lone surrogates before it hashes", async () => {
    const server = await standIn(answerAll);
    const ledger = new Ledger({ url: server.url, spool: folder(), flushInterval: 1, hashesOnly: true, ...quiet });
    ledger.record("ipc_record", { model: "m", payload: { q: "\ud800", seed: 4 }, output: "a\ud83d", usage: { input_tokens: 3, "\udc00": 1.5 } });
    assert.equal(await ledger.flush(20_000), true);
    const sent = JSON.parse(server.requests[0].lines[0]).record;
    assert.deepEqual([sent.input_hash, sent.output_hash, sent.seed, sent.usage], [await inputHash({ q: "\ufffd" }), await outputHash("a\ufffd"), 4, { input_tokens: 3, "\ufffd": 1.5 }]);
    assert.equal(ledger.stats().repaired, 1);
    await ledger.close();
    await server.close();
  });

  it("ignores what a callback or a logger throws", async () => {
    const server = await standIn(answerAll);
    const ledger = new Ledger({ url: server.url, spool: folder(), onReceipt: () => { throw new Error("mine"); }, warn: () => { throw new Error("mine too"); } });
    ledger.record("ipc_record", record(1));
    assert.equal(await ledger.flush(20_000), true);
    assert.equal(ledger.stats().recorded, 1);
    await ledger.close();
    await server.close();
  });
});

describe("the spool", () => {
  it("keeps what was appended, and leaves out a torn line", async () => {
    const place = folder();
    const spool = new FileSpool(place, 1 << 20);
    await spool.append(["a", "b"]);
    await spool.append(["c"]);
    spool.close();
    const [name] = segments(place);
    assert.equal(statSync(join(place, name)).mode & 0o777, 0o600);
    assert.equal(statSync(place).mode & 0o777, 0o700);
    writeFileSync(join(place, name), "a\nb\nc\ntor");
    const next = new FileSpool(place, 1 << 20);
    const segment = await next.take();
    assert.deepEqual(await segment.lines(), ["a", "b", "c"]);
    assert.equal(await next.take(), null, "it is taken");
    segment.release();
    await (await next.take()).remove();
    assert.equal(await next.bytes(), 0);
    next.close();
    assert.deepEqual(readdirSync(place), [], "the files of owners are tidied");
  });

  it("gives a segment to one of several processes, and none of a living one to another", async () => {
    const place = folder();
    const living = new FileSpool(place, 1 << 20);
    await living.append(["mine"]);
    const dead = new FileSpool(place, 1 << 20);
    for (let i = 0; i < 20; i++) dead.appendNow([`line ${i}`]);
    dead.close();
    const takers = Array.from({ length: 4 }, () => new FileSpool(place, 1 << 20));
    const taken = [];
    await Promise.all(takers.map(async (spool) => {
      for (let segment; (segment = await spool.take()); await segment.remove()) taken.push(...(await segment.lines()));
    }));
    assert.deepEqual(taken.sort(), Array.from({ length: 20 }, (_, i) => `line ${i}`).sort());
    assert.deepEqual(await (await living.take()).lines(), ["mine"]);
    for (const spool of [living, ...takers]) spool.close();
  });

  it("writes lines again if its segment was taken meanwhile", async () => {
    const place = folder();
    const spool = new FileSpool(place, 1 << 20);
    await spool.append(["one"]);
    const [name] = segments(place);
    renameSync(join(place, name), join(place, "taken"));
    await spool.append(["two"]);
    const segment = await spool.take();
    assert.deepEqual(await segment.lines(), ["two"]);
    spool.close();
  });

  it("keeps a segment that cannot be read, and sends the others", async () => {
    const server = await standIn(({ response, lines }) => response.end(lines.map((line) => receiptOf(line) + "\n").join("")));
    const spool = folder();
    const warnings = [];
    const ledger = new Ledger({ url: server.url, spool, flushInterval: 1, warn: (message) => warnings.push(message) });
    mkdirSync(join(spool, readdirSync(spool)[0], `node-${"1".padStart(15, "0")}-${"ab".repeat(8)}-000001.ndjson`)); // even root cannot read it as a file
    for (const n of [1, 2]) {
      ledger.record("ipc_record", record(n));
      assert.equal(await ledger.flush(20_000), true);
    }
    assert.equal(ledger.stats().recorded, 2);
    const [kept] = segments(spool);
    assert.equal(warnings.length, 1, warnings.join("\n"));
    assert.match(warnings[0], /node-\S+ in \S+ cannot be read/);
    rmdirSync(join(spool, kept));
    writeFileSync(join(spool, kept), '{"kind":"ipc_record","record":{"model":"m"}}\n');
    await eventually(() => ledger.stats().recorded === 3, "the segment is tried again");
    await ledger.close();
    await server.close();
  });

  it("keeps the text of a refused line", async () => {
    const place = folder();
    const spool = new FileSpool(place, 1 << 20);
    const line = '{"kind":"note","record":{"n":1.0,"m":1e5,"i":123456789012345678901234567890,"t":"ü"}}';
    for (const text of [line, "torn"]) assert.equal(await spool.reject(text, 422, "no"), true);
    spool.close();
    const [first, second] = readFileSync(join(place, readdirSync(place)[0]), "utf8").split("\n");
    assert.ok(first.endsWith(`"line":${line}}`), first);
    assert.deepEqual([JSON.parse(first).reason, JSON.parse(second).line], ["no", "torn"]);
  });

  it("leaves nothing behind if it fails at the end of the process", () => {
    const place = folder();
    const spool = new FileSpool(place, 1 << 20);
    const name = spool.appendNow(["x"]);
    mock.method(fs, "fsyncSync", () => { throw new Error("no space"); });
    syncBuiltinESMExports();
    try {
      assert.throws(() => spool.appendNow(["y"]), /no space/);
    } finally {
      mock.restoreAll();
      syncBuiltinESMExports();
      spool.close();
    }
    assert.deepEqual([readdirSync(place), readFileSync(join(place, name), "utf8")], [[name], "x\n"]);
  });

  it("is not flushed by a recorder that has ended", async () => {
    for (const ledger of [new Ledger({ url: "http://127.0.0.1:1", spool: folder(), ...quiet }), new BrowserLedger({ url: "http://127.0.0.1:1", ...quiet })]) {
      assert.equal(await ledger.flush(), true, "everything is answered");
      ledger.record("ipc_record", record(1));
      const waiting = ledger.flush();
      ledger.end();
      assert.equal(await waiting, false);
      ledger.record("ipc_record", record(2));
      assert.equal(await ledger.flush(), false);
      assert.equal(await ledger.close(), false);
    }
  });

  it("says when it is full", async () => {
    const spool = new FileSpool(folder(), 100);
    await spool.append(["x".repeat(80)]);
    await assert.rejects(spool.append(["y".repeat(80)]), StoreFullError);
    await (await spool.take()).remove();
    await spool.append(["y".repeat(80)]);
    spool.close();
  });
});

describe("the arguments", () => {
  it("refuses unsuitable URLs, and two names", () => {
    for (const options of [{ url: "ftp://x" }, { url: "http://u:p@x" }, { url: "http://x/?a=b" }, { url: "http://x/v1/ledgers/a", ledger: "b" }, { url: "x" }]) {
      assert.throws(() => new Ledger({ ...options, spool: folder() }), TypeError, JSON.stringify(options));
    }
    assert.throws(() => new BrowserLedger({ url: "http://x", hashesOnly: true }), TypeError);
    assert.equal(new Ledger({ url: "https://x/prefix/v1/ledgers/my%20notes/", spool: folder() }).name, "my notes");
  });

  it("does not take the receipt of another record", async () => {
    const log = new Log(new Signer("log.example/x", 5)).grow(2);
    const server = await standIn(({ response }) => response.end(log.receipt(1) + "\n"));
    const ledger = new Ledger({ url: server.url, spool: folder(), verifierKeys: [log.signer.key], ...quiet });
    ledger.record("ipc_record", record(1));
    assert.equal(await ledger.flush(20_000), true);
    assert.equal(ledger.stats().unverified, 1);
    await ledger.close();
    await server.close();
  });
});
