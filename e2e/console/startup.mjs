// Measures how long the overview takes at the first visit: from the start of the navigation until it reacts to a
// key, which is pressed again and again, and until it shows its data. Each round has a new browser with a new profile, so nothing is cached.
//
//   npm run startup                       on the real input, or on the example if there is none
//   npm run startup -- --rounds 50
//   npm run startup -- http://HOST:PORT   on a running server with its own ledger
import { parseArgs } from "node:util";
import { launch, noBrowser, Server } from "./support.mjs";
import { quantile } from "./times.mjs";

if (noBrowser) throw new Error(noBrowser);
const { values: options, positionals: [given] } = parseArgs({ allowPositionals: true, options: { rounds: { type: "string", default: "20" } } });

/** Runs in the page, and notes when the overview first shows all its data and when the search box gets the focus. */
function watch() {
  window.startup = {};
  const look = () => {
    if (document.querySelector("main .figures") && document.querySelector("main .causes, main .columns") && !document.querySelector(".loading")) window.startup.shown = performance.now();
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
  addEventListener("focusin", (event) => {
    if (event.target.id === "search") window.startup.answered ??= performance.now();
  });
}

const server = given ? undefined : await new Server().start();
const times = { "first text on the screen": [], "the page reacts to a key": [], "the overview shows its data": [] };
let bytes = 0;
try {
  await server?.fill();
  const url = given ?? server.url;
  for (let round = 0; round < Number(options.rounds); round++) {
    const browser = await launch();
    try {
      const page = await (await browser.newContext({ viewport: { width: 1280, height: 900 } })).newPage();
      const session = await page.context().newCDPSession(page);
      await session.send("Network.enable");
      let sent = 0;
      session.on("Network.loadingFinished", ({ encodedDataLength }) => { sent += encodedDataLength; });
      await page.addInitScript(watch);
      await page.goto(`${url}/#/default`, { waitUntil: "commit" });
      while (!await page.evaluate(() => window.startup?.answered)) await page.keyboard.press("/");
      await page.waitForFunction(() => window.startup.shown);
      bytes = sent;
      const { shown, answered, painted } = await page.evaluate(() => ({ ...window.startup, painted: performance.getEntriesByName("first-contentful-paint")[0]?.startTime }));
      [painted, answered, shown].forEach((time, i) => Object.values(times)[i].push(time));
    } finally {
      await browser.close();
    }
  }
} finally {
  await server?.remove();
}
console.log(`${options.rounds} first visits; milliseconds since the start of the navigation`);
for (const [what, list] of Object.entries(times)) console.log(`${what.padEnd(30)} median ${Math.round(quantile(list, 0.5))}, 95th percentile ${Math.round(quantile(list, 0.95))}`);
console.log(`received until the data is shown: ${bytes.toLocaleString("en")} bytes, including the responses of the API`);
