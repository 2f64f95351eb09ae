package replay

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/transparency-dev/formats/log"

	"colophon/ledger/record"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/storage"
)

// logCopy is a copy of a log in files, without content. The walk of the audit adds entries. After
// show, the entries below the shown size can be read, concurrently too. It implements index.Log
// and query.Log.
type logCopy struct {
	name    string        // of the ledger
	origin  string        // of the log
	size    atomic.Uint64 // entries that it shows; the index reads it at any time
	written uint64        // entries
	entries *os.File
	ends    *os.File // of each entry, the offset of its end
	out     [2]*bufio.Writer
	end     uint64
	// redactedBy has the redacting event of each redacted record.
	redactedBy map[uint64]uint64
	// tile reads a tile of the verified tree, which may be larger. It is safe for concurrent use.
	tile  func(level uint8, index uint64) ([]byte, error)
	cache *proofs.TileCache
	tree  *proofs.Prover // of the shown size
}

// cachedTiles bounds the cache of tiles. A tile takes 16 KiB.
const cachedTiles = 1024

func newLogCopy(dir, name string) (*logCopy, error) {
	l := &logCopy{name: name, redactedBy: make(map[uint64]uint64), cache: proofs.NewTileCache(cachedTiles)}
	for i, file := range [...]**os.File{&l.entries, &l.ends} {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("log-%d", i)))
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		*file, l.out[i] = f, bufio.NewWriterSize(f, 1<<20)
	}
	return l, nil
}

// add appends an entry.
func (l *logCopy) add(e audit.Walked) error {
	if e.Body.Kind == record.ContentRedacted {
		for seq := range e.Body.Redaction.Seqs.All() {
			if _, before := l.redactedBy[seq]; !before {
				l.redactedBy[seq] = e.Seq
			}
		}
	}
	l.end += uint64(len(e.Entry))
	l.written++
	_, err := l.out[0].Write(e.Entry)
	if err == nil {
		_, err = l.out[1].Write(binary.BigEndian.AppendUint64(nil, l.end))
	}
	return err
}

// show makes the first size entries readable. Nothing but the index may be reading.
func (l *logCopy) show(size uint64) error {
	if err := errors.Join(l.out[0].Flush(), l.out[1].Flush()); err != nil {
		return err
	}
	tree, err := proofs.OpenTree(size, l.tile, nil)
	if err != nil {
		return fmt.Errorf("the tree of the copy of the log: %w", err)
	}
	l.tree = proofs.NewProver(tree.Snapshot(), l.cache, l.tile)
	l.size.Store(size)
	return nil
}

// shown returns the number of entries that can be read.
func (l *logCopy) shown() uint64 { return l.size.Load() }

// read reads an entry.
func (l *logCopy) read(seq uint64) ([]byte, error) {
	var ends [16]byte
	at, places := int64(seq)*8-8, ends[:]
	if seq == 0 {
		at, places = 0, ends[8:] // the first begins at 0
	}
	if _, err := l.ends.ReadAt(places, at); err != nil {
		return nil, fmt.Errorf("entry %d of the copy of the log: %w", seq, err)
	}
	begin, end := binary.BigEndian.Uint64(ends[:8]), binary.BigEndian.Uint64(ends[8:])
	entry := make([]byte, end-begin)
	if _, err := l.entries.ReadAt(entry, int64(begin)); err != nil {
		return nil, fmt.Errorf("entry %d of the copy of the log: %w", seq, err)
	}
	return entry, nil
}

// Name implements query.Log.
func (l *logCopy) Name() string { return l.name }

// Head implements index.Log.
func (l *logCopy) Head(ctx context.Context) (storage.Head, error) {
	return storage.Head{Size: l.shown()}, ctx.Err()
}

// Entry implements index.Log and query.Log.
func (l *logCopy) Entry(ctx context.Context, seq uint64) ([]byte, error) {
	if size := l.shown(); seq >= size {
		return nil, fmt.Errorf("entry %d of %d: %w", seq, size, storage.ErrNotFound)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return l.read(seq)
}

// Entries implements index.Log.
func (l *logCopy) Entries(ctx context.Context, from uint64) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		for seq := from; seq < l.shown(); seq++ {
			entry, err := l.Entry(ctx, seq)
			if !yield(storage.Entry{Seq: seq, Bytes: entry}, err) || err != nil {
				return
			}
		}
	}
}

// Redaction implements query.Log.
func (l *logCopy) Redaction(_ context.Context, seq uint64) (uint64, error) {
	by, redacted := l.redactedBy[seq]
	if !redacted || by >= l.shown() {
		return 0, storage.ErrNotFound
	}
	return by, nil
}

// Prover implements query.Log.
func (l *logCopy) Prover(context.Context) *proofs.Prover { return l.tree }

// Checkpoint implements query.Log. Only the text of a checkpoint follows from the log, so it has
// no signature.
func (l *logCopy) Checkpoint(_ context.Context, size uint64) ([]byte, error) {
	root, err := l.tree.Root(size)
	return textOf(proofs.Checkpoint{Origin: l.origin, Size: size, Root: root}), err
}

// textOf returns the text of a checkpoint that is signed.
func textOf(c proofs.Checkpoint) []byte {
	return log.Checkpoint{Origin: c.Origin, Size: c.Size, Hash: c.Root[:]}.Marshal()
}

// Close closes the files.
func (l *logCopy) Close() error {
	var errs []error
	for _, f := range [...]*os.File{l.entries, l.ends} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
