package reference

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

// Log is a copy of a log, stored in files and without content. Add appends entries, and
// Answerer.AdvanceTo makes them readable. Multiple goroutines may read these entries and compute
// answers concurrently. Add must not be called while an answer is being computed. A Log implements
// index.Log and query.Log.
type Log struct {
	name    string        // name of the ledger
	origin  string        // origin of the log
	size    atomic.Uint64 // number of readable entries; the index may read it at any time
	written uint64        // number of added entries
	entries *os.File
	ends    *os.File // the offset at which each entry ends
	out     [2]*bufio.Writer
	end     uint64
	// redactedBy maps each redacted record to the first event that redacts it.
	redactedBy map[uint64]uint64
	tile       func(level uint8, index uint64) ([]byte, error)
	cache      *proofs.TileCache
	tree       *proofs.Prover // prover for the tree of the readable entries
}

// cachedTiles is the capacity of the tile cache. A tile uses 16 KiB.
const cachedTiles = 1024

// NewLog returns an empty Log for a copy of the named ledger's log. It creates the Log's files in
// dir. The caller must close the Log and remove the files.
func NewLog(dir, name string) (*Log, error) {
	l := &Log{name: name, redactedBy: make(map[uint64]uint64), cache: proofs.NewTileCache(cachedTiles)}
	for i, file := range [...]**os.File{&l.entries, &l.ends} {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("log-%d", i)))
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		*file, l.out[i] = f, bufio.NewWriterSize(f, 1<<20)
	}
	return l, nil
}

// Add appends an entry, which must be the next entry of the log.
func (l *Log) Add(e audit.WalkedEntry) error {
	if e.Body.Kind == record.KindContentRedacted {
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

// show makes the first size entries readable. Only the index may read during the call.
func (l *Log) show(size uint64) error {
	if err := errors.Join(l.out[0].Flush(), l.out[1].Flush()); err != nil {
		return err
	}
	tree, err := proofs.OpenTree(size, l.tile, nil)
	if err != nil {
		return fmt.Errorf("opening the tree of the local copy of the log: %w", err)
	}
	l.tree = proofs.NewProver(tree.Snapshot(), l.cache, l.tile)
	l.size.Store(size)
	return nil
}

// AddedCount returns the number of entries that have been added.
func (l *Log) AddedCount() uint64 { return l.written }

// RedactedBy returns the seq of the first event that redacts the record at seq. That event may be
// beyond the readable entries.
func (l *Log) RedactedBy(seq uint64) (by uint64, redacted bool) {
	by, redacted = l.redactedBy[seq]
	return by, redacted
}

// Size returns the number of readable entries.
func (l *Log) Size() uint64 { return l.size.Load() }

// read returns the entry at seq, which show must have made readable.
func (l *Log) read(seq uint64) ([]byte, error) {
	var ends [16]byte
	at, places := int64(seq)*8-8, ends[:]
	if seq == 0 {
		at, places = 0, ends[8:] // the first entry begins at offset 0
	}
	if _, err := l.ends.ReadAt(places, at); err != nil {
		return nil, fmt.Errorf("reading entry %d of the local copy of the log: %w", seq, err)
	}
	begin, end := binary.BigEndian.Uint64(ends[:8]), binary.BigEndian.Uint64(ends[8:])
	entry := make([]byte, end-begin)
	if _, err := l.entries.ReadAt(entry, int64(begin)); err != nil {
		return nil, fmt.Errorf("reading entry %d of the local copy of the log: %w", seq, err)
	}
	return entry, nil
}

// Name implements query.Log.
func (l *Log) Name() string { return l.name }

// Head implements index.Log.
func (l *Log) Head(ctx context.Context) (storage.Head, error) {
	return storage.Head{Size: l.Size()}, ctx.Err()
}

// Entry implements index.Log and query.Log.
func (l *Log) Entry(ctx context.Context, seq uint64) ([]byte, error) {
	if size := l.Size(); seq >= size {
		return nil, fmt.Errorf("reading entry %d of a log of size %d: %w", seq, size, storage.ErrNotFound)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return l.read(seq)
}

// Entries implements index.Log.
func (l *Log) Entries(ctx context.Context, from uint64) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		for seq := from; seq < l.Size(); seq++ {
			entry, err := l.Entry(ctx, seq)
			if !yield(storage.Entry{Seq: seq, Bytes: entry}, err) || err != nil {
				return
			}
		}
	}
}

// RedactingSeq implements query.Log.
func (l *Log) RedactingSeq(_ context.Context, seq uint64) (uint64, error) {
	by, redacted := l.redactedBy[seq]
	if !redacted || by >= l.Size() {
		return 0, storage.ErrNotFound
	}
	return by, nil
}

// Prover implements query.Log.
func (l *Log) Prover(context.Context) *proofs.Prover { return l.tree }

// Checkpoint implements query.Log. Only the text of a checkpoint follows from the log, so the
// result has no signature.
func (l *Log) Checkpoint(_ context.Context, size uint64) ([]byte, error) {
	root, err := l.tree.Root(size)
	return CheckpointText(proofs.Checkpoint{Origin: l.origin, Size: size, Root: root}), err
}

// CheckpointText returns the text of a checkpoint, which is the part that the log signs.
func CheckpointText(c proofs.Checkpoint) []byte {
	return log.Checkpoint{Origin: c.Origin, Size: c.Size, Hash: c.Root[:]}.Marshal()
}

// Close closes the files. It does not remove them.
func (l *Log) Close() error {
	var errs []error
	for _, f := range [...]*os.File{l.entries, l.ends} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
