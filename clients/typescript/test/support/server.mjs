// A real server, built from this tree, for a test.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../../../", import.meta.url));

/** Returns the path of the program: COLOPHON_BINARY or, if it is not set, bin/colophon, which is built if it is missing. */
function binary() {
  const program = process.env.COLOPHON_BINARY ?? join(root, "bin", "colophon");
  if (existsSync(program)) return program;
  const built = spawnSync("go", ["build", "-o", program, "./cmd/colophon"], { cwd: root, stdio: "inherit" });
  if (built.status !== 0) throw new Error("the server cannot be built");
  return program;
}

export class Server {
  folder = mkdtempSync(join(tmpdir(), "colophon-ts-"));
  port = 0;

  async start(...flags) {
    this.process = spawn(binary(), ["serve", "--data", join(this.folder, "data"), "--listen", `127.0.0.1:${this.port}`, ...flags], { stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    this.url = await new Promise((resolve, reject) => {
      const take = (text) => {
        output += text;
        const found = /server\s+(http:\S+)/.exec(output);
        if (found && output.includes("verifier key")) resolve(found[1]);
      };
      this.process.stdout.on("data", take);
      this.process.stderr.on("data", take);
      this.process.on("exit", (code) => reject(new Error(`the server exited with code ${code}: ${output}`)));
    });
    this.port = Number(new URL(this.url).port);
    this.ledger = `${this.url}/v1/ledgers/default`;
    return this;
  }

  async stop(signal = "SIGTERM") {
    const ended = new Promise((resolve) => this.process.on("exit", resolve));
    this.process.kill(signal);
    await ended;
  }

  async remove() {
    if (this.process.exitCode === null && this.process.signalCode === null) await this.stop("SIGKILL");
    rmSync(this.folder, { recursive: true, force: true });
  }

  async text(path, headers = {}) {
    const response = await fetch(this.ledger + path, { headers });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response.text();
  }

  async get(path) {
    return JSON.parse(await this.text(path));
  }

  async key() {
    return (await this.get("/log/key")).verifier_key;
  }

  /** Returns all records, the oldest first. */
  async records(kind = "ipc_record") {
    const rows = [];
    for (let cursor = ""; ;) {
      const page = await this.get(`/records?kind=${kind}&limit=1000${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
      rows.push(...page.rows ?? page.records);
      cursor = page.next_cursor ?? page.cursor ?? "";
      if (!cursor) return rows.reverse();
    }
  }
}

/** A stand-in for a ledger that answers as a test prescribes, and keeps what it received. */
export async function standIn(answer) {
  const { createServer } = await import("node:http");
  const requests = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    const lines = body.split("\n").filter(Boolean);
    requests.push({ method: request.method, path: request.url, headers: request.headers, lines, at: performance.now() });
    await answer({ request, response, lines, number: requests.length });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    requests, url: `http://127.0.0.1:${server.address().port}`,
    close: () => new Promise((resolve) => {
      server.closeAllConnections();
      server.close(resolve);
    }),
  };
}

let seq = 0;
/** Returns a minimal receipt for a line, as JSON. */
export const receiptOf = (line) => JSON.stringify({ ledger: "default", seq: seq++, kind: JSON.parse(line).kind, time: "2026-01-02T03:04:05.000000Z", event_hash: "ab".repeat(32), hashes: {}, checks: {} });

export async function eventually(condition, what) {
  for (let i = 0; i < 600; i++) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`did not happen: ${what}`);
}
