// Package index derives from the log the rows that queries need (spec: Index and as_of). For
// each ledger, one follower folds the ledger's events, in order, into the index. The index is
// derived from entries alone and is never authoritative: a damaged index is emptied and folded
// again.
//
// All ledgers of a server share one embedded database. It is never synced. Each batch also
// stores the log position that it covers, so after a crash the index is in the state that it
// had at some earlier position.
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
	config      Settings
	rows        *rowstore.Store
	closed      atomic.Bool
	filterBytes atomic.Int64 // bytes that the followers' filters can still use

	events *eventCache // shared by all ledgers
	held   heldViews
	source FetchFunc         // nil if there is none; set before any ledger is followed
	begin  []counters.Series // counters that begin with 0

	mu        sync.Mutex           // held while a follower starts
	followers map[string]*Follower // followers that are not closed; guarded by mu
}

// Open opens an index, and creates it if it is absent. It empties an index that has a different
// layout or is too damaged to open. It fails if the folder contains something else, is in use,
// or cannot be read or written.
func Open(c Config) (*Store, error) {
	internal, err := c.Settings()
	if err != nil {
		return nil, err
	}
	return OpenWith(internal)
}

// OpenWith is like Open, but with the given division of the memory. Only tests call it
// directly.
func OpenWith(c Settings) (*Store, error) {
	s := &Store{config: c, followers: make(map[string]*Follower)}
	s.filterBytes.Store(int64(c.FilterBytes))
	for _, family := range c.Families {
		s.begin = append(s.begin, family.Counters...)
	}
	c.Rows.Schema, c.Rows.Replaced = SchemaOf(c.Families), s.replaced
	var err error
	if s.rows, err = rowstore.Open(c.Rows); err != nil {
		return nil, err
	}
	s.events = newEventCache(c.EventCacheBytes)
	return s, nil
}

// replaced publishes empty snapshots after the rows were replaced, and wakes all followers.
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
	return &snapshot{Readings: empty.Snapshot(), superseded: make(chan struct{})}
}

// acquire prevents the rows from being replaced until they are released. It returns how often
// they were replaced before.
func (s *Store) acquire() (replaced int, err error) {
	replaced, err = s.rows.Acquire()
	return replaced, noSpace(err)
}

// noSpace makes an error that wraps rowstore.ErrReadOnly wrap storage.ErrNoSpace too.
func noSpace(err error) error {
	if errors.Is(err, rowstore.ErrReadOnly) {
		return fmt.Errorf("%w: %w", storage.ErrNoSpace, err)
	}
	return err
}

// isDamage reports whether an error means that stored rows are damaged.
func isDamage(err error) bool {
	return errors.Is(err, rowstore.ErrDamaged) || rowstore.IsCorruption(err) && !errors.Is(err, errLog)
}

// RowStore returns the store of all rows, for tests that inspect or damage it.
func (s *Store) RowStore() *rowstore.Store { return s.rows }

// Rebuilds returns how often the index was found damaged and replaced since it was opened.
func (s *Store) Rebuilds() int { return s.rows.Rebuilds() }

// maxName limits the length of a ledger's name in bytes.
const maxName = 255

// Follow starts to fold a ledger's events, from where the index ends to the log's head, and
// further after each Wake. If the index belongs to another log, it is emptied first. An error
// means misuse: an invalid name, a ledger that is already followed, or a closed store.
// Follower.Err reports all other errors.
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

// add adds a ledger's follower without running it. The caller must hold mu until the follower
// runs, or until it is certain that the follower never will.
func (s *Store) add(name string, log Log) (*Follower, error) {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return nil, fmt.Errorf("the name of a ledger must have 1 to %d bytes of valid UTF-8", maxName)
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

// followed returns the number of followers.
func (s *Store) followed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.followers)
}

// Follower returns a ledger's follower, or nil if the ledger is not followed.
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

// remove removes a closed follower, so that its ledger can be followed again. It reports
// whether the follower was still there.
func (s *Store) remove(f *Follower) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.followers[f.name] != f {
		return false
	}
	delete(s.followers, f.name)
	return true
}

// Close closes all followers and the database. All queries and calls of ReadSnapshotPart must have
// returned before.
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
