// Takes the pictures of the pages for docs/console. The ledger contains the built-in example, so the
// pictures show the same texts on every machine.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { known, pages } from "./pages.mjs";
import { launch, noBrowser, Proxy, root, Server, settled, watched } from "./support.mjs";

if (noBrowser) throw new Error(noBrowser);
const server = await new Server().start();
const proxy = await new Proxy().start(server.url);
const browser = await launch();
try {
  await server.example();
  const of = await known(server);
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, colorScheme: "light", reducedMotion: "reduce" });
  const folder = join(root, "docs", "console");
  mkdirSync(folder, { recursive: true });
  const take = async (what, name) => {
    const bytes = await what.screenshot({ type: "png", animations: "disabled" });
    writeFileSync(join(folder, `${name}.png`), bytes);
    console.log(`docs/console/${name}.png ${bytes.length} bytes`);
  };
  for (const { at, picture } of pages.filter((one) => one.picture)) {
    const page = await watched(context, proxy.url);
    await page.goto(`${proxy.url}/#${at(of)}`);
    await settled(page);
    const height = Math.min(900, await page.evaluate(() => document.documentElement.scrollHeight));
    await page.setViewportSize({ width: 1280, height });
    await take(page, picture);
    if (picture === "record") {
      await page.getByRole("button", { name: "Verify here" }).click();
      await page.waitForSelector(".verdict");
      await page.locator("details[open]", { hasText: "Whose keys?" }).evaluate((details) => { details.open = false; });
      await take(page.locator(".proof"), "verify");
    }
    await page.close();
  }
} finally {
  await browser.close();
  await proxy.remove();
  await server.remove();
}
