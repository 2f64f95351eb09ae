package index

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"iter"
	"time"

	"colophon/ledger/index/rowstore"
)

// SnapshotFetchFunc yields the parts of a ledger's index snapshot from another server, in order. It
// checks that the snapshot belongs to the ledger's log, and that each part arrived unchanged.
type SnapshotFetchFunc func(ctx context.Context, ledger string) iter.Seq2[*SnapshotPart, error]

// SetSnapshotFetchFunc makes each follower begin with a snapshot from another server if its own
// index is far behind the log. If the snapshot cannot be fetched, the follower folds the events.
// Call SetSnapshotFetchFunc before Follow.
func (s *Store) SetSnapshotFetchFunc(fetch SnapshotFetchFunc) { s.source = fetch }

// ErrUnusableSnapshot means that another server's index snapshot cannot be used.
var ErrUnusableSnapshot = errors.New("index: the snapshot cannot be used")

// fetchShare limits when an index fetches a snapshot: it must lack at least 1/fetchShare of the
// log's events. Otherwise it folds the missing events, because a snapshot contains all rows,
// including those that the index already has.
const fetchShare = 4

// maxRowBytes limits the average size, in bytes, of the rows of one event, so that a faulty server
// cannot send an unlimited number of rows. The rows of a typical event take less than 2 KiB.
const maxRowBytes = 64 << 10

// fetchSnapshot replaces a ledger's part of the index with a snapshot from another server if the
// index is far behind the log. If an error occurs, the index does not change. It is called in the
// follower's goroutine.
func fetchSnapshot(ctx context.Context, f *Follower) {
	c, log := &f.store.config, f.store.config.RowStore.Logger.With("ledger", f.name)
	if f.store.source == nil || f.store.rows.IsReadOnly() {
		return
	}
	head, err := f.log.Head(ctx)
	if behind := head.Size - min(head.Size, f.Size()); err == nil && (behind < c.MinFetchLag || behind < head.Size/fetchShare) {
		return
	}
	begin, s := time.Now(), snapshotCheck{all: sha256.New()}
	if err == nil {
		log.Info("fetching another server's index", "size", f.Size(), "events", head.Size)
		err = s.install(ctx, f, f.store.source, f.Size())
	}
	switch {
	case ctx.Err() != nil: // the follower is closed
	case err != nil:
		log.Error("cannot use another server's index snapshot; building the index from the log instead", "error", err)
	default:
		log.Info("installed another server's index", "size", s.size, "bytes", s.bytes, "digest", s.digest(), "took", time.Since(begin))
	}
}

// InstallSnapshot fetches a snapshot of a ledger's index from another server, and replaces the
// ledger's part of the index with it. It returns the size and the digest of the snapshot. The
// ledger must not be followed.
func (s *Store) InstallSnapshot(ctx context.Context, name string, log Log, fetch SnapshotFetchFunc) (size uint64, digest string, err error) {
	f, err := s.AddStoppedFollower(ctx, name, log)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	check := snapshotCheck{all: sha256.New()}
	if err := check.install(ctx, f, fetch, 0); err != nil {
		return 0, "", fmt.Errorf("fetching the index of ledger %q: %w", name, err)
	}
	return check.size, check.digest(), nil
}

// install fetches a snapshot, checks it, and installs it. It rejects a snapshot that covers fewer
// than minSize events.
func (s *snapshotCheck) install(ctx context.Context, f *Follower, fetch SnapshotFetchFunc, minSize uint64) (err error) {
	rows, err := newInstall(f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for part, err := range fetch(ctx, f.name) {
		if err == nil {
			err = errors.Join(f.requireSpace(), f.store.rows.CheckAvailable(), s.part(part, rows))
		}
		if errors.Is(err, rowstore.ErrInvalidSnapshotPart) {
			err = fmt.Errorf("%w: %w", ErrUnusableSnapshot, err)
		}
		if err != nil {
			return err
		}
	}
	if err := s.end(); err != nil {
		return err
	}
	why, err := f.conflictWithLog(ctx, s.cursor)
	switch {
	case err != nil:
		return err
	case why != "":
		return fmt.Errorf("%w: the snapshot belongs to another log: %s", ErrUnusableSnapshot, why)
	case s.size < minSize:
		return fmt.Errorf("%w: the snapshot covers %d events, but this server's index covers %d", ErrUnusableSnapshot, s.size, minSize)
	}
	return commitInstall(ctx, f, rows)
}

// newInstall returns a SnapshotInstaller that replaces a ledger's rows.
func newInstall(f *Follower) (*rowstore.SnapshotInstaller, error) {
	if _, err := f.store.acquire(); err != nil {
		return nil, err
	}
	defer f.store.rows.Release()
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	return f.store.rows.NewSnapshotInstaller(f.name)
}

// commitInstall replaces a ledger's rows with the rows that the SnapshotInstaller has received. The
// fold then continues from the new rows.
func commitInstall(ctx context.Context, f *Follower, rows *rowstore.SnapshotInstaller) error {
	if _, err := f.store.acquire(); err != nil {
		return err
	}
	defer f.store.rows.Release()
	if !f.store.rows.Owns(&f.fold.Rows) { // the index folder was emptied, which also deleted the tables to install
		return ErrRebuilding
	}
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	// Publish an empty snapshot, so that no view of the old rows can be opened. Commit removes
	// these rows.
	f.publish(f.store.emptySnapshot())
	return errors.Join(rows.Commit(ctx), f.begin(ctx))
}

// snapshotCheck checks that the rows of a snapshot are consistent with its size. It cannot check
// that the rows were correctly derived from the events.
type snapshotCheck struct {
	cursor        // the snapshot's cursor; zero until the row that contains it is read
	size   uint64 // number of events, as stated by the parts
	bytes  uint64 // length of all rows so far
	hashes uint64 // number of rows that map an event_hash to its event
	all    hash.Hash
}

// digest returns the digest of all rows so far, in hexadecimal.
func (s *snapshotCheck) digest() string { return hex.EncodeToString(s.all.Sum(nil)) }

// part checks a part and stores its rows.
func (s *snapshotCheck) part(p *SnapshotPart, to *rowstore.SnapshotInstaller) error {
	if s.size == 0 {
		s.size = p.Size
	}
	s.bytes += uint64(len(p.Rows))
	s.all.Write(p.Rows)
	switch {
	case p.Size == 0:
		return fmt.Errorf("%w: the snapshot covers no events", ErrUnusableSnapshot)
	case p.Size != s.size:
		return fmt.Errorf("%w: the snapshot's size changed from %d to %d between parts", ErrUnusableSnapshot, s.size, p.Size)
	case s.bytes > 16*SnapshotPartBytes && s.bytes/maxRowBytes > s.size:
		return fmt.Errorf("%w: the snapshot's rows are too large for %d events", ErrUnusableSnapshot, s.size)
	}
	for row, err := range rowstore.DecodeSnapshotPart(p.Rows) {
		if err == nil {
			err = to.Add(row)
		}
		if err == nil {
			err = s.row(row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// row checks that a row agrees with the size of the snapshot.
func (s *snapshotCheck) row(row rowstore.SnapshotRow) (err error) {
	d, rest := rowstore.Dimension(row.Key[0]), row.Key[1:]
	switch {
	case d == cursorDimension && len(rest) == 0:
		if s.cursor, err = decodeCursor(row.Value); err != nil {
			return fmt.Errorf("%w: decoding the snapshot's cursor: %w", ErrUnusableSnapshot, err)
		}
		if s.partial {
			return fmt.Errorf("%w: the snapshot ends within event %d", ErrUnusableSnapshot, s.cursor.size)
		}
		if s.cursor.size != s.size {
			return fmt.Errorf("%w: the snapshot's size is %d, but its rows cover %d events", ErrUnusableSnapshot, s.size, s.cursor.size)
		}
	case d == hashDimension:
		s.hashes++
	case d&rowstore.VersionedBit != 0 && len(rest) >= rowstore.VersionSize && rowstore.DecodeVersion(rest) >= s.size:
		return fmt.Errorf("%w: row %x is from event %d, but the snapshot's size is %d", ErrUnusableSnapshot, row.Key, rowstore.DecodeVersion(rest), s.size)
	}
	return nil
}

// end checks, after the last part, that the snapshot has a cursor and the hash of each event.
func (s *snapshotCheck) end() error {
	switch {
	case s.cursor == cursor{}:
		return fmt.Errorf("%w: the snapshot has no cursor", ErrUnusableSnapshot)
	case s.hashes != s.size:
		return fmt.Errorf("%w: the snapshot has the hashes of %d events, but its size is %d", ErrUnusableSnapshot, s.hashes, s.size)
	}
	return nil
}
