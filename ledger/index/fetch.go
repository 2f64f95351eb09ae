package index

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"iter"
	"time"

	"colophon/ledger/index/rowstore"
)

// Fetch yields the parts of an index snapshot of a ledger from another server, in order. size
// is the number of events in this server's index. Fetch checks that the snapshot belongs to
// the ledger's log, and that each part arrived unchanged.
type Fetch func(ctx context.Context, ledger string, size uint64) iter.Seq2[*Part, error]

// FetchFrom makes each follower begin with a snapshot from another server if its own index is
// far behind the log. If that fails, it folds the events. Call FetchFrom before Follow.
func (s *Store) FetchFrom(fetch Fetch) { s.source = fetch }

// ErrSnapshot: another server's index snapshot cannot be used.
var ErrSnapshot = errors.New("index: the snapshot cannot be used")

// maxRowBytes bounds the average length of the rows of one event, so that a faulty server
// cannot send rows without end. Typical events have less than 2 KiB of rows.
const maxRowBytes = 64 << 10

// fetch replaces the ledger's part of the index by a snapshot from another server, if the
// index is far behind the log. After an error it changes nothing. It belongs to the follower's
// goroutine.
func (f *Follower) fetch(ctx context.Context) {
	c, log := &f.store.config, f.store.config.Rows.Log.With("ledger", f.name)
	if f.store.source == nil || f.store.rows.ReadOnly() {
		return
	}
	head, err := f.log.Head(ctx)
	if err == nil && head.Size < f.Size()+c.FetchLag {
		return
	}
	begin := time.Now()
	if err == nil {
		log.Info("fetching the index of another server", "size", f.Size(), "events", head.Size)
		err = f.install(ctx)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		log.Error("another server's index cannot be used: folding the events of the log instead", "error", err)
	default:
		log.Info("installed the index of another server", "size", f.Size(), "digest", fmt.Sprintf("%x", f.installed), "took", time.Since(begin))
	}
}

// install fetches a snapshot and installs it.
func (f *Follower) install(ctx context.Context) (err error) {
	rows, err := f.newInstall()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	s := snapshotCheck{all: sha256.New()}
	for part, err := range f.store.source(ctx, f.name, f.Size()) {
		if err != nil {
			return err
		}
		if err := errors.Join(s.begin(part), f.requireSpace(), f.store.rows.Refused()); err != nil {
			return err
		}
		for row, err := range rowstore.RowsOf(part.Rows) {
			if err == nil {
				err = errors.Join(s.row(row), rows.Add(row))
			}
			if errors.Is(err, rowstore.ErrPart) {
				err = fmt.Errorf("%w: %w", ErrSnapshot, err)
			}
			if err != nil {
				return err
			}
		}
	}
	if err := s.end(); err != nil {
		return err
	}
	if why, err := f.conflictWithLog(ctx, s.cursor); err != nil || why != "" {
		return errors.Join(err, fmt.Errorf("%w: it is of another log: %s", ErrSnapshot, why))
	}
	if s.size <= f.Size() {
		return fmt.Errorf("%w: it has %d events, and this server's index has %d", ErrSnapshot, s.size, f.Size())
	}
	s.all.Sum(f.installed[:0])
	return f.commitInstall(ctx, rows)
}

// newInstall begins to replace the ledger's rows.
func (f *Follower) newInstall() (*rowstore.Install, error) {
	if _, err := f.store.acquire(); err != nil {
		return nil, err
	}
	defer f.store.rows.Release()
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	return f.store.rows.NewInstall(f.name)
}

// commitInstall replaces the ledger's rows, and continues from them.
func (f *Follower) commitInstall(ctx context.Context, rows *rowstore.Install) error {
	if _, err := f.store.acquire(); err != nil {
		return err
	}
	defer f.store.rows.Release()
	if !f.store.rows.Owns(&f.fold.Rows) { // the tables were in the folder that was emptied
		return ErrRebuilding
	}
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	if err := rows.Commit(ctx); err != nil {
		return err
	}
	return f.begin(ctx)
}

// snapshotCheck checks what the rows of a snapshot must have in common with its size. It
// cannot show that the rows follow from the events.
type snapshotCheck struct {
	cursor        // as stored in the rows; zero until its row was read
	size   uint64 // of the parts
	bytes  uint64 // of all rows so far
	hashes uint64 // rows that map an event_hash to its event
	all    hash.Hash
}

// begin checks a part before its rows are read.
func (s *snapshotCheck) begin(p *Part) error {
	if s.size == 0 {
		s.size = p.Size
	}
	s.bytes += uint64(len(p.Rows))
	s.all.Write(p.Rows)
	switch {
	case p.Size == 0:
		return fmt.Errorf("%w: it covers no events", ErrSnapshot)
	case p.Size != s.size:
		return fmt.Errorf("%w: its size changes from %d to %d", ErrSnapshot, s.size, p.Size)
	case s.bytes > 16*PartBytes && s.bytes/maxRowBytes > s.size:
		return fmt.Errorf("%w: it has more rows than %d events can have", ErrSnapshot, s.size)
	}
	return nil
}

// row checks one row.
func (s *snapshotCheck) row(row rowstore.Row) (err error) {
	d, rest := rowstore.Dimension(row.Key[0]), row.Key[1:]
	switch {
	case d == cursorDimension && len(rest) == 0:
		if s.cursor, err = decodeCursor(row.Value); err != nil {
			return fmt.Errorf("%w: its cursor: %w", ErrSnapshot, err)
		}
		if s.cursor.size != s.size || s.partial {
			return fmt.Errorf("%w: its size is %d, but its rows are of %d events", ErrSnapshot, s.size, s.cursor.size)
		}
	case d == hashDimension:
		s.hashes++
	case d&rowstore.VersionedBit != 0 && len(rest) >= rowstore.VersionBytes && rowstore.VersionOf(rest) >= s.size:
		return fmt.Errorf("%w: row %x is from event %d, which is beyond its size of %d", ErrSnapshot, row.Key, rowstore.VersionOf(rest), s.size)
	}
	return nil
}

// end checks the snapshot as a whole.
func (s *snapshotCheck) end() error {
	switch {
	case s.cursor == cursor{}:
		return fmt.Errorf("%w: it has no cursor", ErrSnapshot)
	case s.hashes != s.size:
		return fmt.Errorf("%w: it has the hashes of %d events, but its size is %d", ErrSnapshot, s.hashes, s.size)
	}
	return nil
}

// InstallFrom fetches a snapshot of a ledger's index from another server, and replaces the
// ledger's part of the index by it. It returns the size and the digest of the snapshot. The
// ledger must not be followed.
func (s *Store) InstallFrom(ctx context.Context, name string, log Log, fetch Fetch) (size uint64, digest [sha256.Size]byte, err error) {
	s.source = fetch
	f, err := s.FollowStopped(ctx, name, log)
	if err != nil {
		return 0, digest, err
	}
	defer f.Close()
	err = f.install(ctx)
	return f.Size(), f.installed, err
}
