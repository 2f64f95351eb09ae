package replay

import (
	"context"

	"colophon/proofs"
	"colophon/proofs/monitor/fetch"
)

// source answers requests about a ledger: the audited server, or the reference.
type source interface {
	// Do is like fetch.Client.Do. It is safe for concurrent use.
	Do(ctx context.Context, r fetch.Request) (fetch.Answer, error)
}

// reference answers requests from the copy of the log, as a server of this version must. It can
// show a prefix of the copy. openReference returns one.
type reference interface {
	source
	// show makes the reference answer as of a size, which must not be less than before. No
	// request may be under way.
	show(ctx context.Context, size uint64) error
	// key returns the key that signs the reference's own checkpoints.
	key() *proofs.Verifier
	// Close waits for requests under way. No request may begin afterwards.
	Close() error
}
