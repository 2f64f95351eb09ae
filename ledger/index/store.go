// Package index is what is derived from the log to answer queries
// (specification 2.6): one follower per ledger folds its events, in order, into
// a store of the index's own. It is derived from entries alone and never part of
// the truth: whatever is wrong with it, it is emptied and folded again.
//
// All ledgers of a server share one embedded database. It is never synced: each
// batch of keys carries the position in the log that it brings the index to, so
// what a crash leaves is the index as it was at some earlier position.
package index

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	engine "github.com/cockroachdb/pebble/v2"

	"colophon/storage"
)

// ErrClosed: the follower or the store has been closed.
var ErrClosed = errors.New("index: closed")

// Store is the index of all ledgers of a server. Its methods are safe for
// concurrent use, except that Close waits for no query.
type Store struct {
	config config
	engine *engine.DB // of who has acquired it; nil if it could not be replaced
	lock   *engine.Lock
	closed atomic.Bool
	known  atomic.Int64 // bytes that the followers' filters may still take

	records *keptRecords // of all ledgers

	usage      usage
	rebuilding sync.WaitGroup // what replaces the engine

	mu        sync.Mutex           // held while a follower starts
	followers map[string]*Follower // running or stopped by an error; under mu
}

// Open opens an index, which it makes if absent. An index of another layout, and one
// that is damaged beyond opening, is emptied. An error means that the folder holds
// something else, is in use, or cannot be worked with.
func Open(c Config) (*Store, error) {
	internal, err := c.internal()
	if err != nil {
		return nil, err
	}
	return open(internal)
}

func open(c config) (*Store, error) {
	s := &Store{config: c, followers: make(map[string]*Follower)}
	s.known.Store(int64(c.knownBytes))
	s.records = newKeptRecords(c.recordsBytes)
	s.usage.idle.L = &s.usage.mu
	if c.readOnly {
		s.openReadOnly()
		return s, nil
	}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("opening the index in %s: %w", c.folder.dir, err)
	}
	return s, nil
}

func (s *Store) open() error {
	folder, log := s.config.folder, s.config.log
	lock, err := folder.acquire()
	if err != nil {
		return err
	}
	emptied, err := folder.prepare()
	if err == nil && s.config.anew {
		err = folder.empty()
	}
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	if emptied {
		log.Info("the index had another layout or was found damaged, it is built anew", "dir", folder.dir)
	}
	s.lock = lock
	err = s.openEngine()
	if err != nil && !environmental(err) {
		log.Warn("the index is damaged, it is built anew", "dir", folder.dir, "error", err)
		if err = folder.empty(); err == nil {
			err = s.openEngine()
		}
	}
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	return nil
}

// errReadOnly: the index can neither be built nor brought up to date.
var errReadOnly = fmt.Errorf("%w: the index cannot be built", storage.ErrNoSpace)

// openReadOnly opens an index that is there and sound. Otherwise it cannot be used.
func (s *Store) openReadOnly() {
	err := s.tryReadOnly()
	if err != nil {
		s.config.log.Error("the index cannot be opened for reading: queries that need it are refused until there is room", "dir", s.config.folder.dir, "error", err.Error())
		s.refuse(fmt.Errorf("%w: %w", errReadOnly, err))
	}
}

func (s *Store) tryReadOnly() error {
	stored, err := s.config.folder.readLayout()
	if err != nil {
		return err
	}
	if stored != layout {
		return errors.New("it has another layout, or was found damaged")
	}
	lock, err := engine.LockDirectory(s.config.folder.dir, s.config.folder.files)
	if err != nil {
		return fmt.Errorf("locking: %w", err)
	}
	s.lock = lock
	if err := s.openEngine(); err != nil {
		s.engine, s.lock = nil, nil
		return errors.Join(err, lock.Close())
	}
	return nil
}

// openEngine opens the engine in the folder, which is locked.
func (s *Store) openEngine() (err error) {
	replaced := s.Rebuilds()
	options := s.config.engineOptions(func(damage error) { s.found(damage, replaced) })
	options.Lock = s.lock
	options.ReadOnly = s.config.readOnly
	s.engine, err = engine.Open(s.config.folder.dir, options)
	return err
}

// found is told of damage that the engine meets before which so many were replaced,
// wherever that is. The index is emptied, now or at the next start.
func (s *Store) found(damage error, replaced int) {
	if s.Rebuilds() == replaced && !s.config.readOnly {
		s.config.spoil(damage)
		s.damaged(damage, replaced)
	}
}

// maxName bounds a ledger's name, in bytes, so that one byte holds its length.
const maxName = 255

// Follow starts to fold a ledger's events, from where the index ends to the
// log's head and, at each Wake, on from there. The index of another log under
// that name is emptied first. An error means misuse: no possible name, a ledger
// that is followed already, a closed store. All other trouble is the
// follower's: see Follower.Err.
func (s *Store) Follow(name string, log storage.Reader) (*Follower, error) {
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
func (s *Store) add(name string, log storage.Reader) (*Follower, error) {
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

// number is the number that a ledger has in keys, a new one for a new name. The
// caller holds mu.
func (s *Store) number(name string) (uint16, error) {
	value, err := get(s.engine, numberKey(name))
	if err == nil && len(value) == 2 {
		return binary.BigEndian.Uint16(value), nil
	}
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return 0, wrapRead(err)
	}
	return s.renumber(name)
}

func numberKey(name string) []byte {
	return append(numbered(0).key(nil, numberDimension), name...)
}

// renumber gives a ledger a number above all others. The caller holds mu.
func (s *Store) renumber(name string) (uint16, error) {
	if s.config.readOnly {
		return 0, errReadOnly
	}
	it, err := s.engine.NewIter(&engine.IterOptions{UpperBound: numbered(1).key(nil, numberDimension)})
	if err != nil {
		return 0, wrapRead(err)
	}
	last := uint16(0)
	for it.First(); it.Valid(); it.Next() {
		if value := it.Value(); len(value) == 2 {
			last = max(last, binary.BigEndian.Uint16(value))
		}
	}
	if err := it.Close(); err != nil {
		return 0, wrapRead(err)
	}
	if last >= math.MaxUint16-1 {
		return 0, errors.New("the index has run out of numbers for ledgers: delete its folder with the server stopped")
	}
	return last + 1, s.engine.Set(numberKey(name), binary.BigEndian.AppendUint16(nil, last+1), engine.NoSync)
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
func (s *Store) forget(f *Follower) bool {
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
	s.rebuilding.Wait()
	s.refuse(ErrClosed)
	s.records.close()
	var errs []error
	if s.engine != nil && s.config.readOnly {
		errs = []error{s.engine.Close()}
	} else if s.engine != nil { // what is folded is in memory until it is flushed
		errs = []error{s.engine.Flush(), s.engine.Close()}
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing the index in %s: %w", s.config.folder.dir, err)
	}
	return nil
}

// get is the value under a key, the caller's to keep; storage.ErrNotFound if none.
func get(reader engine.Reader, key []byte) ([]byte, error) {
	value, closer, err := reader.Get(key)
	if errors.Is(err, engine.ErrNotFound) {
		return nil, storage.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	kept := append([]byte(nil), value...)
	return kept, closer.Close()
}
