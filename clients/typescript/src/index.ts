/** Records how texts were generated in a Colophon ledger. This is the entry for Node. */
import { AsyncLocalStorage } from "node:async_hooks";
import { createHash } from "node:crypto";
import { homedir } from "node:os";
import { join } from "node:path";
import { FileSpool } from "./client/spool.js";
import { BaseLedger, type LedgerOptions, type Platform } from "./client/ledger.js";
import { wtf8 } from "./verify/bytes.js";

export * from "./client/common.js";

const contextLabels = new AsyncLocalStorage<Readonly<Record<string, string>>>();

/** Adds labels to all generations that are recorded inside the function, including its asynchronous calls. Labels stay in the log forever: put no personal data into them. */
export function withLabels<T>(labels: Readonly<Record<string, string>>, run: () => T): T {
  return contextLabels.run({ ...contextLabels.getStore(), ...labels }, run);
}

const open = new Set<BaseLedger>();
let watching = false;

/** At its end, the process waits for the ledger for exitTimeout. If it ends at once (process.exit), what is queued is written to the spool. */
function watchTheEnd(): void {
  if (watching) return;
  watching = true;
  let closing = false;
  process.on("beforeExit", () => {
    if (closing || open.size === 0) return;
    closing = true;
    void Promise.all([...open].map((ledger) => ledger.close())).finally(() => (closing = false));
  });
  process.on("exit", () => {
    for (const ledger of [...open]) ledger.end();
  });
}

const node: Platform = {
  store(base, ledger, options) {
    const spool = (options as NodeLedgerOptions).spool ?? process.env["COLOPHON_SPOOL"]
      ?? join(process.env["XDG_STATE_HOME"] ?? join(homedir(), ".local", "state"), "colophon", "spool");
    // The name has a digest, so that records never reach another ledger. The Python client uses the same names.
    const digest = createHash("sha256").update(`${base}\0${ledger}`).digest("hex").slice(0, 8);
    const readable = `${new URL(base).host}-${ledger}`.replace(/[^A-Za-z0-9.-]+/g, "-").slice(0, 80);
    return new FileSpool(join(spool, `${readable}-${digest}`), options.maxSpoolBytes ?? 1 << 30);
  },
  sha256: (text) => createHash("sha256").update(wtf8(text)).digest("hex"),
  environment: (name) => process.env[name] || undefined,
  opened(ledger) {
    open.add(ledger);
    watchTheEnd();
  },
  closed: (ledger) => void open.delete(ledger),
  labels: () => contextLabels.getStore() ?? {},
};

export interface NodeLedgerOptions extends LedgerOptions {
  /** A folder on a local disk for records that the ledger does not have yet (default: COLOPHON_SPOOL, else ~/.local/state/colophon/spool).
   * Several processes may share it. Each ledger has a folder of its own in it, readable only by its owner, because records hold prompts and answers. */
  spool?: string;
}

/** One ledger of a server: see BaseLedger. Records wait for the ledger in a spool on the disk. */
export class Ledger extends BaseLedger {
  constructor(options: NodeLedgerOptions = {}) {
    super(node, options);
  }
}
