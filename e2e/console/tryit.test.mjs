// On an empty ledger, a caller that may write can load the example with one click.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { findings, launch, noBrowser, nothingHappened, Proxy, Server, settled, watched } from "./support.mjs";

describe("an empty ledger", { skip: noBrowser }, () => {
  let server, proxy, browser;
  before(async () => {
    server = await new Server().start();
    proxy = await new Proxy().start(server.url);
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    await proxy?.remove();
    await server?.remove();
  });

  it("says what it will do, loads the example with a click, and does not offer it again", async () => {
    const context = await browser.newContext();
    const page = await watched(context, proxy.url);
    await page.goto(`${proxy.url}/#/default`);
    const offer = page.getByRole("heading", { name: /This ledger is empty/ });
    await offer.waitFor();
    await settled(page);
    assert.match(await page.locator(".try").innerText(), /writes about a hundred records into the ledger default/);
    assert.deepEqual(await findings(page), []);
    assert.equal((await server.get("/stats")).records.ipc_record ?? 0, 0);
    await Promise.all([page.waitForEvent("load"), page.getByRole("button", { name: "Load the example" }).click()]);
    await page.locator("main h1").first().waitFor();
    await settled(page);
    assert.equal(await offer.count(), 0);
    const { records } = await server.get("/stats");
    for (const kind of ["ipc_record", "run_dag", "citation_set", "path_fingerprint"]) assert.ok(records[kind] > 0, kind);
    nothingHappened(page);
    await context.close();
  });

  it("does not offer the example to a caller that may not write", async () => {
    const guarded = await new Server().start();
    proxy.target = guarded.url;
    try {
      const made = guarded.run("token", "create", "--data", `${guarded.folder}/data`, "--name", "reader", "--scope", "read,content");
      assert.equal(made.status, 0, made.stderr);
      const token = /colophon_\S+|\S{30,}/.exec(made.stdout)[0];
      const context = await browser.newContext();
      const page = await watched(context, proxy.url);
      await page.addInitScript((text) => sessionStorage.setItem("colophon.token", text), token);
      await page.goto(`${proxy.url}/#/default`);
      await page.getByText("This ledger is empty").waitFor();
      await settled(page);
      assert.equal(await page.getByRole("button", { name: "Load the example" }).count(), 0);
      nothingHappened(page);
      await context.close();
    } finally {
      proxy.target = server.url;
      await guarded.remove();
    }
  });
});
