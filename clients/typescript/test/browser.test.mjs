// Verification in Chromium: the page below runs the built modules under a strict Content Security Policy, and sends its results back.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { Log, Signer, consistency } from "./support/log.mjs";
import { Server } from "./support/server.mjs";

const dist = new URL("../dist/", import.meta.url);
const chromium = ["chromium", "chromium-browser", "google-chrome"].find((name) => spawnSync(name, ["--version"]).status === 0);
const skip = chromium || process.env.COLOPHON_REQUIRE_CHROMIUM === "1" ? false : "Chromium is not installed";

const policy = "default-src 'none'; script-src 'self'; connect-src 'self'; require-trusted-types-for 'script'";
const page = `<!doctype html><meta charset="utf-8"><title>t</title><script type="module" src="/page.js"></script>`;
const script = `
import { ForkError, Pins, Tiles, verify, webStore } from "/dist/verify/index.js";
import { Ledger } from "/dist/browser.js";
import { inputHash, raw } from "/dist/hashes/index.js";

async function run() {
  const { receipt, key, log, logKey, fork } = await (await fetch("/input")).json();
  const tiles = new Tiles(async (path) => {
    const response = await fetch("/log/" + path);
    return response.ok ? new Uint8Array(await response.arrayBuffer()) : null;
  });
  const running = [];
  const good = await verify(receipt, { keys: [key], tiles, onStep: (s) => s.verdict === "running" && running.push(s.path.length) });
  const bad = await verify(receipt.replace('"time":"20', '"time":"21'), { keys: [key] });
  const pins = new Pins(webStore(localStorage));
  const prove = async () => fork.proof;
  await pins.pinKey(logKey);
  const first = await pins.remember(log, { prove });
  const forked = await pins.remember(fork.checkpoint, { prove }).then(() => "taken", (e) => (e instanceof ForkError ? e.code : String(e)));
  const ledger = new Ledger({ url: location.origin, flushInterval: 1 });
  ledger.record("ipc_record", { model: "m", payload: { in: "a browser" }, output: "o" });
  const flushed = await ledger.flush(20000);
  return { good: good.verdict, steps: good.steps.map((s) => s.name + " " + s.verdict), running, bad: bad.error.code, first: first.change, forked, kept: Object.keys(localStorage).length,
    hash: await inputHash(raw('{"w":1.0}')), flushed, recorded: ledger.stats().recorded, error: String(good.error ?? "") };
}
const result = await run().catch((e) => ({ thrown: String(e), stack: e.stack }));
await fetch("/result", { method: "POST", body: JSON.stringify(result) });
`;

describe("in Chromium", { skip }, () => {
  let server;
  let web;
  let url;
  let found;
  const result = new Promise((resolve) => (found = resolve));
  const profile = mkdtempSync(join(tmpdir(), "colophon-ts-chromium-"));

  before(async () => {
    server = await new Server().start();
    const lines = Array.from({ length: 300 }, (_, i) => JSON.stringify({ kind: "ipc_record", record: { model: "m", payload: { i }, temperature: 0, output: `o ${i}` } }) + "\n").join("");
    await (await fetch(`${server.ledger}/batch`, { method: "POST", body: lines, headers: { "Content-Type": "application/x-ndjson" } })).text();
    const signer = new Signer("log.example.com/texts", 7);
    const log = new Log(signer).grow(5);
    const fork = new Log(signer).grow(3).grow(5, "other");
    const input = { receipt: await server.text("/records/290/receipt"), key: await server.key(), logKey: signer.key, log: log.checkpoint(),
      fork: { checkpoint: fork.checkpoint(), proof: consistency(5, fork.leaves).map((h) => h.toString("hex")) } };
    web = createServer(async (request, response) => {
      const type = { html: "text/html", js: "text/javascript" };
      const send = (body, kind) => response.writeHead(200, { "Content-Type": kind, "Content-Security-Policy": policy }).end(body);
      const path = request.url;
      if (path === "/") return send(page, type.html);
      if (path === "/page.js") return send(script, type.js);
      if (path === "/input") return send(JSON.stringify(input), "application/json");
      if (path.startsWith("/dist/")) return send(readFileSync(new URL("." + path.slice(5), dist)), type.js);
      let body = "";
      for await (const part of request) body += part;
      if (path === "/result") {
        found(JSON.parse(body));
        return send("", "text/plain");
      }
      const target = path.startsWith("/log/") ? server.ledger + path : server.url + path;
      const answer = await fetch(target, { method: request.method, ...(body && { body, headers: { "Content-Type": request.headers["content-type"] } }) });
      response.writeHead(answer.status).end(Buffer.from(await answer.arrayBuffer()));
    });
    await new Promise((resolve) => web.listen(0, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${web.address().port}/`;
  });
  after(async () => {
    web.closeAllConnections();
    web.close();
    await server.remove();
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  });

  it("verifies a receipt and its tiles, and notices a changed receipt and a forked log", async () => {
    const browser = spawn(chromium, ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
      `--user-data-dir=${profile}`, "--remote-debugging-pipe", url], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    const ended = new Promise((resolve) => browser.on("exit", resolve));
    try {
      const got = await Promise.race([result, ended.then(() => ({ thrown: "the browser has ended" }))]);
      assert.equal(got.thrown, undefined, got.stack);
      assert.deepEqual(got.steps, ["format holds", "checkpoint holds", "signature holds", "event holds", "inclusion holds", "members holds"], got.error);
      assert.equal(got.good, "holds");
      assert.ok(got.running.length >= 5 && got.running.every((n, i) => n === i + 1), String(got.running));
      assert.deepEqual([got.bad, got.first, got.forked, got.kept], ["field", "first", "fork", 2]);
      assert.deepEqual([got.flushed, got.recorded], [true, 1]);
      assert.match(got.hash, /^[0-9a-f]{64}$/);
    } finally {
      browser.kill();
      await ended;
    }
  });
});
