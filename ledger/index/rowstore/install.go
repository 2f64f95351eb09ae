package rowstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// incomingDir is the subfolder of the index for tables that have not been installed yet.
const incomingDir = "incoming"

// SnapshotInstaller replaces all rows of a named keyspace. It collects the new rows in tables that
// the engine does not know about, and then adds all tables to the engine at once. Until then, the
// store does not change. A SnapshotInstaller is not safe for concurrent use, and must be closed.
type SnapshotInstaller struct {
	store   *Store
	name    string
	keys    Keyspace
	dir     string // folder of the tables
	options sstable.WriterOptions
	table   *sstable.Writer // the current table, or nil
	paths   []string        // paths of all tables
	last    []byte          // key of the last row
	key     []byte          // scratch
}

// NewSnapshotInstaller returns a SnapshotInstaller that replaces the rows of the named keyspace.
// The store must be acquired. The call must not overlap with other calls that assign keyspaces.
func (s *Store) NewSnapshotInstaller(name string) (*SnapshotInstaller, error) {
	keys, err := s.nextKeyspace()
	if err != nil {
		return nil, err
	}
	options := s.config.engineOptions(func(error) {})
	options.EnsureDefaults()
	i := &SnapshotInstaller{store: s, name: name, keys: keys, dir: s.incoming(fmt.Sprintf("%x", keys)),
		options: options.MakeWriterOptions(lastLevel, engineFormat.MaxTableFormat())}
	// As engineOptions explains, the engine must not treat version runs as versions of one value.
	i.options.DisableValueBlocks = true
	if err := errors.Join(s.config.FS.RemoveAll(i.dir), s.config.FS.MkdirAll(i.dir, 0o700)); err != nil {
		return nil, fmt.Errorf("creating a folder for the rows of an index: %w", err)
	}
	return i, nil
}

// incoming returns a path inside incomingDir.
func (s *Store) incoming(name string) string {
	return s.config.FS.PathJoin(s.config.Dir, incomingDir, name)
}

// removeIncoming removes the tables that interrupted installs left behind.
func (f folder) removeIncoming() error { return f.files.RemoveAll(f.path(incomingDir)) }

// Add adds a row. Rows must be added in the order of their keys. Add returns ErrInvalidSnapshotPart
// if a row is out of order, or if no fold can have written it. After an error, the
// SnapshotInstaller can only be closed.
func (i *SnapshotInstaller) Add(row SnapshotRow) error {
	if err := i.store.config.Schema.checkKey(row.Key); err != nil {
		return err
	}
	switch order := bytes.Compare(row.Key, i.last); {
	case order == 0:
		return fmt.Errorf("%w: key %x occurs twice", ErrInvalidSnapshotPart, row.Key)
	case order < 0:
		return fmt.Errorf("%w: key %x comes after the larger key %x", ErrInvalidSnapshotPart, row.Key, i.last)
	}
	i.last = append(i.last[:0], row.Key...)
	if i.table == nil {
		if err := i.beginTable(); err != nil {
			return err
		}
	}
	i.key = append(append(i.key[:0], i.keys[:]...), row.Key...)
	if err := i.table.Set(i.key, row.Value); err != nil {
		return fmt.Errorf("storing a row of the index: %w", err)
	}
	if i.table.Raw().EstimatedSize() < tableBytes {
		return nil
	}
	return i.endTable()
}

func (i *SnapshotInstaller) beginTable() error {
	path := i.store.config.FS.PathJoin(i.dir, fmt.Sprintf("%06d.sst", len(i.paths)))
	file, err := i.store.config.FS.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("storing rows of the index: %w", err)
	}
	i.paths = append(i.paths, path)
	i.table = sstable.NewWriter(objstorageprovider.NewFileWritable(file), i.options)
	return nil
}

// endTable completes the current table and syncs it.
func (i *SnapshotInstaller) endTable() error {
	if i.table == nil {
		return nil
	}
	err := i.table.Close()
	i.table = nil
	if err != nil {
		return fmt.Errorf("storing rows of the index: %w", err)
	}
	return nil
}

// Commit replaces the rows of the keyspace with the added ones, atomically and durably. The store
// must be acquired. The call must not overlap with other calls that assign keyspaces.
func (i *SnapshotInstaller) Commit(ctx context.Context) error {
	old, found, err := get(i.store.engine, numberKey(i.name))
	if err != nil {
		return wrapRead(err)
	}
	err = errors.Join(i.endTable(), i.beginTable())
	if err != nil {
		return err
	}
	// Assign the new keyspace to the name. This change, the new rows, and the deletion of the
	// old rows become visible together.
	err = i.table.Set(numberKey(i.name), i.keys[:])
	if err == nil && found {
		err = i.table.DeleteRange(old, Keyspace(old).UpperBound())
	}
	if err = errors.Join(err, i.endTable()); err != nil {
		return err
	}
	if err := i.store.engine.Ingest(ctx, i.paths); err != nil {
		return fmt.Errorf("installing the rows of an index: %w", err)
	}
	return i.store.Flush()
}

// Close removes all tables that Commit has not installed.
func (i *SnapshotInstaller) Close() error {
	err := i.endTable()
	return errors.Join(err, i.store.config.FS.RemoveAll(i.dir))
}

// nextKeyspace returns an empty keyspace, whose number is higher than all numbers in use. It never
// returns the same number twice for a store.
func (s *Store) nextKeyspace() (Keyspace, error) {
	if s.config.ReadOnly {
		return Keyspace{}, ErrReadOnly
	}
	it, err := s.engine.NewIter(&engine.IterOptions{UpperBound: KeyspaceFromNumber(1).AppendPrefix(nil, numberDimension)})
	if err != nil {
		return Keyspace{}, wrapRead(err)
	}
	for it.First(); it.Valid(); it.Next() {
		if value := it.Value(); len(value) == len(Keyspace{}) {
			s.lastKeyspace = max(s.lastKeyspace, Keyspace(value).number())
		}
	}
	if err := it.Close(); err != nil {
		return Keyspace{}, wrapRead(err)
	}
	if s.lastKeyspace >= math.MaxUint16-1 {
		return Keyspace{}, errors.New("the index has run out of keyspace numbers; stop the server and delete the index folder")
	}
	s.lastKeyspace++
	return KeyspaceFromNumber(s.lastKeyspace), nil
}
