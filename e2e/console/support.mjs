// What the tests share: a real server, a proxy that can change its responses, and a browser.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, request as httpRequest } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

export const root = fileURLToPath(new URL("../../", import.meta.url));
const inputs = [process.env.COLOPHON_INPUT, join(root, "..", "shared", "data")].find((folder) => folder && existsSync(folder));

/** The folder with the real input, or undefined. */
export const realInput = inputs;

/** The reason why tests in a browser are skipped, or false if they can run. */
export const noBrowser = (() => {
  const program = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((path) => existsSync(path));
  if (program) return false;
  if (process.env.COLOPHON_REQUIRE_CHROMIUM === "1") throw new Error("Chromium is not installed, and COLOPHON_REQUIRE_CHROMIUM is 1");
  return "Chromium is not installed";
})();

/** Returns the path of the program colophon. */
export function binary() {
  const program = process.env.COLOPHON_BINARY ?? join(root, "bin", "colophon");
  if (!existsSync(program)) throw new Error(`${program} does not exist: run make build, or name the program in COLOPHON_BINARY`);
  return program;
}

/** A real server in a folder of its own. */
export class Server {
  folder = mkdtempSync(join(tmpdir(), "colophon-console-e2e-"));

  async start(...flags) {
    this.process = spawn(binary(), ["serve", "--data", join(this.folder, "data"), "--listen", "127.0.0.1:0", ...flags], { stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    this.url = await new Promise((resolve, reject) => {
      const take = (text) => {
        output += text;
        const found = /server\s+(http:\S+)/.exec(output);
        if (found && output.includes("verifier key")) resolve(found[1]);
      };
      this.process.stdout.on("data", take);
      this.process.stderr.on("data", take);
      this.process.on("exit", (code) => reject(new Error(`the server exited with status ${code}: ${output}`)));
    });
    this.ledger = `${this.url}/v1/ledgers/default`;
    return this;
  }

  async stop() {
    if (!this.process || this.process.exitCode !== null || this.process.signalCode !== null) return;
    const ended = new Promise((resolve) => this.process.on("exit", resolve));
    this.process.kill("SIGTERM");
    await ended;
  }

  async remove() {
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Runs a command of the program. */
  run(...parameters) {
    const done = spawnSync(binary(), parameters, { encoding: "utf8", env: { ...process.env, COLOPHON_SERVER: this.url } });
    return { status: done.status, stdout: done.stdout, stderr: done.stderr };
  }

  async post(lines, headers = {}) {
    const body = lines.map((line) => (typeof line === "string" ? line : JSON.stringify(line)) + "\n").join("");
    const response = await fetch(`${this.ledger}/batch`, { method: "POST", body, headers: { "Content-Type": "application/x-ndjson", ...headers } });
    const answers = (await response.text()).trim().split("\n").map((line) => JSON.parse(line));
    assert.equal(response.status, 200, JSON.stringify(answers[0]));
    return answers;
  }

  async get(path, headers = {}) {
    const response = await fetch(this.ledger + path, { headers });
    assert.ok(response.ok, `${path}: ${response.status}`);
    return response.json();
  }

  /** Loads the example that the console offers for an empty ledger. */
  async example() {
    const text = await (await fetch(`${this.url}/example.ndjson`)).text();
    await this.post(text.trim().split("\n"));
  }

  /** Loads the real input, or the example if there is none. */
  async fill() {
    if (!realInput) return this.example();
    for (const name of ["generations", "run-dags", "citation-sets", "story-paths"]) {
      const { status, stderr } = this.run("import", join(realInput, `${name}.ndjson.gz`));
      assert.equal(status, 0, stderr);
    }
  }
}

/** A proxy in front of a server. `change` can replace its responses. If COLOPHON_CONSOLE_DIST names a folder, the proxy sends the page's files from there. */
export class Proxy {
  change = undefined; // ({ path, body, headers }) => body, { status, body }, or undefined
  target;

  async start(target) {
    this.target = target;
    this.server = createServer((request, response) => this.#answer(request, response));
    await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${this.server.address().port}`;
    return this;
  }

  #answer(request, response) {
    const to = new URL(request.url, this.target);
    const headers = { ...request.headers }; // the Host header stays that of the proxy, because it must match the origin
    delete headers["accept-encoding"];
    if (this.change || process.env.COLOPHON_CONSOLE_DIST) delete headers["if-none-match"];
    const passed = httpRequest(to, { method: request.method, headers }, (answer) => {
      const dist = process.env.COLOPHON_CONSOLE_DIST;
      const local = dist && (request.url === "/" || request.url.startsWith("/?") ? "index.html" : /^\/ui\/[^/]+\/([\w.-]+)$/.exec(request.url)?.[1]);
      if (!local && (!this.change || /event-stream/.test(answer.headers["content-type"] ?? ""))) {
        response.writeHead(answer.statusCode, answer.headers);
        answer.pipe(response);
        return;
      }
      const parts = [];
      answer.on("data", (part) => parts.push(part));
      answer.on("end", () => {
        let status = answer.statusCode, body = Buffer.concat(parts);
        if (local) [status, body] = [200, readFileSync(join(dist, local))];
        const changed = this.change?.({ path: request.url, body, headers: answer.headers });
        if (Buffer.isBuffer(changed) || typeof changed === "string") body = Buffer.from(changed);
        else if (changed) [status, body] = [changed.status ?? status, Buffer.from(changed.body)];
        const sent = { ...answer.headers, "content-length": body.length, "cache-control": "no-store" };
        for (const name of ["etag", "transfer-encoding"]) delete sent[name];
        if (local) sent["content-type"] = { html: "text/html; charset=utf-8", js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8", svg: "image/svg+xml" }[local.split(".").at(-1)] ?? "text/plain";
        response.writeHead(status, sent);
        response.end(request.method === "HEAD" ? undefined : body);
      });
    });
    passed.on("error", () => response.destroy());
    request.pipe(passed);
  }

  async remove() {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

/** Starts Chromium. */
export function launch() {
  return chromium.launch({ executablePath: ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((path) => existsSync(path)), args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
}

/** Opens a page that notes what must not happen: errors, dialogs, requests to other hosts, and violations of the policy. `page.answered` waits until no request is open, and returns whether any was. */
export async function watched(context, url) {
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const seen = { errors: [], dialogs: [], elsewhere: [], violations: [] }, open = new Set();
  let waiting = [];
  await page.exposeFunction("violated", (what) => seen.violations.push(what));
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) => window.violated(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
  });
  page.on("pageerror", (error) => seen.errors.push(String(error.stack ?? error)));
  page.on("dialog", (dialog) => {
    seen.dialogs.push(dialog.message());
    void dialog.dismiss();
  });
  page.on("request", (request) => {
    const at = request.url();
    if (!at.startsWith(url) && !at.startsWith("blob:") && !at.startsWith("data:")) seen.elsewhere.push(at);
    if (!/event-stream/.test(request.headers().accept ?? "")) open.add(request);
  });
  for (const end of ["requestfinished", "requestfailed"]) {
    page.on(end, (request) => {
      open.delete(request);
      if (open.size === 0) waiting = waiting.filter((resolve) => resolve());
    });
  }
  page.seen = seen;
  page.answered = async () => {
    const any = open.size > 0;
    if (any) await new Promise((resolve) => waiting.push(resolve));
    return any;
  };
  return page;
}

/** Goes to another view in the same document, as a click does. */
export async function visit(page, address) {
  await page.evaluate((hash) => new Promise((resolve) => {
    if (location.hash === hash) return resolve();
    addEventListener("hashchange", () => resolve(), { once: true });
    location.hash = hash;
  }), `#${address}`);
  await settled(page);
}

/** Waits until a page has loaded everything: it shows its content, no part of it is loading, and every request is complete, except the stream of a live view. */
export async function settled(page) {
  do {
    await page.waitForFunction(() => document.querySelector("main") && !document.querySelector(".loading"));
    // After the next two frames, everything that a response or a new address causes has begun.
    await page.evaluate(() => new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve))); }));
  } while (await page.answered?.() || await page.locator(".loading").count() > 0);
}

export function nothingHappened(page) {
  assert.deepEqual(page.seen, { errors: [], dialogs: [], elsewhere: [], violations: [] });
}

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const worlds = new WeakMap();

/** Returns an isolated world in which axe runs, because the policy of the page does not restrict it. The world lasts as long as the document, so axe is loaded once for all views. */
async function axeOf(page) {
  let world = worlds.get(page);
  if (!world) {
    world = { session: await page.context().newCDPSession(page) };
    world.session.on("Runtime.executionContextsCleared", () => delete world.id);
    await world.session.send("Runtime.enable");
    worlds.set(page, world);
  }
  if (world.id === undefined) {
    const { frameTree } = await world.session.send("Page.getFrameTree");
    const { executionContextId } = await world.session.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id, worldName: "axe" });
    await world.session.send("Runtime.evaluate", { expression: axeSource + ";0", contextId: executionContextId });
    world.id = executionContextId;
  }
  return world;
}

/** Returns the accessibility problems that axe finds. */
export async function findings(page) {
  const { session, id } = await axeOf(page);
  const { result, exceptionDetails } = await session.send("Runtime.evaluate", {
    contextId: id, awaitPromise: true, returnByValue: true,
    expression: `axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], resultTypes: ["violations"] })
      .then((r) => r.violations.map((v) => v.id + ": " + v.nodes.slice(0, 5).map((n) => n.target.join(" ") + " — " + n.failureSummary).join(" | ")))`,
  });
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  return result.value;
}
