package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"colophon/proofs"
	"colophon/storage"
)

// store wraps the store of a ledger. Entries and tiles that the wrapped store has archived are read
// from a bucket.
type store struct {
	storage.Store
	database *Database
	name     string
}

var _ storage.Archiver = (*store)(nil)

// leased is a store in a database that several servers share.
type leased struct {
	*store
	lease storage.LeasedStore
}

// HoldsLease implements storage.LeasedStore.
func (l leased) HoldsLease() bool { return l.lease.HoldsLease() }

// Unwrap returns the wrapped store (see storage.PageReaderOf).
func (s *store) Unwrap() storage.Reader { return s.Store }

// Archive implements storage.Archiver.
func (s *store) Archive(ctx context.Context, a storage.ArchivedRange, keep []uint64) error {
	archiver, can := s.Store.(storage.Archiver)
	if !can {
		return fmt.Errorf("archiving ledger %q: its store does not support archiving", s.name)
	}
	return archiver.Archive(ctx, a, keep)
}

// Tile implements storage.Reader.
func (s *store) Tile(ctx context.Context, level uint8, index uint64) ([]byte, error) {
	hashes, err := s.Store.Tile(ctx, level, index)
	var archived *storage.ArchivedError
	if !errors.As(err, &archived) {
		return hashes, err
	}
	body, err := s.object(ctx, archived.ArchivedRange, proofs.TilePath{Level: level, Index: index, Width: proofs.FullTileWidth})
	if err != nil {
		return nil, fmt.Errorf("reading tile %d/%d of ledger %q: %w", level, index, s.name, err)
	}
	return bytes.Clone(body), nil
}

func bundlePath(index uint64) proofs.TilePath {
	return proofs.TilePath{IsEntryBundle: true, Index: index, Width: proofs.FullTileWidth}
}

// bundle returns the entries of a bundle. The caller must not change them.
func (s *store) bundle(ctx context.Context, a storage.ArchivedRange, index uint64) ([][]byte, error) {
	body, err := s.object(ctx, a, bundlePath(index))
	if err != nil {
		return nil, err
	}
	return proofs.ParseBundle(body)
}

// Entry implements storage.Reader.
func (s *store) Entry(ctx context.Context, seq uint64) ([]byte, error) {
	entry, err := s.Store.Entry(ctx, seq)
	var archived *storage.ArchivedError
	if !errors.As(err, &archived) {
		return entry, err
	}
	entries, err := s.bundle(ctx, archived.ArchivedRange, seq/proofs.FullTileWidth)
	if err != nil {
		return nil, fmt.Errorf("reading entry %d of ledger %q: %w", seq, s.name, err)
	}
	return bytes.Clone(entries[seq%proofs.FullTileWidth]), nil
}

// Entries implements storage.Reader.
func (s *store) Entries(ctx context.Context, from uint64) iter.Seq2[storage.Entry, error] {
	head, err := s.Store.Head(ctx)
	return func(yield func(storage.Entry, error) bool) {
		if err != nil {
			yield(storage.Entry{}, err)
			return
		}
		for next := from; next < head.Size; {
			var archived *storage.ArchivedError
			for entry, err := range s.Store.Entries(ctx, next) {
				if errors.As(err, &archived) {
					break
				}
				if err == nil && entry.Seq >= head.Size || !yield(entry, err) || err != nil {
					return
				}
				next = entry.Seq + 1
			}
			if archived == nil {
				return
			}
			stop := min(archived.EndSeq, head.Size)
			for next < stop {
				entries, err := s.walkBundle(ctx, archived.ArchivedRange, next/proofs.FullTileWidth)
				if err != nil {
					yield(storage.Entry{}, fmt.Errorf("reading entries of ledger %q: %w", s.name, err))
					return
				}
				for _, entry := range entries[next%proofs.FullTileWidth:] {
					if !yield(storage.Entry{Seq: next, Bytes: entry}, nil) {
						return
					}
					next++
				}
			}
		}
	}
}

// walkBundle returns the entries of a bundle, and starts to fetch the next bundles in the
// background.
func (s *store) walkBundle(ctx context.Context, a storage.ArchivedRange, index uint64) ([][]byte, error) {
	for next := index + 1; next < min(index+1+ahead, a.EndSeq/proofs.FullTileWidth); next++ {
		s.database.running.Go(func() {
			_, _ = s.object(s.database.ctx, a, bundlePath(next)) // on failure, the walk fetches the bundle again and reports the error
		})
	}
	return s.bundle(ctx, a, index)
}
