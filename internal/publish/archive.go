package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"colophon/internal/publish/bucket"
	"colophon/ledger"
	"colophon/proofs"
	"colophon/storage"
)

// step is the maximum number of bundles that archive removes from the store at a time. It bounds the
// size of the transaction.
const step = 8

// kept lists byte strings by which archive recognises the entries that must stay in the store. A server needs
// these entries to start, and must be able to start while the bucket does not respond. An entry that contains
// one of the strings by chance also stays.
var kept = [][]byte{[]byte(`"kind":"ledger_created"`), []byte(`"kind":"key_rotated"`)}

// archive removes some of the old entries that are in the bucket from the store. more reports whether more of
// them can be removed. Before archive removes an entry, it reads the copy from the bucket and compares it
// with the store and with the signed tree.
func (c *copier) archive(ctx context.Context) (more bool, err error) {
	if !c.options.ArchiveOldEntries || c.at == nil {
		return false, nil
	}
	before, err := storage.ReadArchivedRange(ctx, c.ledger.Reader())
	if err != nil {
		return false, err
	}
	c.archivedBelow.Store(before.EndSeq)
	due := c.at.size - min(c.at.size, max(c.options.RetainedEntries, 1)) // the last entry always stays
	due -= due % proofs.FullTileWidth
	if due <= before.EndSeq {
		return false, nil
	}
	next := storage.ArchivedRange{EndSeq: min(due, before.EndSeq+step*proofs.FullTileWidth), URL: c.options.BucketURL}
	r := round{copier: c, head: c.ledger.Head()}
	var keep []uint64
	entries, stop := iter.Pull2(c.ledger.Reader().Entries(ctx, before.EndSeq-before.EndSeq%proofs.FullTileWidth))
	defer stop()
	for index := before.EndSeq / proofs.FullTileWidth; index < next.EndSeq/proofs.FullTileWidth; index++ {
		found, err := r.verify(ctx, index, entries)
		if err != nil {
			return false, err
		}
		keep = append(keep, found...)
	}
	if err := ledger.DeleteArchivedEntries(ctx, c.ledger, next, keep); err != nil {
		return false, err
	}
	c.archivedBelow.Store(next.EndSeq)
	c.log.Debug("old entries were removed from the database", "below", next.EndSeq, "bucket", c.options.BucketURL)
	return next.EndSeq < due, nil
}

// verify reads a tile of level 0 and the corresponding entry bundle from the bucket, and compares
// them with the store and the signed tree. It returns the seqs of the entries that must stay in the
// store. It reads the entries of the bundle from next.
func (r *round) verify(ctx context.Context, index uint64, next func() (storage.Entry, error, bool)) (keep []uint64, err error) {
	for _, path := range []proofs.TilePath{{Index: index, Width: proofs.FullTileWidth}, {Index: index, Width: proofs.FullTileWidth, IsEntryBundle: true}} {
		var want []byte
		if path.IsEntryBundle {
			want, err = readBundle(path, next, 0)
		}
		if err == nil {
			want, err = r.content(ctx, path, want)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errUnreadable, err)
		}
		limited, cancel := context.WithTimeout(ctx, r.options.Timeout)
		got, _, err := r.options.Bucket.Get(limited, r.name(path.String()), int64(len(want)))
		cancel()
		switch {
		case errors.Is(err, bucket.ErrTooLarge), err == nil && !bytes.Equal(got, want):
			return nil, fmt.Errorf("verifying %s: %w", r.name(path.String()), errDifferent)
		case err != nil:
			return nil, err
		case !path.IsEntryBundle:
			continue
		}
		entries, err := proofs.ParseBundle(got)
		if err != nil {
			return nil, err
		}
		for i, entry := range entries {
			for _, part := range kept {
				if bytes.Contains(entry, part) {
					keep = append(keep, index*proofs.FullTileWidth+uint64(i))
					break
				}
			}
		}
	}
	return keep, nil
}

// noteArchive logs a failure to archive unless it is the same as the previous failure. It also logs the first
// success after a failure.
func (c *copier) noteArchive(err error) {
	message := ""
	if err != nil {
		message = err.Error()
		c.archiveFailures.Add(1)
	}
	if message == c.archiving {
		return
	}
	c.archiving = message
	if err != nil {
		c.log.Error("cannot archive old entries; they stay in the database, and the server will retry", "bucket", c.options.BucketURL, "error", err)
	} else {
		c.log.Info("old entries can be archived again", "bucket", c.options.BucketURL)
	}
}
