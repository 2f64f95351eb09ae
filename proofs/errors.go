package proofs

import "errors"

// These are the errors that callers can distinguish. The functions of this package wrap them in
// errors that state the values involved.
var (
	// ErrRange means that the tree does not have the requested index or size. It is also returned
	// for a consistency proof from size 0, which RFC 6962 does not define.
	ErrRange = errors.New("proofs: out of range")
	// ErrMalformed means that the bytes are not in the expected format.
	ErrMalformed = errors.New("proofs: malformed")
	// ErrTooLong means that an entry is longer than MaxEntryBytes.
	ErrTooLong = errors.New("proofs: the entry is too long")
	// ErrNoProof means that the receipt is minimal and thus has no proof, or that the proof file
	// does not include the entry to verify.
	ErrNoProof = errors.New("proofs: no proof to verify")
	// ErrWrongKey means that there is no signature from any of the expected keys.
	ErrWrongKey = errors.New("proofs: not signed by an expected key")
	// ErrSignature means that a signature that names a known key is invalid.
	ErrSignature = errors.New("proofs: invalid signature")
	// ErrRetiredKey means that every known key that signed had been retired at a smaller size.
	ErrRetiredKey = errors.New("proofs: signed by a retired key")
	// ErrWrongOrigin means that a known key signed the checkpoint, but the checkpoint's origin
	// names a different log.
	ErrWrongOrigin = errors.New("proofs: the checkpoint belongs to a different log")
	// ErrChainLink means that prev_event_hash, event_hash, or leaf_hash does not match the
	// entries.
	ErrChainLink = errors.New("proofs: the chain link is broken")
	// ErrInclusion means that the proof does not show that the leaf is in the signed tree.
	ErrInclusion = errors.New("proofs: inclusion is not proved")
	// ErrConsistency means that the proof does not show that one tree is a prefix of the
	// other.
	ErrConsistency = errors.New("proofs: consistency is not proved")
	// ErrStagePath means that the path does not lead from the stage to the root of its run.
	ErrStagePath = errors.New("proofs: the stage's path does not lead to the root of the run")
	// ErrFieldMismatch means that a field of a receipt does not match the event.
	ErrFieldMismatch = errors.New("proofs: a field does not match the event")
)
