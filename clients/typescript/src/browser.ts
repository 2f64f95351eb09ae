/** Records how texts were generated in a Colophon ledger. This is the entry for browsers: records wait in memory, and are lost with the page. */
import { BaseLedger, type LedgerOptions } from "./client/ledger.js";
import { MemoryStore } from "./client/store.js";

export * from "./client/common.js";

export class Ledger extends BaseLedger {
  constructor(options: LedgerOptions & { url: string }) {
    super({
      store: (_base, _ledger, { maxSpoolBytes }) => new MemoryStore(maxSpoolBytes ?? 64 << 20),
      sha256: undefined, environment: () => undefined, opened: () => undefined, closed: () => undefined, labels: () => ({}),
    }, options);
  }
}
