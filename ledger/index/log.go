package index

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"colophon/storage"
)

// Log is the log of a ledger, as a follower reads it.
type Log interface {
	// Head returns the current head.
	Head(ctx context.Context) (storage.Head, error)
	// Entry returns the entry of an event. The caller owns it.
	Entry(ctx context.Context, seq uint64) ([]byte, error)
	// Entries yields the entries from a seq up to the head.
	Entries(ctx context.Context, from uint64) iter.Seq2[storage.Entry, error]
}

// errLog is wrapped by every error of the log. The log can use the same engine as the index,
// so such an error could otherwise be mistaken for damage to the index.
var errLog = errors.New("index: reading the log")

// logReader wraps the errors of a log in errLog.
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
