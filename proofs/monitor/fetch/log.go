package fetch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"colophon/proofs"
	"colophon/proofs/audit"
)

// Log reads a published log from its server, at the size of one checkpoint. It implements
// audit.PublishedLog for a single walk. Its Tile method is safe for concurrent use.
type Log struct {
	client    *Client
	published audit.Head
	parallel  int // number of bundles to fetch at once

	mu    sync.Mutex // guards the fields below
	tiles map[proofs.TilePath][]byte
	order []proofs.TilePath // paths of the cached tiles, oldest first
}

// keptTiles is the maximum number of hash tiles kept in memory, at 8 KiB each. It leaves room for
// the prefetched tiles and for the tiles on the path to the root.
const keptTiles = 128

// OpenLog fetches the checkpoint and returns the log at the checkpoint's size. If none of the keys
// has signed the checkpoint, the log has size 0, and the walk reports why. The error wraps an
// *audit.Damage if the response cannot be a checkpoint. parallel is the maximum number of bundles
// that Log.Entries fetches at once.
func OpenLog(ctx context.Context, c *Client, keys []*proofs.Verifier, parallel int) (*Log, error) {
	note, err := c.GetObject(ctx, "/log/checkpoint", MaxNoteBytes)
	if err == nil && len(note) == 0 {
		err = fmt.Errorf("%w: the checkpoint is empty", ErrMalformed)
	}
	if errors.Is(err, ErrTooLong) || errors.Is(err, ErrMalformed) {
		err = &audit.Damage{Kind: audit.DamageKindCheckpoint, Message: err.Error()}
	}
	if err != nil {
		return nil, fmt.Errorf("fetching the checkpoint: %w", err)
	}
	l := &Log{client: c, parallel: parallel, tiles: make(map[proofs.TilePath][]byte)}
	l.published.Checkpoint = note
	if checkpoint, err := proofs.OpenCheckpoint(note, keys...); err == nil {
		l.published.Size = checkpoint.Size
	}
	return l, nil
}

// Size returns the number of entries that the checkpoint covers, or 0 if none of the keys passed to
// OpenLog has signed the checkpoint.
func (l *Log) Size() uint64 { return l.published.Size }

// Checkpoint returns the note that OpenLog fetched, even if no trusted key has signed it.
func (l *Log) Checkpoint() []byte { return l.published.Checkpoint }

// Head implements audit.PublishedLog.
func (l *Log) Head(context.Context) (audit.Head, error) { return l.published, nil }

// Tile implements audit.PublishedLog.
func (l *Log) Tile(ctx context.Context, level uint8, index uint64) ([]byte, error) {
	path := proofs.TilePath{Level: level, Index: index, Width: proofs.TileWidth(level, index, l.published.Size)}
	if path.Width == 0 {
		return nil, fmt.Errorf("a log of %d entries has no tile %d/%d", l.published.Size, level, index)
	}
	l.mu.Lock()
	tile, kept := l.tiles[path]
	l.mu.Unlock()
	if kept {
		return tile, nil
	}
	// Allow the length of a full tile even for a partial tile. If a tile is too long, the walk can
	// then report its position, which GetObject cannot do.
	tile, err := l.client.GetObject(ctx, "/log/"+path.String(), proofs.FullTileWidth*proofs.HashSize)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, kept := l.tiles[path]; !kept {
		if l.order = append(l.order, path); len(l.order) > keptTiles {
			delete(l.tiles, l.order[0])
			l.order = l.order[1:]
		}
		l.tiles[path] = tile
	}
	return tile, nil
}

// Entries implements audit.PublishedLog. After yielding the first bundle, it prefetches the
// following bundles and the tiles that contain their leaf hashes.
func (l *Log) Entries(ctx context.Context, from uint64) iter.Seq2[[]byte, error] {
	return l.entries(ctx, from, l.bundleWithTile)
}

// EntriesWithoutPrefetch is like Entries but prefetches no tiles, for a caller that needs few of
// them.
func (l *Log) EntriesWithoutPrefetch(ctx context.Context, from uint64) iter.Seq2[[]byte, error] {
	return l.entries(ctx, from, l.bundle)
}

// bundleFunc fetches the entry bundle at the given index.
type bundleFunc func(ctx context.Context, index uint64) entryBundle

func (l *Log) entries(ctx context.Context, from uint64, bundle bundleFunc) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if from >= l.published.Size {
			return
		}
		first := from / proofs.FullTileWidth
		if !yieldBundle(bundle(ctx, first), from%proofs.FullTileWidth, yield) {
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for ahead := range l.ahead(ctx, first+1, bundle) {
			if !yieldBundle(<-ahead, 0, yield) {
				return
			}
		}
	}
}

// entryBundle contains the entries of a fetched bundle, an error, or both.
type entryBundle struct {
	entries [][]byte
	err     error // if not nil, yielded after the entries
}

// yieldBundle yields the entries of b, starting at index skipped, and then b.err if it is not nil.
// It reports whether the iteration should continue.
func yieldBundle(b entryBundle, skipped uint64, yield func([]byte, error) bool) bool {
	for i, entry := range b.entries {
		if uint64(i) >= skipped && !yield(entry, nil) {
			return false
		}
	}
	if b.err != nil {
		yield(nil, b.err)
	}
	return b.err == nil
}

// ahead fetches the log's bundles several at a time, starting at bundle index from. The returned
// queue contains one channel per bundle, in order. Each channel receives one bundle.
func (l *Log) ahead(ctx context.Context, from uint64, bundle bundleFunc) <-chan chan entryBundle {
	queue := make(chan chan entryBundle, max(0, l.parallel-1))
	go func() {
		defer close(queue)
		for index := from; index*proofs.FullTileWidth < l.published.Size; index++ {
			next := make(chan entryBundle, 1)
			select {
			case queue <- next:
			case <-ctx.Done():
				return
			}
			go func() { next <- bundle(ctx, index) }()
		}
	}()
	return queue
}

// bundleWithTile fetches an entry bundle and, at the same time, the hash tile of its leaves.
func (l *Log) bundleWithTile(ctx context.Context, index uint64) entryBundle {
	tile := make(chan struct{})
	go func() {
		defer close(tile)
		_, _ = l.Tile(ctx, 0, index) // if this fails, the walk reports the error when it needs the tile
	}()
	defer func() { <-tile }()
	return l.bundle(ctx, index)
}

// bundle fetches an entry bundle. The error in the result is an *audit.Damage if the bundle is
// malformed or has the wrong number of entries.
func (l *Log) bundle(ctx context.Context, index uint64) entryBundle {
	path := proofs.TilePath{IsEntryBundle: true, Index: index, Width: proofs.TileWidth(0, index, l.published.Size)}
	body, err := l.client.GetObject(ctx, "/log/"+path.String(), int64(path.Width*(2+proofs.MaxEntryBytes)))
	if errors.Is(err, ErrTooLong) || errors.Is(err, ErrMalformed) {
		return entryBundle{err: bundleDamage(audit.DamageKindEntry, path, 0, err)}
	}
	if err != nil {
		return entryBundle{err: err}
	}
	entries, err := proofs.ParseBundle(body)
	switch {
	case err != nil:
		return entryBundle{err: bundleDamage(audit.DamageKindEntry, path, 0, err)}
	case len(entries) < path.Width:
		err = bundleDamage(audit.DamageKindTruncation, path, len(entries), fmt.Errorf("the bundle has only %d of %d entries", len(entries), path.Width))
	case len(entries) > path.Width:
		err = bundleDamage(audit.DamageKindEntry, path, path.Width, fmt.Errorf("the bundle has %d entries, but should have only %d", len(entries), path.Width))
		entries = entries[:path.Width-1] // also drops the last expected entry, because the walk would stop after it and never see err
	}
	return entryBundle{entries, err}
}

// bundleDamage returns an *audit.Damage that reports err for one entry of a bundle. number is the
// index of the entry in the bundle.
func bundleDamage(kind audit.DamageKind, path proofs.TilePath, number int, err error) error {
	return &audit.Damage{Kind: kind, Seq: path.Index*proofs.FullTileWidth + uint64(number), TilePath: path.String(), Message: err.Error()}
}
