// Every page, against a real server with the real input: it shows what it should, is accessible in
// both colour schemes, fits a small screen, and nothing leaves it.
import assert from "node:assert/strict";
import { request } from "node:http";
import { after, before, describe, it } from "node:test";
import { known, pages } from "./pages.mjs";
import { findings, launch, noBrowser, nothingHappened, Proxy, Server, settled, watched } from "./support.mjs";

/** Returns the length of an answer as it is sent, with its headers. */
function sent(url, headers = {}) {
  return new Promise((resolve, reject) => {
    request(url, { headers: { "Accept-Encoding": "gzip, br", Accept: "text/html", ...headers } }, (answer) => {
      const parts = [];
      answer.on("data", (part) => parts.push(part));
      answer.on("end", () => resolve({ length: Buffer.concat(parts).length, headers: answer.headers, status: answer.statusCode }));
    }).on("error", reject).end();
  });
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

  for (const { name, at, shows } of pages) {
    it(`shows ${name}`, async () => {
      const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: "light", reducedMotion: "reduce" });
      const page = await watched(context, proxy.url);
      await page.goto(`${proxy.url}/#${at(of)}`);
      await settled(page);
      if (shows) assert.ok((await page.locator("main").innerText()).toLowerCase().includes(shows.toLowerCase()), `${shows} is missing: ${(await page.locator("main").innerText()).slice(0, 300)}`);
      assert.notEqual(await page.locator("main h1, main .state-title").count(), 0);
      for (const scheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme: scheme });
        assert.deepEqual(await findings(page), [], `${scheme}, 1280 px`);
      }
      await page.setViewportSize({ width: 390, height: 800 });
      assert.deepEqual(await findings(page), [], "390 px");
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 1, `it is ${wide} px wider than a screen of 390 px`);
      nothingHappened(page);
      await context.close();
    });
  }

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
