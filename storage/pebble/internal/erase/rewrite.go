package erase

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"colophon/storage/pebble/internal/disk"
	"colophon/storage/pebble/internal/keys"
)

// span is a range of keys. Its end is excluded.
type span struct{ start, end []byte }

// tableBytes is the minimum distance, in bytes of table data, between erased pieces that are
// rewritten separately. If two pieces are closer, the data between them is rewritten, too.
// tableBytes is about the smallest size of a table.
const tableBytes = 4 << 20

// spans joins neighbouring ranges with less than tableBytes between them. ranges must be sorted.
func (e *Eraser) spans(ctx context.Context, ranges []span) ([]span, error) {
	var joined []span
	for _, next := range ranges {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if len(joined) > 0 {
			last := &joined[len(joined)-1]
			between, err := e.between(last.end, next.start)
			if err != nil {
				return nil, err
			}
			if between < tableBytes {
				last.end = next.end
				continue
			}
		}
		joined = append(joined, next)
	}
	return joined, nil
}

// between estimates how many bytes of table data lie between two keys. It returns 0 if end is not
// after start.
func (e *Eraser) between(start, end []byte) (uint64, error) {
	if bytes.Compare(start, end) >= 0 {
		return 0, nil
	}
	n, err := e.engine.EstimateDiskUsage(start, end)
	if err != nil {
		return 0, fmt.Errorf("estimating the size of tables: %w", err)
	}
	return n, nil
}

// rewriteAll rewrites all files that contain marked content. It returns nil once the old files are
// gone.
func (e *Eraser) rewriteAll(ctx context.Context, marks []PendingErasure) error {
	release, err := e.makeRoom()
	if err != nil {
		return err
	}
	defer release()
	if err := e.RewriteTables(ctx, marks); err != nil {
		return err
	}
	return e.CheckErased(ctx, marks)
}

// RewriteTables compacts, at every level, the tables that contain the marked content, refer to it,
// or contain its locations. Deleted data leaves a file only when a compaction merges it with its
// tombstone.
func (e *Eraser) RewriteTables(ctx context.Context, marks []PendingErasure) error {
	var contents, locations []span
	for _, m := range marks {
		contents = append(contents, span{m.content, append(bytes.Clone(m.content), 0)})
		start, end := keys.DigestRange(m.ledger, m.Digest)
		locations = append(locations, span{start, end})
	}
	slices.SortFunc(locations, func(a, b span) int { return bytes.Compare(a.start, b.start) })
	for _, ranges := range [][]span{contents, locations} {
		joined, err := e.spans(ctx, ranges)
		if err != nil {
			return err
		}
		for _, s := range joined {
			if err := e.engine.Compact(ctx, s.start, s.end, false); err != nil {
				return fmt.Errorf("rewriting tables: %w", err)
			}
		}
	}
	return nil
}

// makeRoom lets compactions use space below the free-space threshold until release is called. It
// keeps the space that the logs and memory tables need. It also keeps space for two more files of
// the largest size, because two compactions can run at the same time and each checks the space
// before each file. It returns storage.ErrNoSpace if less space is free.
func (e *Eraser) makeRoom() (release func(), err error) {
	largest, err := e.largestFile()
	if err != nil {
		return nil, err
	}
	least := disk.MinReserveBytes + 2*largest
	if err := e.Config.Space.CheckWithMaxThreshold(least); err != nil {
		return nil, fmt.Errorf("rewriting tables: %w", err)
	}
	e.Config.ReserveFS.ErasureMinFreeBytes.Store(least)
	return func() { e.Config.ReserveFS.ErasureMinFreeBytes.Store(0) }, nil
}

// largestFile returns the size of the largest table or value file in bytes, or 0 if there is none.
func (e *Eraser) largestFile() (uint64, error) {
	names, err := e.Config.Space.FS.List(e.Config.Space.Dir)
	if err != nil {
		return 0, fmt.Errorf("finding the largest table or value file: %w", err)
	}
	var largest uint64
	for _, name := range names {
		if !strings.HasSuffix(name, TableSuffix) && !strings.HasSuffix(name, ValueFileSuffix) {
			continue
		}
		info, err := e.Config.Space.FS.Stat(e.Config.Space.FS.PathJoin(e.Config.Space.Dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted in the meantime
		}
		if err != nil {
			return 0, fmt.Errorf("finding the largest table or value file: %w", err)
		}
		largest = max(largest, uint64(info.Size()))
	}
	return largest, nil
}
