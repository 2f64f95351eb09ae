// "Verify here" accepts a real receipt. It notices changes to the server's responses, and a log that
// forks, shrinks, or changes its key.
import assert from "node:assert/strict";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { Signer } from "../../clients/typescript/test/support/log.mjs";
import { findings, launch, noBrowser, nothingHappened, Proxy, Server, settled, watched } from "./support.mjs";

const record = (i) => ({ kind: "ipc_record", record: { run_id: `r/${i}`, model: "m", payload: { instruction: `question ${i}` }, output: `answer ${i}`, temperature: 0 } });
const records = (from, to, text = "") => Array.from({ length: to - from }, (_, i) => record(`${text}${from + i}`));

/** Clicks the button, waits for the result of the verification, and returns it. */
async function verify(page) {
  return afterwards(page, () => page.getByRole("button", { name: /^Verify (here|again)$/ }).click());
}

/** Calls act, which makes the page verify again, and returns the new result. It marks the earlier result, which stays until the page is drawn again. */
async function afterwards(page, act) {
  const ended = ".verdict, .verify .state.failed";
  await page.evaluate((selector) => document.querySelectorAll(selector).forEach((old) => old.setAttribute("data-earlier", "")), ended);
  await act();
  await page.waitForFunction((selector) => [...document.querySelectorAll(selector)].some((one) => !one.hasAttribute("data-earlier")), ended);
  return outcome(page);
}

async function outcome(page) {
  return page.evaluate(() => ({
    verdict: document.querySelector(".verdict")?.className.split("-").at(-1),
    alarm: document.querySelector(".verify .alarm .verdict-title")?.textContent,
    lines: Object.fromEntries([...document.querySelectorAll(".verify-line")].map((line) => [line.querySelector("strong").textContent, line.querySelector(".check").textContent])),
    text: document.querySelector(".verify").innerText,
    reached: document.querySelectorAll(".path-reached").length,
    root: document.querySelector(".path-root-good") ? "good" : document.querySelector(".path-root-bad") ? "bad" : "",
  }));
}

describe("verification in the page", { skip: noBrowser }, () => {
  let server, other, stranger, proxy, browser;
  before(async () => {
    server = await new Server().start();
    // The other server has the same key and the same first event, and then a different history.
    other = new Server();
    await server.stop();
    cpSync(join(server.folder, "data"), join(other.folder, "data"), { recursive: true });
    await server.start();
    await other.start();
    stranger = await new Server().start();
    await server.post(records(0, 700));
    await other.post(records(0, 900, "other/"));
    await stranger.post(records(0, 300));
    proxy = await new Proxy().start(server.url);
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    await proxy?.remove();
    for (const one of [server, other, stranger]) await one?.remove();
  });

  async function open(context, seq) {
    const page = await watched(context, proxy.url);
    await page.goto(`${proxy.url}/#/default/record/${seq}`);
    await settled(page);
    return page;
  }

  const fresh = async (use, reducedMotion = "reduce") => {
    const context = await browser.newContext({ reducedMotion });
    [proxy.target, proxy.change] = [server.url, undefined];
    try {
      await use(context);
    } finally {
      proxy.change = undefined;
      await context.close();
    }
  };

  it("accepts real receipts, draws the path, and notices growth", () => fresh(async (context) => {
    const page = await open(context, 444);
    const first = await verify(page);
    assert.equal(first.verdict, "good", first.text);
    assert.equal(first.root, "good");
    assert.ok(first.reached >= 9, `${first.reached} steps are drawn`);
    assert.match(first.text, /for the first time/);
    assert.deepEqual(Object.values(first.lines).filter((sign) => sign !== "✓" && sign !== "·"), []);
    assert.ok(Object.keys(first.lines).includes("The texts are those that were recorded."));
    for (const scheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: scheme });
      assert.deepEqual(await findings(page), [], scheme);
    }
    const kept = await page.evaluate(() => Object.keys(localStorage).filter((name) => name.startsWith("colophon.pin:")));
    assert.equal(kept.length, 2, kept.join());
    await server.post(records(700, 760));
    const second = await verify(page);
    assert.equal(second.verdict, "good", second.text);
    assert.match(second.text, /It had 701 events when this browser saw it last, and has 761 now/);
    nothingHappened(page);
  }, "no-preference"));

  for (const [what, change, line] of [
    ["the time in the receipt", ({ path, body }) => (path.includes("/receipt") ? String(body).replaceAll('"time":"20', '"time":"21') : undefined), /event|hash/i],
    ["the event in the receipt", ({ path, body }) => (path.includes("/receipt") ? String(body).replace('"model":"m"', '"model":"n"') : undefined), /The event has this hash/],
    ["a byte of every tile", ({ path, body }) => {
      if (!path.includes("/log/tile/0/")) return undefined;
      const bytes = Buffer.from(body);
      for (let i = 0; i < bytes.length; i += 32) bytes[i] ^= 1;
      return bytes;
    }, /The path leads to the signed root/],
    ["the signature of the checkpoint", ({ path, body }) => (path.includes("/log/checkpoint") ? changedSignature(String(body)) : undefined), /The log since the last visit/],
    ["the event that the page shows", ({ path, body }) => (/\/records\/\d+\?/.test(path) ? String(body).replaceAll('"model":"m"', '"model":"n"') : undefined), /This page shows that event/],
    ["the text that the page shows", ({ path }) => (path.includes("/content/output") ? "another answer" : undefined), /The texts are those that were recorded/],
  ]) {
    it(`fails if a proxy changes ${what}`, () => fresh(async (context) => {
      proxy.change = change;
      const page = await open(context, 123);
      const found = await verify(page);
      assert.equal(found.verdict, "bad", found.text);
      const failed = Object.entries(found.lines).filter(([, sign]) => sign === "✗").map(([name]) => name);
      assert.ok(failed.some((name) => line.test(name)), `${failed.join()} failed: ${found.text}`);
      assert.deepEqual(page.seen.errors, []);
      proxy.change = undefined;
      await page.reload();
      await settled(page);
      assert.equal((await verify(page)).verdict, "good", "without the change, the receipt verifies");
    }));
  }

  it("verifies nothing in a browser without WebCrypto, and says so", () => fresh(async (context) => {
    await context.addInitScript(() => Object.defineProperty(Crypto.prototype, "subtle", { value: undefined }));
    const found = await verify(await open(context, 123));
    assert.equal(found.verdict, "wait", found.text);
    assert.match(found.text, /Not verified/);
  }));

  it("warns on every page of a newest checkpoint without a valid signature", () => fresh(async (context) => {
    const page = await open(context, 100);
    assert.equal((await verify(page)).verdict, "good");
    proxy.change = ({ path, body }) => (path.includes("/log/checkpoint") ? changedSignature(String(body)) : undefined);
    await page.goto(`${proxy.url}/#/default`);
    await page.reload();
    await page.waitForSelector("main > .alarm");
    assert.match(await page.locator("main > .alarm").innerText(), /not signed by the log/);
  }));

  for (const [what, target, alarm] of [
    ["a forked log", () => other.url, /This is not the log that this browser saw/],
    ["a log with another key", () => stranger.url, /The key of the log is not the one/],
  ]) {
    it(`warns loudly of ${what}, on every page and again on every visit`, () => fresh(async (context) => {
      const page = await open(context, 100);
      assert.equal((await verify(page)).verdict, "good");
      proxy.target = target();
      const found = await verify(page);
      assert.equal(found.verdict, "bad", found.text);
      assert.match(found.alarm, alarm);
      assert.deepEqual(await findings(page), []);
      for (const address of ["/default", "/default/record/50"]) {
        await page.goto(`${proxy.url}/#${address}`);
        await page.reload();
        await page.waitForSelector("main > .alarm");
        assert.match(await page.locator("main > .alarm").innerText(), alarm);
      }
      // The right log verifies again, because the page has kept nothing of the wrong one.
      proxy.target = server.url;
      await page.goto(`${proxy.url}/#/default/record/100`);
      await page.reload();
      await settled(page);
      assert.equal((await verify(page)).verdict, "good");
      assert.equal(await page.locator(".alarm").count(), 0);
      // A person can say that the log was replaced on purpose.
      proxy.target = target();
      await verify(page);
      await page.locator(".verify .alarm").getByRole("button", { name: /replaced on purpose/ }).click();
      await page.locator(".verify .alarm").getByRole("button", { name: /Yes, forget/ }).click();
      await page.waitForFunction(() => document.querySelector(".verdict") && !document.querySelector(".verify .alarm"));
      assert.match((await outcome(page)).text, /for the first time/);
    }));
  }

  it("warns of a log that shows less than before, with evidence to download", () => fresh(async (context) => {
    proxy.target = other.url;
    const page = await open(context, 10);
    assert.equal((await verify(page)).verdict, "good");
    proxy.target = server.url; // smaller, and signed by the same key
    const found = await verify(page);
    assert.equal(found.verdict, "bad");
    assert.match(found.alarm, /shows less/);
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download the evidence" }).first().click()]);
    const parts = [];
    for await (const part of await download.createReadStream()) parts.push(part);
    const evidence = JSON.parse(Buffer.concat(parts).toString());
    for (const note of [evidence.remembered, evidence.shown]) assert.match(note, /^colophon\.invalid\/default\/\w+\n\d+\n/);
  }));

  it("checks cosignatures of witnesses whose keys the person gives", () => fresh(async (context) => {
    const witness = new Signer("witness.example/east", 9, 4);
    const cosigned = (text) => text + witness.cosign(text.slice(0, text.indexOf("\n\n") + 1), 1_767_323_045);
    proxy.change = ({ path, body }) => (path.includes("/log/checkpoint") ? cosigned(String(body)) : undefined);
    const page = await open(context, 200);
    const before = await verify(page);
    assert.match(before.text, /also signed in the name of witness\.example\/east/);
    assert.equal(before.verdict, "good");
    await page.getByLabel("Keys of witnesses that you trust").fill("nonsense");
    await page.getByRole("button", { name: "Keep, and verify again" }).click();
    await page.getByText("this is not a verifier key").waitFor();
    await page.getByLabel("Keys of witnesses that you trust").fill(witness.key);
    await page.getByRole("button", { name: "Keep, and verify again" }).click();
    await page.getByText("Witnesses signed it too").waitFor();
    await page.waitForSelector(".verdict");
    const good = await outcome(page);
    assert.equal(good.verdict, "good", good.text);
    assert.equal(good.lines["Witnesses signed it too."], "✓");
    proxy.change = ({ path, body }) => (path.includes("/log/checkpoint") ? changedSignature(cosigned(String(body))) : undefined);
    const bad = await verify(page);
    assert.equal(bad.lines["Witnesses signed it too."], "✗", bad.text);
    assert.equal(bad.verdict, "bad");
  }));

  it("gives the receipt as a file that the program verifies", () => fresh(async (context) => {
    const page = await open(context, 77);
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download the receipt" }).click()]);
    assert.equal(download.suggestedFilename(), "receipt-default-77.json");
    const { status, stderr, stdout } = server.run("verify", await download.path(), "--key", (await server.get("/log/key")).verifier_key);
    assert.equal(status, 0, stderr + stdout);
  }));
});

/** Changes the last signature of a note. */
function changedSignature(note) {
  const at = note.trimEnd().lastIndexOf(" ") + 1;
  const bytes = Buffer.from(note.slice(at).trim(), "base64");
  bytes[bytes.length - 1] ^= 1;
  return `${note.slice(0, at)}${bytes.toString("base64")}\n`;
}
