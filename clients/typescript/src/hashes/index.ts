/** The hashes of records, computed as the ledger computes them. Browser-safe. */
export { type Jsonable, RawJSON, float, raw, toJSON, valueOf } from "./raw.js";
export {
  type AdvancedEnvironment, type BaseHashes, type Chain, type EvidencePlace, type Node, type RetrievalSource, type RetrievedChunk, type Shape, buildNodes, cacheDimensions,
  cacheKey, citationsDocument, contentFingerprint, contextRoot, evidenceId, evidenceMapRoot, failureStage, idempotencyKeyDigest, inputHash, ipcId, nodesRoot, outputHash,
  pathId, pinnedRetrieval, preflightHash, questionHash, rawContentFingerprint, rejectNodes, runKeyDigest, seedlessInputHash, shapeOf, systemPromptHash,
} from "./records.js";
export { namedHashes, recompute } from "./recompute.js";
export { chunkHash, jsonHash, outputForm, questionForm, strip, systemPromptForm, textHash, words } from "./texts.js";
