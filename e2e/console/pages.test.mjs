// Every page is tested against a real server with the real input. It shows the expected text, is
// accessible in both colour schemes, fits on a small screen, and sends no request to another host.
import assert from "node:assert/strict";
import { request } from "node:http";
import { after, before, describe, it } from "node:test";
import { known, pages } from "./pages.mjs";
import { findings, launch, noBrowser, nothingHappened, Proxy, Server, settled, visit, watched } from "./support.mjs";

/** Returns the status and the headers of a response, and the length of its body as it was sent. */
function sent(url, headers = {}) {
  return new Promise((resolve, reject) => {
    request(url, { headers: { "Accept-Encoding": "gzip, br", Accept: "text/html", ...headers } }, (answer) => {
      const parts = [];
      answer.on("data", (part) => parts.push(part));
      answer.on("end", () => resolve({ length: Buffer.concat(parts).length, headers: answer.headers, status: answer.statusCode }));
    }).on("error", reject).end();
  });
}

/** Returns the title, the headings, and the links of a page, without times that depend on the clock. */
function outline(page) {
  return page.evaluate(() => ({
    title: document.title, headings: [...document.querySelectorAll("main :is(h1, h2, h3, .state-title)")].map((heading) => heading.textContent),
    links: [...document.querySelectorAll("a[href]")].map((link) => `${link.textContent.replace(/\d+ (second|minute)s? ago|just now/, "ago")} ${link.getAttribute("href")}`),
  }));
}

/**
 * Checks that a page that is loaded from its link shows what the page shows that followed the link. A row
 * can show a digest until the name arrives, so it compares for up to five seconds.
 */
async function agree(fresh, page) {
  for (let waited = 0; ; waited += 100) {
    try {
      return assert.deepEqual(await outline(fresh), await outline(page), "a page that is loaded from the link shows something different");
    } catch (error) {
      if (waited >= 5000) throw error;
      await fresh.waitForTimeout(100);
    }
  }
}

describe("the console", { skip: noBrowser }, () => {
  let server, proxy, browser, of;
  before(async () => {
    server = await new Server().start();
    await server.fill();
    proxy = await new Proxy().start(server.url);
    of = await known(server);
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    await proxy?.remove();
    await server?.remove();
  });

  it("comes with a policy that allows nothing but its own files", async () => {
    const { headers } = await sent(`${server.url}/`);
    const policy = headers["content-security-policy"];
    for (const part of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'",
      "require-trusted-types-for 'script'", "trusted-types 'none'"]) assert.ok(policy.split("; ").includes(part), `${part} in ${policy}`);
    assert.doesNotMatch(policy, /unsafe|\*|https?:/);
    assert.equal(headers["x-content-type-options"], "nosniff");
    assert.equal(headers["referrer-policy"], "no-referrer");
    assert.equal(headers["cross-origin-opener-policy"], "same-origin");
  });

  it("loads less than 200 KB at first, as it is sent", async () => {
    const context = await browser.newContext();
    const page = await context.newPage();
    const addresses = new Set();
    page.on("response", (response) => addresses.add(response.url().split("#")[0]));
    await page.goto(`${server.url}/#/default`);
    await page.waitForSelector("main");
    const files = [...addresses].filter((address) => address === `${server.url}/` || address.includes("/ui/"));
    assert.ok(files.length >= 3, files.join(" "));
    let total = 0;
    for (const file of files) {
      const { length, headers, status } = await sent(file);
      assert.equal(status, 200);
      assert.match(headers["content-encoding"], /^(gzip|br)$/, file);
      total += length;
    }
    console.log(`first load: ${total} bytes in ${files.length} files`);
    assert.ok(total < 200_000, `${total} bytes`);
    await context.close();
  });

  describe("shows", () => {
    // `page` shows all views in one document, as a person sees them. `fresh` loads each view from its
    // link, in a window of its own, because a page behind another one draws only one frame a second.
    let page, fresh;
    before(async () => {
      const open = async () => watched(await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: "light", reducedMotion: "reduce" }), proxy.url);
      [page, fresh] = [await open(), await open()];
      await page.goto(`${proxy.url}/#/default`);
      await settled(page);
    });
    after(() => Promise.all([page, fresh].map((one) => one?.context().close())));

    for (const [i, { name, at, shows }] of pages.entries()) {
      it(name, async () => {
        await page.emulateMedia({ colorScheme: "light" });
        await page.setViewportSize({ width: 1280, height: 900 });
        await visit(page, at(of));
        const text = await page.locator("main").innerText();
        if (shows) assert.ok(text.toLowerCase().includes(shows.toLowerCase()), `${shows} is missing: ${text.slice(0, 300)}`);
        assert.equal(await page.locator("main h1").count(), 1);
        for (const scheme of ["light", "dark"]) {
          await page.emulateMedia({ colorScheme: scheme });
          assert.deepEqual(await findings(page), [], `${scheme}, 1280 px`);
        }
        await page.setViewportSize({ width: 390, height: 800 });
        await settled(page); // charts follow the width one frame later
        assert.deepEqual(await findings(page), [], "390 px");
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wide <= 1, `it is ${wide} px wider than a screen of 390 px`);
        nothingHappened(page);

        await fresh.goto(`${proxy.url}/?${i}#${at(of)}`, { waitUntil: "commit" }); // a different query loads a new document
        await settled(fresh);
        await agree(fresh, page);
        nothingHappened(fresh);
      });
    }
  });

  it("follows the ledger on the overview, and asks for nothing twice", async () => {
    const context = await browser.newContext();
    const page = await watched(context, proxy.url);
    const asked = [];
    page.on("request", (request) => asked.push(request.url().slice(proxy.url.length) + (/event-stream/.test(request.headers().accept ?? "") ? " as a stream" : "")));
    await page.goto(`${proxy.url}/#/default`);
    await settled(page);
    const questions = asked.filter((path) => path.startsWith("/v1/ledgers/"));
    assert.deepEqual(questions, [...new Set(questions)]);
    const { as_of: size } = await server.get("/stats");
    await server.post([{ kind: "ipc_record", record: { run_id: "new", payload: { instruction: "Does the page show what is new?" }, output: "It does.", model: "m" } }]);
    await page.getByText("Does the page show what is new?").waitFor();
    await page.getByText(`Computed at tree size ${(size + 1).toLocaleString("en")}`).waitFor();
    nothingHappened(page);
    await context.close();
  });

  it("keeps the focus where the keyboard needs it", async () => {
    const context = await browser.newContext();
    const page = await watched(context, proxy.url);
    const focused = () => page.evaluate(() => document.activeElement.tagName);
    await page.goto(`${proxy.url}/#/default/changed`);
    await settled(page);
    const menu = page.getByLabel("Compare two");
    await menu.focus();
    await page.keyboard.press("ArrowDown");
    await page.waitForURL(/variable=system_prompt_hash/);
    await settled(page);
    assert.equal(await focused(), "SELECT");
    assert.equal(await menu.inputValue(), "system_prompt_hash");
    await page.locator(".suggestions a").first().focus();
    await page.keyboard.press("Enter");
    await page.waitForURL(/[?&]a=/);
    await settled(page);
    assert.equal(await focused(), "MAIN", "the card is gone, so the keyboard goes on from the start of the page");
    await visit(page, "/default/records");
    const more = page.getByRole("button", { name: "Show more" });
    await more.focus();
    await page.keyboard.press("Enter");
    await settled(page);
    assert.equal(await page.locator("tbody tr").count() > 50, true);
    if (await more.count() > 0) assert.equal(await focused(), "BUTTON");
    await visit(page, `/default/changed?${of.models}`);
    const pairs = page.locator(".pairs > details"), shown = await pairs.count();
    await more.focus();
    await page.keyboard.press("Enter");
    await pairs.nth(shown).waitFor();
    assert.equal(await pairs.nth(shown).locator("summary").evaluate((summary) => summary === document.activeElement), true, "the first new pair has the focus");
    nothingHappened(page);
    await context.close();
  });

  it("says that passages differ only in white space", async () => {
    const path = (build, content) => ({ kind: "path_fingerprint", record: { project: "spaces", build, route: ["Start"], content } });
    await server.post([path("1", "The lamp is lit."), path("2", "The lamp\n\nis  lit.")]);
    const context = await browser.newContext();
    const page = await watched(context, proxy.url);
    await page.goto(`${proxy.url}/#/default/stories/spaces`);
    await settled(page);
    await page.locator(".tree-path summary").click();
    await page.getByText("differ only in white space or invisible characters").waitFor();
    await page.getByText("Show where they differ").click();
    await page.locator(".compared ins").first().waitFor();
    nothingHappened(page);
    await context.close();
  });

  it("shows both sides where one of two runs lacks a stage", async () => {
    const inputs = { context_root: "1".repeat(64), conversation_hash: "2".repeat(64), sources: [], answer_text: "It is lit.", audit_mode: "STRICT", verifier_method: "quote", n_quotes: 1, n_verified: 0, lookup_path: "miss" };
    const [answered, rejected] = await server.post([
      { kind: "run_dag", record: { run_id: "answered", question: "Is the lamp lit?", inputs } },
      { kind: "run_dag", record: { run_id: "rejected", question: "Is the lamp lit?", reject_inputs: { preflight_payload: { broad: true }, rejection_reason: "too broad", answer_text: "" } } }]);
    const context = await browser.newContext();
    const page = await watched(context, proxy.url);
    await page.goto(`${proxy.url}/#/default/run-dag/${answered.seq}?beside=${rejected.seq}`);
    await settled(page);
    const sides = page.locator(".dag-first .side");
    assert.equal(await sides.count(), 2);
    assert.match((await sides.allInnerTexts()).join(" "), /This run has no such stage/);
    await visit(page, `/default/run-dag/${answered.seq}`);
    const text = await page.locator("main").innerText();
    assert.match(text, /The service states the audit mode STRICT/);
    assert.match(text, /These statements contradict each other/);
    assert.doesNotMatch(text, /Both runs/);
    nothingHappened(page);
    await context.close();
  });

  it("can be used with the keyboard alone", async () => {
    const context = await browser.newContext();
    const page = await watched(context, proxy.url);
    await page.goto(`${proxy.url}/#/default`);
    await settled(page);
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.id), "main");
    await page.keyboard.press("/");
    assert.equal(await page.evaluate(() => document.activeElement.id), "search");
    await page.keyboard.type(of.words);
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/search\?q=/);
    await settled(page);
    nothingHappened(page);
    await context.close();
  });
});
