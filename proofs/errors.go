package proofs

import "errors"

// Sentinels on which callers branch. The errors that wrap them say what was
// compared with what.
var (
	// ErrRange: an index or size that the tree does not have; also a
	// consistency proof from size 0, which RFC 6962 does not define.
	ErrRange = errors.New("proofs: out of range")
	// ErrMalformed: bytes that are not in the format they should be in.
	ErrMalformed = errors.New("proofs: malformed")
	// ErrTooLong: an entry beyond MaxEntry.
	ErrTooLong = errors.New("proofs: entry too long")
	// ErrNoProof: a minimal receipt, or a proof file without its entry.
	ErrNoProof = errors.New("proofs: carries no proof")
	// ErrWrongKey: no signature is by a key that the verifier knows.
	ErrWrongKey = errors.New("proofs: signed by another key")
	// ErrSignature: a signature names a known key, which did not make it.
	ErrSignature = errors.New("proofs: invalid signature")
	// ErrRetired: signed by a known key alone that was retired at a smaller size.
	ErrRetired = errors.New("proofs: signed by a retired key")
	// ErrOrigin: signed by a known key, for a log of another name.
	ErrOrigin = errors.New("proofs: checkpoint of another log")
	// ErrChainLink: event_hash or leaf_hash is not the hash of the entry.
	ErrChainLink = errors.New("proofs: chain link broken")
	// ErrInclusion: the leaf is not shown to be at its place in the signed tree.
	ErrInclusion = errors.New("proofs: not included")
	// ErrConsistency: one tree is not shown to be the beginning of the other.
	ErrConsistency = errors.New("proofs: not consistent")
	// ErrPath: a stage is not shown to be in the tree of its run.
	ErrPath = errors.New("proofs: path of the stage broken")
	// ErrField: a field of a receipt differs from the event that it is about.
	ErrField = errors.New("proofs: field differs from the event")
)
