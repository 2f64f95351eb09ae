// Compares every page on a large ledger with the same page on a small one: how long the server takes for the
// requests of the page, how long the page takes until it shows everything, and how many rows it loads.
//
//   npm run scale                                  10,000 and 1,000,000 records, imported first
//   npm run scale -- --records 100000              a different size of the large ledger
//   npm run scale -- http://ONE http://ANOTHER     two servers that have their ledgers already
import { spawn } from "node:child_process";
import { once } from "node:events";
import { Agent, request } from "node:http";
import { parseArgs } from "node:util";
import { lines } from "./corpus.mjs";
import { known, pages } from "./pages.mjs";
import { quantile } from "./times.mjs";
import { binary, launch, noBrowser, Server, settled, visit, watched } from "./support.mjs";

if (noBrowser) throw new Error(noBrowser);
const { values: options, positionals: urls } = parseArgs({ allowPositionals: true, options: {
  records: { type: "string", default: "1000000" }, rounds: { type: "string", default: "40" }, views: { type: "string", default: "8" }, page: { type: "string" },
} });
const sizes = [10_000, Number(options.records)], rounds = Number(options.rounds), views = Number(options.views);
const onePage = 1000; // rows that a page may load: the count of the unstable inputs reads the most

/** Fills a ledger, and waits until everything has been indexed. */
async function fill(server, count) {
  const importing = spawn(binary(), ["import", "-"], { stdio: ["pipe", "ignore", "inherit"], env: { ...process.env, COLOPHON_SERVER: server.url } });
  const ended = once(importing, "exit");
  for (const piece of lines(count)) if (!importing.stdin.write(piece)) await once(importing.stdin, "drain");
  importing.stdin.end();
  const [status] = await ended;
  if (status !== 0) throw new Error(`colophon import exited with status ${status}`);
  for (;;) {
    const { tree_size: size, index_size: indexed } = await server.get("/live");
    if (size === indexed) return;
    await new Promise((resolve) => { setTimeout(resolve, 200); });
  }
}

/** Returns the members of Server that the pages need, for a running server. */
function remote(url) {
  const ledger = `${url}/v1/ledgers/default`;
  return { url, ledger, get: async (path) => (await fetch(ledger + path)).json(), remove: () => undefined };
}

const agent = new Agent({ keepAlive: true });

/** Sends a request, and returns the response with the time until its last byte, in milliseconds. */
function timed(url) {
  return new Promise((resolve, reject) => {
    const start = performance.now();
    request(url, { agent, headers: { Accept: "application/json" } }, (answer) => {
      const parts = [];
      answer.on("data", (part) => parts.push(part));
      answer.on("end", () => resolve({ took: performance.now() - start, status: answer.statusCode, body: Buffer.concat(parts) }));
    }).on("error", reject).end();
  });
}

const ms = (number) => number.toFixed(number < 10 ? 1 : 0).padStart(6);

/** Describes two series of times: the medians, the 95th percentiles, and the ratio of the 95th percentiles. */
function compared(small, large) {
  if (small.every((time) => time === 0) && large.every((time) => time === 0)) return "no requests".padEnd(37); // a page that sends no request
  const [a, b] = [small, large].map((one) => ({ p50: quantile(one, 0.5), p95: quantile(one, 0.95) }));
  const ratio = b.p95 / a.p95;
  return `${ms(a.p50)} ${ms(a.p95)} ${ms(b.p50)} ${ms(b.p95)}  × ${ratio.toFixed(2)}${ratio > 1.5 ? " !" : "  "}`;
}

const started = [];
let browser;
try {
  const servers = [];
  for (const [i, size] of sizes.entries()) {
    if (urls.length === 2) servers.push(remote(urls[i]));
    else {
      const server = await new Server().start();
      started.push(server);
      const start = performance.now();
      await fill(server, size);
      console.log(`${size.toLocaleString("en")} records imported in ${Math.round((performance.now() - start) / 1000)} s`);
      servers.push(server);
    }
  }
  browser = await launch();
  const sides = [];
  for (const server of servers) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: "reduce" });
    const page = await watched(context, server.url);
    const side = { server, of: await known(server), page, asked: [] };
    page.on("request", (one) => {
      const at = new URL(one.url());
      if (at.pathname.startsWith("/v1/") && !/event-stream/.test(one.headers().accept ?? "")) side.asked.push(at.pathname + at.search);
    });
    await page.goto(`${server.url}/#/default/nowhere`);
    await settled(page);
    sides.push(side);
  }
  console.log("\nMilliseconds: median and 95th percentile of the small ledger, then of the large one, and the ratio of the 95th percentiles.");
  console.log(`${"".padEnd(38)}requests  rows    answers of the server            until everything is shown`);
  const everything = [[], []], shown = [[], []];
  for (const { name, at } of pages.filter((one) => options.page === undefined || one.name.includes(options.page))) {
    const answers = [[], []], whole = [[], []], slow = new Map();
    // Note which requests the page sends, and measure how long it takes.
    let requests;
    for (let view = 0; view < views; view++) {
      for (const i of view % 2 ? [1, 0] : [0, 1]) {
        const { page, of } = sides[i];
        await visit(page, "/default/nowhere");
        sides[i].asked = [];
        const start = performance.now();
        await visit(page, at(of));
        whole[i].push(performance.now() - start);
      }
      requests ??= sides.map((side) => side.asked);
    }
    // Measure how long the server takes for these requests.
    let rows = 0;
    for (let round = 0; round < rounds; round++) {
      for (const i of round % 2 ? [1, 0] : [0, 1]) {
        let sum = 0;
        for (const path of requests[i]) {
          const { took, body } = await timed(sides[i].server.url + path);
          sum += took;
          const question = path.replace(/\?.*/, "").replace("/v1/ledgers/default", "").replace(/\/(\d+|[0-9a-f]{64}|sha256%3A[0-9a-f]+)(?=\/|$)/g, "/…");
          if (!slow.has(question)) slow.set(question, [[], [], path]);
          slow.get(question)[i].push(took);
          if (round === 0) rows = Math.max(rows, rowsOf(body));
        }
        answers[i].push(sum);
      }
    }
    for (const i of [0, 1]) {
      everything[i].push(...answers[i]);
      shown[i].push(...whole[i]);
    }
    console.log(`${name.padEnd(38)}${String(Math.max(...requests.map((one) => one.length))).padStart(5)} ${String(rows).padStart(8)}  ${compared(...answers)}   ${compared(...whole)}${rows > onePage ? "  more than one page of rows" : ""}`);
    for (const [question, [small, large, path]] of slow) {
      if (small.length === 0 || large.length === 0) continue;
      if (quantile(large, 0.95) / quantile(small, 0.95) > 1.5 && quantile(large, 0.5) > 1.5 * quantile(small, 0.5)) console.log(`    ${compared(small, large)} ${question} such as ${path}`);
    }
  }
  console.log(`${"all pages".padEnd(38)}${"".padEnd(16)}${compared(...everything)}   ${compared(...shown)}`);
} finally {
  await browser?.close();
  for (const server of started) await server.remove();
  agent.destroy();
}

/** Returns the length of the longest list of rows in a response. */
function rowsOf(body) {
  try {
    const answer = JSON.parse(body);
    return Math.max(0, ...Object.values(answer).filter(Array.isArray).map((list) => list.length));
  } catch {
    return 0; // not JSON
  }
}
