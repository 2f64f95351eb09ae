package index

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"colophon/storage"
)

// errLog is in every error of the log: whatever it is, the index is not what is
// damaged, though the same engine may have found it.
var errLog = errors.New("index: reading its log")

// logReader reads the log that an index is of.
type logReader struct{ storage.Reader }

func ofLog(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errLog, err)
}

// Head implements storage.Reader.
func (r logReader) Head(ctx context.Context) (storage.Head, error) {
	head, err := r.Reader.Head(ctx)
	return head, ofLog(err)
}

// Entry implements storage.Reader.
func (r logReader) Entry(ctx context.Context, seq uint64) ([]byte, error) {
	entry, err := r.Reader.Entry(ctx, seq)
	return entry, ofLog(err)
}

// Entries implements storage.Reader.
func (r logReader) Entries(ctx context.Context, from uint64) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		for entry, err := range r.Reader.Entries(ctx, from) {
			if !yield(entry, ofLog(err)) {
				return
			}
		}
	}
}
