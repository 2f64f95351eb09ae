package monitor

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"colophon/ledger"
	"colophon/ledger/record"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/storage"
)

// replica is a copy of a log in files: from which an auditor derives their own answers.
// It is written by the walk, then sealed, and then read by all. It has no content.
type replica struct {
	Name    string
	size    uint64 // entries that it shows once it is sealed
	Written uint64 // entries
	entries *os.File
	ends    *os.File // of every entry, the offset of its end
	out     [2]*bufio.Writer
	end     uint64
	redacts map[uint64]uint64 // the event that redacts a record; of the walk
	head    storage.Head
	first   []byte // the first entry to who asks for it alone, which is for the key: it names that of sign

	tiles sync.Mutex // held while past is read
	past  audit.Past
}

// errReadOnly: a copy takes no commits.
var errReadOnly = errors.New("a copy of a log cannot be written to")

func NewReplica(dir, name string, redacts map[uint64]uint64) (*replica, error) {
	r := &replica{Name: name, redacts: redacts}
	for i, file := range [...]**os.File{&r.entries, &r.ends} {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("replica-%d", i)))
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		*file, r.out[i] = f, bufio.NewWriterSize(f, 1<<20)
	}
	return r, nil
}

// Add appends an entry.
func (r *replica) Add(e audit.Walked) error {
	r.end += uint64(len(e.Entry))
	r.Written++
	_, err := r.out[0].Write(e.Entry)
	if err == nil {
		_, err = r.out[1].Write(binary.BigEndian.AppendUint64(nil, r.end))
	}
	return err
}

// Seal ends writing. The copy shows the first size entries; past has the tiles of
// their tree.
func (r *replica) Seal(size uint64, past audit.Past) error {
	r.size, r.past = size, past
	return errors.Join(r.out[0].Flush(), r.out[1].Flush())
}

// sign gives the copy a head, with a checkpoint by a key that is made up, and a first
// event that names that key: no answer depends on whose it is.
func (r *replica) sign(signer *proofs.Signer) error {
	tree, err := proofs.OpenTree(r.size, r.readTile, nil)
	if err != nil {
		return fmt.Errorf("the tree of the copy: %w", err)
	}
	created, _, err := r.timeOf(0)
	if err != nil {
		return err
	}
	body := record.AppendLedgerCreated(nil, record.Event{Actor: ledger.Anonymous, Ledger: r.Name}, signer.Origin(), signer.Verifier().String())
	r.first = proofs.AppendEntry(nil, proofs.Hash{}, record.AppendSuffix(body, 0, created))
	last, tip, err := r.timeOf(r.size - 1)
	if err != nil {
		return err
	}
	r.head = storage.Head{Size: r.size, Tip: tip, Time: last.UnixMicro()}
	r.head.Checkpoint, err = signer.Sign(proofs.Checkpoint{Origin: signer.Origin(), Size: r.size, Root: tree.Root()})
	return err
}

// timeOf is the time of an event, and its hash.
func (r *replica) timeOf(seq uint64) (time.Time, proofs.Hash, error) {
	entry, err := r.read(seq)
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
		return time.Time{}, proofs.Hash{}, fmt.Errorf("event %d of the copy: %w", seq, err)
	}
	return event.Time, proofs.EventHash(prev, body), nil
}

func (r *replica) readTile(level uint8, index uint64) ([]byte, error) {
	r.tiles.Lock()
	defer r.tiles.Unlock()
	return r.past.Tile(level, index)
}

// read reads an entry.
func (r *replica) read(seq uint64) ([]byte, error) {
	var ends [16]byte
	at, places := int64(seq)*8-8, ends[:]
	if seq == 0 {
		at, places = 0, ends[8:] // the first begins at 0
	}
	if _, err := r.ends.ReadAt(places, at); err != nil {
		return nil, fmt.Errorf("entry %d of the copy: %w", seq, err)
	}
	begin, end := binary.BigEndian.Uint64(ends[:8]), binary.BigEndian.Uint64(ends[8:])
	entry := make([]byte, end-begin)
	if _, err := r.entries.ReadAt(entry, int64(begin)); err != nil {
		return nil, fmt.Errorf("entry %d of the copy: %w", seq, err)
	}
	return entry, nil
}

// Close lets go of the files.
func (r *replica) Close() error {
	var errs []error
	for _, f := range [...]*os.File{r.entries, r.ends} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// replicaStore is a sealed replica as a ledger's store.
type replicaStore struct{ *replica }

// Head implements storage.Reader.
func (s replicaStore) Head(ctx context.Context) (storage.Head, error) { return s.head, ctx.Err() }

// Tile implements storage.Reader.
func (s replicaStore) Tile(_ context.Context, level uint8, index uint64) ([]byte, error) {
	return s.readTile(level, index)
}

// Entry implements storage.Reader.
func (s replicaStore) Entry(ctx context.Context, seq uint64) ([]byte, error) {
	if seq >= s.size {
		return nil, fmt.Errorf("entry %d of %d: %w", seq, s.size, storage.ErrNotFound)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if seq == 0 {
		return slices.Clone(s.first), nil
	}
	return s.read(seq)
}

// Entries implements storage.Reader.
func (s replicaStore) Entries(ctx context.Context, from uint64) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		for seq := from; seq < s.size; seq++ {
			entry, err := s.read(seq)
			err = errors.Join(err, ctx.Err())
			if !yield(storage.Entry{Seq: seq, Bytes: entry}, err) || err != nil {
				return
			}
		}
	}
}

// Content implements storage.Reader.
func (replicaStore) Content(context.Context, storage.Hash) ([]byte, error) {
	return nil, storage.ErrNotFound
}

// References implements storage.Reader.
func (replicaStore) References(context.Context, storage.Hash) iter.Seq2[uint64, error] {
	return func(func(uint64, error) bool) {}
}

// Referenced implements storage.Reader.
func (replicaStore) Referenced(context.Context, storage.Hash, uint64) (bool, error) {
	return false, nil
}

// Redaction implements storage.Reader.
func (s replicaStore) Redaction(_ context.Context, seq uint64) (uint64, error) {
	by, redacted := s.redacts[seq]
	if !redacted || by >= s.size {
		return 0, storage.ErrNotFound
	}
	return by, nil
}

// Redactions implements storage.Reader.
func (s replicaStore) Redactions(context.Context) iter.Seq2[storage.Redaction, error] {
	return func(yield func(storage.Redaction, error) bool) {
		for seq, by := range s.redacts {
			if by < s.size && !yield(storage.Redaction{Seq: seq, By: by}, nil) {
				return
			}
		}
	}
}

// Key implements storage.Reader.
func (replicaStore) Key(context.Context, storage.Hash) (storage.Key, error) {
	return storage.Key{}, storage.ErrNotFound
}

// Keys implements storage.Reader.
func (replicaStore) Keys(context.Context, []storage.Hash) ([]storage.Key, error) { return nil, nil }

// Setting implements storage.Reader.
func (replicaStore) Setting(context.Context, string) ([]byte, error) {
	return nil, storage.ErrNotFound
}

// Info implements storage.Store.
func (s replicaStore) Info(context.Context) (storage.Info, error) { return s.info(), nil }

// Commit implements storage.Store.
func (replicaStore) Commit(context.Context, storage.Head, storage.Batch) error { return errReadOnly }

// Freeze implements storage.Store.
func (replicaStore) Freeze(context.Context) error { return errReadOnly }

// SetSetting implements storage.Store.
func (replicaStore) SetSetting(context.Context, string, []byte) error { return errReadOnly }

// Writable implements storage.Store.
func (replicaStore) Writable(context.Context) error { return nil }

func (r *replica) info() storage.Info { return storage.Info{Name: r.Name, Origin: ReplicaOrigin} }

// ReplicaOrigin is the origin of a copy.
const ReplicaOrigin = "replica.invalid"

// replicaDatabase has a sealed replica as its one ledger, and the key that it is sealed
// with.
type replicaDatabase struct {
	replica *replica
	signer  *proofs.Signer
}

// Ledgers implements storage.Database.
func (d replicaDatabase) Ledgers(context.Context) ([]storage.Info, error) {
	return []storage.Info{d.replica.info()}, nil
}

// Ledger implements storage.Database.
func (d replicaDatabase) Ledger(_ context.Context, name string) (storage.Store, error) {
	if name != d.replica.Name {
		return nil, storage.ErrNotFound
	}
	return replicaStore{d.replica}, nil
}

// Create implements storage.Database.
func (replicaDatabase) Create(context.Context, storage.Info) (storage.Store, error) {
	return nil, errReadOnly
}

// Close implements storage.Database.
func (replicaDatabase) Close() error { return nil }

// Load implements ledger.Keys.
func (d replicaDatabase) Load(string) (*proofs.Signer, error) { return d.signer, nil }

// Staged implements ledger.Keys.
func (replicaDatabase) Staged(string) (*proofs.Signer, error) { return nil, storage.ErrNotFound }

// Stage implements ledger.Keys.
func (replicaDatabase) Stage(string, *proofs.Signer) error { return errReadOnly }

// Confirm implements ledger.Keys.
func (replicaDatabase) Confirm(string) error { return errReadOnly }
