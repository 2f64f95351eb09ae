package index

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"colophon/storage"
)

// Log gives a follower read access to the log of its ledger.
type Log interface {
	// Head returns the current head of the log.
	Head(ctx context.Context) (storage.Head, error)
	// Entry returns the entry of the event at seq. The caller owns the result.
	Entry(ctx context.Context, seq uint64) ([]byte, error)
	// Entries yields the log's entries in order, from the given seq up to the head.
	Entries(ctx context.Context, from uint64) iter.Seq2[storage.Entry, error]
}

// errLog is wrapped by every error from the log. The log can use the same engine as the index, so
// its errors could otherwise be mistaken for damage to the index.
var errLog = errors.New("index: reading the log")

// logReader is a Log whose errors all wrap errLog.
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
