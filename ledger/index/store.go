// Package index maintains the rows that answer queries (spec: Index and as_of). For each ledger,
// one follower reads the log and folds the ledger's events, in order, into the index. The index is
// derived only from log entries and is never authoritative: a damaged index is emptied and rebuilt
// from the log.
//
// All ledgers of a server share one embedded database, which is never synced to disk. Each batch
// also stores the log position that it reaches. After a crash, the index is therefore in the state
// that it had at some earlier position.
package index

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"colophon/ledger/index/counters"
	"colophon/ledger/index/rowstore"
	"colophon/storage"
)

// ErrClosed means that the follower or the store is closed.
var ErrClosed = errors.New("index: the store is closed")

// Store is the index of all ledgers of a server. Its methods are safe for concurrent use, but
// Close does not wait for queries.
type Store struct {
	config          ResolvedConfig
	rows            *rowstore.Store
	closed          atomic.Bool
	filterBytes     atomic.Int64 // bytes of memory left for the followers' filters
	recentBytesLeft atomic.Int64 // bytes of memory left for entries that followers have not read yet

	events *eventCache // shared by all ledgers
	held   heldViews
	source SnapshotFetchFunc // may be nil; set before any ledger is followed
	begin  []counters.Series // counters that exist from the start, with the value 0

	mu        sync.Mutex           // guards followers; also held while a follower starts
	followers map[string]*Follower // open followers by ledger name; guarded by mu
}

// Open opens an index, or creates it if it does not exist. It empties an index that has a different
// layout or is too damaged to open. It fails if the folder contains anything else, is in use, or
// cannot be read or written.
func Open(c Config) (*Store, error) {
	internal, err := c.Resolve()
	if err != nil {
		return nil, err
	}
	return OpenResolved(internal)
}

// OpenResolved is like Open, but the caller decides how the memory is divided. Apart from Open,
// only tests call it.
func OpenResolved(c ResolvedConfig) (*Store, error) {
	s := &Store{config: c, followers: make(map[string]*Follower)}
	s.filterBytes.Store(int64(c.FilterBytes))
	s.recentBytesLeft.Store(int64(c.RecentBytes))
	for _, family := range c.Families {
		s.begin = append(s.begin, family.InitialSeries...)
	}
	c.RowStore.Schema, c.RowStore.OnReplaceAttempt = SchemaOf(c.Families), s.replaced
	var err error
	if s.rows, err = rowstore.Open(c.RowStore); err != nil {
		return nil, err
	}
	s.events = newEventCache(c.EventCacheBytes)
	return s, nil
}

// replaced is called after an attempt to replace a damaged index. It publishes empty snapshots,
// calls resume, and then wakes all followers.
func (s *Store) replaced(resume func()) {
	followers := s.Followers()
	for _, f := range followers {
		f.publish(s.emptySnapshot())
	}
	resume()
	for _, f := range followers {
		f.Wake()
	}
}

// emptySnapshot returns a snapshot without rows.
func (s *Store) emptySnapshot() *snapshot {
	empty := counters.New(counters.NewCounts(s.begin))
	return &snapshot{Values: empty.Snapshot(), superseded: make(chan struct{})}
}

// acquire prevents the rows from being replaced until the caller calls rows.Release. It returns how
// many times the rows have been replaced so far.
func (s *Store) acquire() (replaced int, err error) {
	replaced, err = s.rows.Acquire()
	return replaced, noSpace(err)
}

// noSpace makes an error that wraps rowstore.ErrReadOnly also wrap storage.ErrNoSpace. It returns
// any other error unchanged.
func noSpace(err error) error {
	if errors.Is(err, rowstore.ErrReadOnly) {
		return fmt.Errorf("%w: %w", storage.ErrNoSpace, err)
	}
	return err
}

// isDamage reports whether err means that stored rows are damaged.
func isDamage(err error) bool {
	return errors.Is(err, rowstore.ErrDamaged) || rowstore.IsCorruption(err) && !errors.Is(err, errLog)
}

// RowStore returns the underlying store, for tests that inspect or damage its rows.
func (s *Store) RowStore() *rowstore.Store { return s.rows }

// RebuildCount returns how many times the index has been found damaged and replaced since it was
// opened.
func (s *Store) RebuildCount() int { return s.rows.RebuildCount() }

// maxName is the maximum length of a ledger's name, in bytes.
const maxName = 255

// Follow starts a follower, which folds a ledger's events, starting where the index ends. The
// follower pauses at the head of the log and continues after each Wake. If the index was built from
// another log, it is emptied first. Follow returns an error only for misuse: an invalid name, a
// ledger that is already followed, or a closed store. Follower.Err reports all other errors.
func (s *Store) Follow(name string, log Log) (*Follower, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := s.add(name, log)
	if err != nil {
		return nil, fmt.Errorf("following ledger %q: %w", name, err)
	}
	f.start(context.Background())
	return f, nil
}

// add registers a follower for a ledger without starting it. The caller must hold mu until the
// follower runs, or until it is certain that the follower will never run.
func (s *Store) add(name string, log Log) (*Follower, error) {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return nil, fmt.Errorf("a ledger name must consist of 1 to %d bytes of valid UTF-8", maxName)
	}
	if s.closed.Load() {
		return nil, ErrClosed
	}
	if _, followed := s.followers[name]; followed {
		return nil, errors.New("the ledger is already followed")
	}
	f := newFollower(s, name, log)
	s.followers[name] = f
	return f, nil
}

// followed returns the number of ledgers that are being followed.
func (s *Store) followed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.followers)
}

// Follower returns the follower of the named ledger, or nil if the ledger is not followed.
func (s *Store) Follower(name string) *Follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.followers[name]
}

// Followers returns all followers that are not closed, in no particular order.
func (s *Store) Followers() []*Follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*Follower, 0, len(s.followers))
	for _, f := range s.followers {
		list = append(list, f)
	}
	return list
}

// remove removes a closed follower, so that its ledger can be followed again. It returns false if f
// had already been removed.
func (s *Store) remove(f *Follower) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.followers[f.name] != f {
		return false
	}
	delete(s.followers, f.name)
	return true
}

// Close closes all followers and the database. All queries and calls to ReadSnapshotPart must have
// returned before Close is called.
func (s *Store) Close() error {
	s.mu.Lock()
	closed := s.closed.Swap(true)
	s.mu.Unlock()
	if closed {
		return fmt.Errorf("closing the index: %w", ErrClosed)
	}
	for _, f := range s.Followers() {
		f.Close()
	}
	s.held.closeAll()
	err := s.rows.Close(ErrClosed)
	s.events.close()
	return err
}
