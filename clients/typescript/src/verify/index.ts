/** Verification of receipts and logs. It needs WebCrypto and nothing else: it runs in browsers and in Node 20. */
export { type Bytes, concat, equal, fromBase64, fromHex, sha256, textOf, toBase64, toHex, utf8Text, wtf8 } from "./bytes.js";
export { type Code, UnsupportedError, VerificationError, must } from "./errors.js";
export { type Event, parseEvent, splitEntry } from "./event.js";
export { type Form, type Members, Numeral, type Value, canonical, canonicalBytes, compact, hasLoneSurrogate, byCodePoint, parseJSON, quoted, spaced } from "./json.js";
export {
  type Checkpoint, type Cosignature, type Note, type NoteSignature, type VerifierKey, addSignature, cosignatures, keysFrom, openCheckpoint, parseCheckpoint, parseLogKeys,
  parseNote, parseVerifierKey, parseVerifierKeys, verifyCheckpoint, verifySignature,
} from "./note.js";
export { type Followed, ForkError, type PinStore, Pins, type Remembered, type RememberOptions, webStore } from "./pins.js";
export { type Verification, type VerifyOptions, entryOfEvent, requireVerified, verify } from "./receipt.js";
export { type Step, type Verdict } from "./steps.js";
export { type FetchTile, Tiles, readBundle, tilePath } from "./tiles.js";
export {
  type Hash, type PathStep, type Range, consistencyRanges, emptyRoot, entryOf, eventHash, followPath, inclusionRanges, leafHash, nodeHash, runRoot, verifyConsistency,
  verifyInclusion, verifyRunPath,
} from "./tree.js";
