package rowstore

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Config configures a store.
type Config struct {
	// FS is the file system of Dir. The store creates Dir if it is absent. Dir must contain
	// nothing else.
	FS  vfs.FS
	Dir string
	// Layout identifies the format of keys and values. A store that has a different layout is
	// emptied.
	Layout string
	// Schema gives, for each dimension, the length in bytes of the row within a key.
	Schema *Schema
	// ReadOnly means that the store writes nothing.
	ReadOnly bool
	// DiscardExisting makes Open empty an existing store. Tables are then merged late, because the
	// store has few readers while it is filled.
	DiscardExisting bool
	// CacheBytes limits the total memory of the engine's block cache, its memtables, and the
	// batches that are not yet written.
	CacheBytes    int
	MemTableBytes int // size of each memtable, in bytes
	Logger        *slog.Logger
	// Exit exits the process with a status. The store calls it when a write fails.
	Exit func(status int)
	// OnReplaceAttempt is called after an attempt to replace a damaged store with an empty one,
	// whether or not the attempt succeeded. It must call resume. Until then, Acquire fails.
	OnReplaceAttempt func(resume func())
}

func (c *Config) folder() folder { return folder{c.FS, c.Dir, c.Layout} }

// Store contains the versioned rows of many keyspaces in one embedded database. Its methods
// are safe for concurrent use, but Close does not wait for readers.
type Store struct {
	config Config
	engine *engine.DB   // used between Acquire and Release; nil if it could not be replaced
	lock   *engine.Lock // lock of the folder

	usage      usage
	rebuilding sync.WaitGroup // the goroutine that replaces the engine

	lastKeyspace uint16 // the highest number that nextKeyspace has seen or returned
}

// Open opens a store, and creates it if it is absent. It empties a store that has a different
// layout or is too damaged to open. It fails if the folder contains something else, is in use,
// or cannot be read or written. A read-only store always opens; if it cannot be read, Acquire
// returns ErrReadOnly.
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
	folder, log := s.config.folder(), s.config.Logger
	lock, err := folder.acquire()
	if err != nil {
		return err
	}
	emptied, err := folder.prepare()
	if err == nil && s.config.DiscardExisting {
		err = folder.empty()
	}
	if err == nil {
		err = folder.removeIncoming()
	}
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	if emptied {
		log.Info("the index had a different layout or was damaged; rebuilding it", "dir", folder.dir)
	}
	s.lock = lock
	err = s.openEngine()
	if err != nil && !environmental(err) {
		log.Warn("the index is damaged; rebuilding it", "dir", folder.dir, "error", err)
		if err = folder.empty(); err == nil {
			err = s.openEngine()
		}
	}
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	return nil
}

// ErrReadOnly means that a read-only store is absent or unusable, and would have to be built.
var ErrReadOnly = errors.New("the index is read-only and cannot be built")

// openReadOnly opens an existing store that is intact. If there is none, Acquire returns
// ErrReadOnly.
func (s *Store) openReadOnly() {
	err := s.tryReadOnly()
	if err != nil {
		s.config.Logger.Error("cannot open the index for reading; refusing queries that need it until the disk has free space", "dir", s.config.Dir, "error", err.Error())
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
		return errors.New("the index has a different layout or is marked as damaged")
	}
	lock, err := engine.LockDirectory(folder.dir, folder.files)
	if err != nil {
		return fmt.Errorf("locking the folder: %w", err)
	}
	s.lock = lock
	if err := s.openEngine(); err != nil {
		s.engine, s.lock = nil, nil
		return errors.Join(err, lock.Close())
	}
	return nil
}

// openEngine opens the engine. The folder must be locked.
func (s *Store) openEngine() (err error) {
	replaced := s.RebuildCount()
	options := s.config.engineOptions(func(damage error) { s.onDamage(damage, replaced) })
	options.Lock = s.lock
	options.ReadOnly = s.config.ReadOnly
	s.engine, err = engine.Open(s.config.Dir, options)
	return err
}

// onDamage handles damage that an engine reports. It makes the store empty the index now or at the
// next start. replaced is the number of replacements before that engine was opened.
func (s *Store) onDamage(damage error, replaced int) {
	if s.RebuildCount() == replaced && !s.config.ReadOnly {
		s.config.markDamaged(damage)
		s.ReportDamage(damage, replaced)
	}
}

// IsReadOnly reports whether the store was opened read only.
func (s *Store) IsReadOnly() bool { return s.config.ReadOnly }

// HasSpace reports whether the disk has enough free space to fold.
func (s *Store) HasSpace() (bool, error) { return s.config.folder().hasSpace() }

// DB returns the embedded engine, for tests that inspect or damage what is stored.
func (s *Store) DB() *engine.DB { return s.engine }

// Owns reports whether r was created with the current engine. The store must be acquired.
func (s *Store) Owns(r *Writer) bool { return r.engine != nil && r.engine == s.engine }

// NewWriter returns a Writer for the rows of a keyspace. The store must be acquired.
func (s *Store) NewWriter(keys Keyspace) Writer { return Writer{engine: s.engine, Keyspace: keys} }

// NewReader returns a Reader that sees a keyspace as it is now. The store must stay acquired until
// the reader is closed.
func (s *Store) NewReader(keys Keyspace) *Reader {
	return &Reader{Keyspace: keys, snapshot: s.engine.NewSnapshot(), schema: s.config.Schema}
}

// NewIterator returns an iterator over all keys from lower up to but not including upper. The
// caller must close it, and the store must stay acquired until then.
func (s *Store) NewIterator(lower, upper []byte) (*Iterator, error) {
	return iterate(s.engine, lower, upper)
}

// WaitForRebuild blocks until the replacement of the store has ended, if one is in progress.
func (s *Store) WaitForRebuild() { s.rebuilding.Wait() }

// Flush makes all written batches durable.
func (s *Store) Flush() error { return s.engine.Flush() }

// KeyspaceOf returns the keyspace of the given name. If the name is new, KeyspaceOf assigns it a
// keyspace. The store must be acquired. Calls for one store must not overlap.
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
	return append(KeyspaceFromNumber(0).AppendPrefix(nil, numberDimension), name...)
}

// newKeyspace assigns an empty keyspace to a name. The keyspace has a higher number than all
// others.
func (s *Store) newKeyspace(name string) (Keyspace, error) {
	next, err := s.nextKeyspace()
	if err != nil {
		return Keyspace{}, err
	}
	return next, s.engine.Set(numberKey(name), next[:], engine.NoSync)
}

// ClearKeyspace deletes the rows in the old keyspace of a name and assigns a new keyspace to the
// name. Keyspaces are not reused, because a seek by prefix is unreliable if a deleted range lies
// below new versions of the same row.
func (s *Store) ClearKeyspace(name string, old Keyspace) (Keyspace, error) {
	next, err := s.newKeyspace(name)
	if err != nil {
		return old, err
	}
	return next, s.engine.DeleteRange(old[:], old.UpperBound(), engine.NoSync)
}

// Close waits for the replacement of the store, if one is in progress, and closes the database. The
// database must have no users. After Close, Acquire returns refused.
func (s *Store) Close(refused error) error {
	s.rebuilding.Wait()
	s.refuse(refused)
	var errs []error
	if s.engine != nil && s.config.ReadOnly {
		errs = []error{s.engine.Close()}
	} else if s.engine != nil { // unflushed batches are only in memory
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

// get returns the value of a key. The caller owns it.
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
