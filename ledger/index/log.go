package index

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"colophon/storage"
)

// Log is the log of a ledger, which a follower reads.
type Log interface {
	// Head is how far the log goes.
	Head(ctx context.Context) (storage.Head, error)
	// Entry is the entry of an event, the caller's to keep.
	Entry(ctx context.Context, seq uint64) ([]byte, error)
	// Entries are the entries from one on, up to the head.
	Entries(ctx context.Context, from uint64) iter.Seq2[storage.Entry, error]
}

// errLog is in every error of the log: whatever it is, the index is not what is
// damaged, though the same engine may have found it.
var errLog = errors.New("index: reading its log")

// logReader reads the log that an index is of.
type logReader struct{ Log }

func ofLog(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errLog, err)
}

// Head implements Log.
func (r logReader) Head(ctx context.Context) (storage.Head, error) {
	head, err := r.Log.Head(ctx)
	return head, ofLog(err)
}

// Entry implements Log.
func (r logReader) Entry(ctx context.Context, seq uint64) ([]byte, error) {
	entry, err := r.Log.Entry(ctx, seq)
	return entry, ofLog(err)
}

// Entries implements Log.
func (r logReader) Entries(ctx context.Context, from uint64) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		for entry, err := range r.Log.Entries(ctx, from) {
			if !yield(entry, ofLog(err)) {
				return
			}
		}
	}
}
