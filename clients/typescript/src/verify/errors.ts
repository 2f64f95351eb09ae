/** What kind of check failed. The names are those of the Go package `proofs`. */
export type Code =
  | "malformed" // the bytes are not in the expected format
  | "range" // the tree does not have this index or size
  | "no_proof" // the receipt is minimal, or the proof file lacks its entry
  | "wrong_key" // none of the expected keys has signed
  | "signature" // a signature in the name of a known key is wrong
  | "retired" // every known key that signed was retired at a smaller size
  | "origin" // a known key signed, but for a log of another origin
  | "witnesses" // fewer witnesses than required have cosigned
  | "chain_link" // prev_event_hash, event_hash, or leaf_hash does not match the entry
  | "inclusion" // the proof does not place the leaf in the signed tree
  | "consistency" // the proof does not show that one tree is the beginning of the other
  | "path" // the path does not lead from the stage to the root of its run
  | "field" // a member differs from the event
  | "fork" // two signed checkpoints are not of one log
  | "rollback" // the newest checkpoint is older than one that was seen before
  | "key_changed" // the log has another key, which the known key did not name
  | "unsupported"; // this runtime cannot make the check

/** A check that does not hold. The message says what differs, in one line. */
export class VerificationError extends Error {
  override readonly name: string = "VerificationError";

  constructor(
    readonly code: Code,
    message: string,
  ) {
    super(message);
  }
}

/** A check that this runtime cannot make. It says nothing about what would have been checked. */
export class UnsupportedError extends VerificationError {
  override readonly name = "UnsupportedError";

  constructor(message: string) {
    super("unsupported", message);
  }
}

/** Throws a VerificationError unless the condition holds. */
export function must(holds: unknown, code: Code, message: string): asserts holds {
  if (!holds) throw new VerificationError(code, message);
}

/** Shortens a text that came from elsewhere, for a message. */
export function shown(text: string): string {
  const short = text.length > 100 ? text.slice(0, 100) + "…" : text;
  return JSON.stringify(short);
}
