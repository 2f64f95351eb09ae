package rowstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Config says where a store is, what its rows look like, and what it may take.
type Config struct {
	// Files is the file system that Dir is on. The store makes Dir if it is absent, and
	// nothing else may be in it.
	Files vfs.FS
	Dir   string
	// Layout names what keys and values look like. A store of another layout is emptied.
	Layout string
	// Schema is the length of the rows of each dimension.
	Schema *Schema
	// ReadOnly: nothing is written.
	ReadOnly bool
	// Rebuild: a store that is there is emptied, and merged seldom, for it is hardly read
	// while it is filled.
	Rebuild bool
	// CacheBytes bounds the engine's blocks together with its memtables, of MemTableBytes
	// each, and the batches that it has not written yet.
	CacheBytes, MemTableBytes int
	Log                       *slog.Logger
	// Exit ends the process with a status.
	Exit func(status int)
	// Replaced is called when a damaged store has become an empty one, or could not be
	// replaced. It must call resume, which lets the store be used again.
	Replaced func(resume func())
}

func (c *Config) folder() folder { return folder{c.Files, c.Dir, c.Layout} }

// Store is versioned rows of many keyspaces in one embedded database. Its methods are
// safe for concurrent use, except that close waits for no reader.
type Store struct {
	config Config
	engine *engine.DB   // of who has acquired it; nil if it could not be replaced
	lock   *engine.Lock // of the folder

	usage      usage
	rebuilding sync.WaitGroup // what replaces the engine
}

// Open opens a store, which it makes if absent. A store of another layout, and one
// that is damaged beyond opening, is emptied. An error means that the folder holds
// something else, is in use, or cannot be worked with; a store that is read only opens in
// any case, and then says errReadOnly to whoever acquires it.
func Open(c Config) (*Store, error) {
	s := &Store{config: c}
	s.usage.idle.L = &s.usage.mu
	if c.ReadOnly {
		s.openReadOnly()
		return s, nil
	}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("opening the index in %s: %w", c.Dir, err)
	}
	return s, nil
}

func (s *Store) open() error {
	folder, log := s.config.folder(), s.config.Log
	lock, err := folder.acquire()
	if err != nil {
		return err
	}
	emptied, err := folder.prepare()
	if err == nil && s.config.Rebuild {
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

// ErrReadOnly: the index can neither be built nor brought up to date.
var ErrReadOnly = errors.New("the index cannot be built")

// openReadOnly opens a store that is there and sound. Otherwise it cannot be used.
func (s *Store) openReadOnly() {
	err := s.tryReadOnly()
	if err != nil {
		s.config.Log.Error("the index cannot be opened for reading: queries that need it are refused until there is room", "dir", s.config.Dir, "error", err.Error())
		s.refuse(fmt.Errorf("%w: %w", ErrReadOnly, err))
	}
}

func (s *Store) tryReadOnly() error {
	folder := s.config.folder()
	stored, err := folder.readLayout()
	if err != nil {
		return err
	}
	if stored != folder.layout {
		return errors.New("it has another layout, or was found damaged")
	}
	lock, err := engine.LockDirectory(folder.dir, folder.files)
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
	options.ReadOnly = s.config.ReadOnly
	s.engine, err = engine.Open(s.config.Dir, options)
	return err
}

// found is told of damage that the engine meets before which so many were replaced,
// wherever that is. The index is emptied, now or at the next start.
func (s *Store) found(damage error, replaced int) {
	if s.Rebuilds() == replaced && !s.config.ReadOnly {
		s.config.markDamaged(damage)
		s.ReportDamage(damage, replaced)
	}
}

// ReadOnly reports whether nothing is written.
func (s *Store) ReadOnly() bool { return s.config.ReadOnly }

// HasSpace reports whether there is room to write.
func (s *Store) HasSpace() (bool, error) { return s.config.folder().hasSpace() }

// DB is the embedded engine, for tests that look into what is stored, and damage it.
func (s *Store) DB() *engine.DB { return s.engine }

// Owns reports whether rows are those of the engine as it is now. The store is acquired.
func (s *Store) Owns(r *Rows) bool { return r.engine != nil && r.engine == s.engine }

// NewRows is what a follower of a keyspace reads and writes rows through. The store is
// acquired.
func (s *Store) NewRows(keys Keyspace) Rows { return Rows{engine: s.engine, Keys: keys} }

// NewReader reads the rows of a keyspace as they are now. The store is acquired until the
// reader is closed.
func (s *Store) NewReader(keys Keyspace) *Reader {
	return &Reader{Keys: keys, snapshot: s.engine.NewSnapshot()}
}

// Iterate is an iterator over all that is stored from lower on and below upper. The store
// is acquired until the caller closes it.
func (s *Store) Iterate(lower, upper []byte) (*Iterator, error) {
	return iterate(s.engine, lower, upper)
}

// Rebuilt returns when no damaged store is being replaced.
func (s *Store) WaitForRebuild() { s.rebuilding.Wait() }

// Flush makes what was written durable.
func (s *Store) Flush() error { return s.engine.Flush() }

// KeyspaceOf is the keyspace that a name has, a new one for a new name. The store is
// acquired, and calls for one store do not overlap.
func (s *Store) KeyspaceOf(name string) (Keyspace, error) {
	value, found, err := get(s.engine, numberKey(name))
	if err != nil {
		return Keyspace{}, wrapRead(err)
	}
	if found && len(value) == len(Keyspace{}) {
		return Keyspace(value), nil
	}
	return s.newKeyspace(name)
}

func numberKey(name string) []byte {
	return append(KeyspaceNumbered(0).Key(nil, numberDimension), name...)
}

// renew gives a name a keyspace above all others, which is empty.
func (s *Store) newKeyspace(name string) (Keyspace, error) {
	if s.config.ReadOnly {
		return Keyspace{}, ErrReadOnly
	}
	it, err := s.engine.NewIter(&engine.IterOptions{UpperBound: KeyspaceNumbered(1).Key(nil, numberDimension)})
	if err != nil {
		return Keyspace{}, wrapRead(err)
	}
	last := uint16(0)
	for it.First(); it.Valid(); it.Next() {
		if value := it.Value(); len(value) == 2 {
			last = max(last, binary.BigEndian.Uint16(value))
		}
	}
	if err := it.Close(); err != nil {
		return Keyspace{}, wrapRead(err)
	}
	if last >= math.MaxUint16-1 {
		return Keyspace{}, errors.New("the index has run out of numbers for ledgers: delete its folder with the server stopped")
	}
	next := KeyspaceNumbered(last + 1)
	return next, s.engine.Set(numberKey(name), next[:], engine.NoSync)
}

// Empty deletes all rows of a name whose keyspace is old, and gives it another keyspace: a
// seek to a row does not always see what a deleted range means where new versions of the
// same row stand above it, so none ever do.
func (s *Store) Empty(name string, old Keyspace) (Keyspace, error) {
	next, err := s.newKeyspace(name)
	if err != nil {
		return old, err
	}
	return next, s.engine.DeleteRange(old[:], old.End(), engine.NoSync)
}

// Close releases the database. Nothing may use it any more, or acquire it again: it gets
// the error that is given.
func (s *Store) Close(refused error) error {
	s.rebuilding.Wait()
	s.refuse(refused)
	var errs []error
	if s.engine != nil && s.config.ReadOnly {
		errs = []error{s.engine.Close()}
	} else if s.engine != nil { // what was written is in memory until it is flushed
		errs = []error{s.engine.Flush(), s.engine.Close()}
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing the index in %s: %w", s.config.Dir, err)
	}
	return nil
}

// get is the value under a key, the caller's to keep.
func get(reader engine.Reader, key []byte) (value []byte, found bool, err error) {
	value, closer, err := reader.Get(key)
	if errors.Is(err, engine.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	kept := append([]byte(nil), value...)
	return kept, true, closer.Close()
}
