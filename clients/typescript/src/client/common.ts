export { float, raw } from "../hashes/raw.js";
export { LedgerError, UnreachableError } from "./errors.js";
export { type Fields, Generation, withColophon } from "./generation.js";
export type { BaseLedger, IpcRecord, Kind, LedgerOptions, PostOptions, RecordBody } from "./ledger.js";
export type { Receipt, Stats } from "./recorder.js";
export { type LangchainHandler, type LangchainOptions, langchainHandler } from "../chat/langchain.js";
export { type WrapOptions, wrap } from "../chat/wrap.js";
