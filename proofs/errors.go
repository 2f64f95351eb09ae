package proofs

import "errors"

// Errors that callers distinguish. The errors that wrap them name the values that were
// compared.
var (
	// ErrRange: the tree does not have that index or size. Also a consistency proof from size
	// 0, which RFC 6962 does not define.
	ErrRange = errors.New("proofs: out of range")
	// ErrMalformed: the bytes are not in the expected format.
	ErrMalformed = errors.New("proofs: malformed")
	// ErrTooLong: an entry is longer than MaxEntry.
	ErrTooLong = errors.New("proofs: entry too long")
	// ErrNoProof: a minimal receipt, or a proof file without its entry.
	ErrNoProof = errors.New("proofs: carries no proof")
	// ErrWrongKey: none of the verifier's keys has signed.
	ErrWrongKey = errors.New("proofs: signed by another key")
	// ErrSignature: a signature in the name of a known key is invalid.
	ErrSignature = errors.New("proofs: invalid signature")
	// ErrRetired: the only known keys that signed were retired at a smaller size.
	ErrRetired = errors.New("proofs: signed by a retired key")
	// ErrOrigin: a known key signed it, for a log of another origin.
	ErrOrigin = errors.New("proofs: checkpoint of another log")
	// ErrChainLink: event_hash or leaf_hash is not the hash of the entry.
	ErrChainLink = errors.New("proofs: chain link broken")
	// ErrInclusion: the proof does not place the leaf in the signed tree.
	ErrInclusion = errors.New("proofs: not included")
	// ErrConsistency: the proof does not show that one tree is a prefix of the other.
	ErrConsistency = errors.New("proofs: not consistent")
	// ErrPath: the path does not lead from the stage to the root of its run.
	ErrPath = errors.New("proofs: path of the stage broken")
	// ErrField: a member of a receipt differs from its event.
	ErrField = errors.New("proofs: field differs from the event")
)
