package pebbletest

import (
	"bytes"
	"errors"
	"fmt"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// KeyValue is one stored key with its value.
type KeyValue struct{ Key, Value []byte }

// Dump returns everything that a database stores, in key order. The database must not be open. A
// nil files means the operating system's file system.
func Dump(files vfs.FS, dir string) (all []KeyValue, err error) {
	db, err := openRaw(files, dir, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	it, err := db.NewIter(nil)
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, errors.Join(err, it.Close())
		}
		all = append(all, KeyValue{bytes.Clone(it.Key()), bytes.Clone(value)})
	}
	return all, it.Close()
}

// Load creates a database in dir that stores exactly the given keys and values. A nil files means
// the operating system's file system.
func Load(files vfs.FS, dir string, all []KeyValue) error {
	db, err := openRaw(files, dir, false)
	if err != nil {
		return err
	}
	b := db.NewBatch()
	for _, kv := range all {
		if err := b.Set(kv.Key, kv.Value, nil); err != nil {
			return errors.Join(err, b.Close(), db.Close())
		}
	}
	return errors.Join(b.Commit(engine.Sync), db.Close())
}

func openRaw(files vfs.FS, dir string, exists bool) (*engine.DB, error) {
	if files == nil {
		files = vfs.Default
	}
	db, err := engine.Open(dir, &engine.Options{
		FS: files, ErrorIfNotExists: exists, ReadOnly: exists, FormatMajorVersion: engine.FormatNewest, Logger: silent{},
	})
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", dir, err)
	}
	return db, nil
}
