package replay

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"colophon/ledger/record"
	"colophon/proofs"
	"colophon/proofs/audit"
)

// logCopy is a copy of a log in files, without content. The walk of the audit adds entries. After
// show, the entries below the shown size can be read, concurrently too.
type logCopy struct {
	name    string // of the ledger
	size    uint64 // entries that it shows
	written uint64 // entries
	entries *os.File
	ends    *os.File // of each entry, the offset of its end
	out     [2]*bufio.Writer
	end     uint64
	// redactedBy has the redacting event of each redacted record.
	redactedBy map[uint64]uint64
	// tile reads a tile of the verified tree, which may be larger. It is safe for concurrent use.
	tile func(level uint8, index uint64) ([]byte, error)
}

func newLogCopy(dir, name string) (*logCopy, error) {
	l := &logCopy{name: name, redactedBy: make(map[uint64]uint64)}
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

// show makes the first size entries readable.
func (l *logCopy) show(size uint64) error {
	l.size = size
	return errors.Join(l.out[0].Flush(), l.out[1].Flush())
}

// rootAt returns the root of the tree at a size.
func (l *logCopy) rootAt(size uint64) (proofs.Hash, error) {
	tree, err := proofs.OpenTree(size, l.tile, nil)
	if err != nil {
		return proofs.Hash{}, fmt.Errorf("the tree of the copy of the log: %w", err)
	}
	return tree.Root(), nil
}

// timeOf returns the time of an event, and its hash.
func (l *logCopy) timeOf(seq uint64) (time.Time, proofs.Hash, error) {
	entry, err := l.read(seq)
	if err != nil {
		return time.Time{}, proofs.Hash{}, err
	}
	prev, body, err := proofs.SplitEntry(entry)
	if err != nil {
		return time.Time{}, proofs.Hash{}, err
	}
	var event struct {
		Time time.Time `json:"time"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return time.Time{}, proofs.Hash{}, fmt.Errorf("event %d of the copy of the log: %w", seq, err)
	}
	return event.Time, proofs.EventHash(prev, body), nil
}

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
