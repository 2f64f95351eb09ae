// Package index is what is derived from the log to answer queries
// (spec: Index and as_of): one follower per ledger folds its events, in order, into
// a store of the index's own. It is derived from entries alone and never part of
// the truth: whatever is wrong with it, it is emptied and folded again.
//
// All ledgers of a server share one embedded database. It is never synced: each
// batch of keys carries the position in the log that it brings the index to, so
// what a crash leaves is the index as it was at some earlier position.
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

// ErrClosed: the follower or the store has been closed.
var ErrClosed = errors.New("index: closed")

// Store is the index of all ledgers of a server. Its methods are safe for
// concurrent use, except that Close waits for no query.
type Store struct {
	config      Settings
	rows        *rowstore.Store
	closed      atomic.Bool
	filterBytes atomic.Int64 // bytes that the followers' filters may still take

	events *eventCache       // of all ledgers
	begin  []counters.Series // counters that begin with 0

	mu        sync.Mutex           // held while a follower starts
	followers map[string]*Follower // running or stopped by an error; under mu
}

// Open opens an index, which it makes if absent. An index of another layout, and one
// that is damaged beyond opening, is emptied. An error means that the folder holds
// something else, is in use, or cannot be worked with.
func Open(c Config) (*Store, error) {
	internal, err := c.Settings()
	if err != nil {
		return nil, err
	}
	return OpenWith(internal)
}

// OpenWith is Open with the memory shared out otherwise, for tests.
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

// replaced begins again with an empty store of rows.
func (s *Store) replaced(resume func()) {
	followers := s.Followers()
	for _, f := range followers {
		empty := counters.New(counters.NewCounts(s.begin))
		f.publish(&snapshot{Readings: empty.Published(), superseded: make(chan struct{})})
	}
	resume()
	for _, f := range followers {
		f.Wake()
	}
}

// acquire keeps the rows as they are until they are released, and says how often they
// were replaced before.
func (s *Store) acquire() (replaced int, err error) {
	replaced, err = s.rows.Acquire()
	return replaced, noSpace(err)
}

// noSpace makes an error of a store that is only read one of space.
func noSpace(err error) error {
	if errors.Is(err, rowstore.ErrReadOnly) {
		return fmt.Errorf("%w: %w", storage.ErrNoSpace, err)
	}
	return err
}

// isDamage reports whether an error says that what the index has stored cannot be used.
func isDamage(err error) bool {
	return errors.Is(err, rowstore.ErrDamaged) || rowstore.IsCorruption(err) && !errors.Is(err, errLog)
}

// Rows is the store of the rows of all ledgers, for tests that look into it and damage it.
func (s *Store) Rows() *rowstore.Store { return s.rows }

// Rebuilds is how often the index was found damaged since it was opened, and replaced.
func (s *Store) Rebuilds() int { return s.rows.Rebuilds() }

// maxName bounds a ledger's name, in bytes, so that one byte holds its length.
const maxName = 255

// Follow starts to fold a ledger's events, from where the index ends to the
// log's head and, at each Wake, on from there. The index of another log under
// that name is emptied first. An error means misuse: no possible name, a ledger
// that is followed already, a closed store. All other trouble is the
// follower's: see Follower.Err.
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

// add makes a ledger's follower, which does not run yet. The caller holds mu until
// it does or never will.
func (s *Store) add(name string, log Log) (*Follower, error) {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return nil, errors.New("not a name")
	}
	if s.closed.Load() {
		return nil, ErrClosed
	}
	if _, followed := s.followers[name]; followed {
		return nil, errors.New("it is followed already")
	}
	f := newFollower(s, name, log)
	s.followers[name] = f
	return f, nil
}

// followed is the number of ledgers that are followed.
func (s *Store) followed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.followers)
}

// Follower is that of a ledger; nil if the ledger is not followed.
func (s *Store) Follower(name string) *Follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.followers[name]
}

// Followers lists those that have not been closed, in no particular order.
func (s *Store) Followers() []*Follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*Follower, 0, len(s.followers))
	for _, f := range s.followers {
		list = append(list, f)
	}
	return list
}

// forget lets a closed follower's ledger be followed again, and says whether it was
// not before.
func (s *Store) remove(f *Follower) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.followers[f.name] != f {
		return false
	}
	delete(s.followers, f.name)
	return true
}

// Close ends all followers and releases the database. No query may be under way.
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
	err := s.rows.Close(ErrClosed)
	s.events.close()
	return err
}
