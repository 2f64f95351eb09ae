package pebble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"colophon/storage/pebble/internal/keys"
)

// span is a range of keys; its end is excluded.
type span struct{ start, end []byte }

// tableBytes is the least amount of data between two erased contents that is left alone; less
// is rewritten with them. It is about the smallest size of a table.
const tableBytes = 4 << 20

// spans joins sorted ranges that are close together.
func (d *Database) spans(ctx context.Context, ranges []span) ([]span, error) {
	var joined []span
	for _, next := range ranges {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if len(joined) > 0 {
			last := &joined[len(joined)-1]
			between, err := d.between(last.end, next.start)
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

// between estimates the bytes of tables between two keys.
func (d *Database) between(start, end []byte) (uint64, error) {
	if bytes.Compare(start, end) >= 0 {
		return 0, nil
	}
	n, err := d.engine.EstimateDiskUsage(start, end)
	if err != nil {
		return 0, fmt.Errorf("estimating the size of tables: %w", err)
	}
	return n, nil
}

// rewriteAll rewrites all files with content of the marks, and returns nil once the old files
// are gone.
func (e *eraser) rewriteAll(ctx context.Context, marks []mark) error {
	release, err := e.makeRoom()
	if err != nil {
		return err
	}
	defer release()
	if err := e.rewrite(ctx, marks); err != nil {
		return err
	}
	return e.checkGone(ctx, marks)
}

// rewrite compacts the tables that contain or refer to the content of the marks, and those
// with its places, at every level. Deleted data leaves the files only when a compaction meets
// its tombstone.
func (e *eraser) rewrite(ctx context.Context, marks []mark) error {
	var contents, places []span
	for _, m := range marks {
		contents = append(contents, span{m.content, append(bytes.Clone(m.content), 0)})
		start, end := keys.HoldingRange(m.ledger, m.Digest)
		places = append(places, span{start, end})
	}
	slices.SortFunc(places, func(a, b span) int { return bytes.Compare(a.start, b.start) })
	for _, ranges := range [][]span{contents, places} {
		joined, err := e.db.spans(ctx, ranges)
		if err != nil {
			return err
		}
		for _, s := range joined {
			if err := e.db.engine.Compact(ctx, s.start, s.end, false); err != nil {
				return fmt.Errorf("rewriting tables: %w", err)
			}
		}
	}
	return nil
}

// makeRoom lets compactions use space below the mark until release is called: all but what the
// logs and memory tables need, and two files more. Two compactions may run, and each checks
// before each file. storage.ErrNoSpace if there is less space than that.
func (e *eraser) makeRoom() (release func(), err error) {
	largest, err := e.largestFile()
	if err != nil {
		return nil, err
	}
	least := leastMark + 2*largest
	if err := e.db.space.above(least); err != nil {
		return nil, fmt.Errorf("rewriting tables: %w", err)
	}
	e.db.reserve.erasing.Store(least)
	return func() { e.db.reserve.erasing.Store(0) }, nil
}

// largestFile returns the length of the largest table or value file, in bytes.
func (e *eraser) largestFile() (uint64, error) {
	names, err := e.db.space.fs.List(e.db.space.dir)
	if err != nil {
		return 0, fmt.Errorf("looking for tables: %w", err)
	}
	var largest uint64
	for _, name := range names {
		if !strings.HasSuffix(name, tableSuffix) && !strings.HasSuffix(name, valuesSuffix) {
			continue
		}
		info, err := e.db.space.fs.Stat(e.db.space.fs.PathJoin(e.db.space.dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err != nil {
			return 0, fmt.Errorf("looking for tables: %w", err)
		}
		largest = max(largest, uint64(info.Size()))
	}
	return largest, nil
}
