// A service that records in its own process. Arguments: record URL SPOOL NAME COUNT kill|exit|end
import { Ledger } from "../../dist/index.js";

const [, url, spool, name, count, ending] = process.argv.slice(2);
const ledger = new Ledger({ url, spool, flushInterval: 20, exitTimeout: 5_000, warn: () => undefined });
for (let i = 0; i < Number(count); i++) {
  ledger.record("ipc_record", { model: "m", payload: { i }, output: `${name} ${i}`, run_id: `${name}-${i}` });
  if (i % 100 === 99) await new Promise((resolve) => setTimeout(resolve, 5));
}
if (ending === "kill") {
  await ledger.sync();
  console.log(`synced ${ledger.stats().spooled}`);
  process.kill(process.pid, "SIGKILL");
}
if (ending === "exit") process.exit(0);
