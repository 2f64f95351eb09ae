package erase

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// CheckErased waits until no table or value file contains the content of the given marks, and then
// returns nil. It returns an error if a table in use refers to the content, or if the engine has
// not deleted all obsolete tables and unreferenced values within e.DeletionTimeout.
func (e *Eraser) CheckErased(ctx context.Context, marks []PendingErasure) error {
	inUse, err := e.checkTables(ctx, marks)
	if err != nil {
		return err
	}
	old, err := e.tablesExcept(inUse)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, e.DeletionTimeout)
	defer cancel()
	for {
		if old, err = e.remaining(old); err != nil {
			return err
		}
		allReferenced, err := e.allValuesReferenced()
		if err != nil || allReferenced && len(old) == 0 {
			return err
		}
		select {
		case <-e.files:
		case <-time.After(filesPause): // the engine deletes some files without reporting an event
		case <-ctx.Done():
			if len(old) > 0 {
				return fmt.Errorf("erased content may still be on disk: the engine did not delete the obsolete tables %v within %v", old, e.DeletionTimeout)
			}
			return fmt.Errorf("erased content may still be on disk: the engine did not remove all unreferenced values within %v", e.DeletionTimeout)
		}
	}
}

// checkTables returns the file numbers of the tables in use. It returns an error if one of them
// contains marked content.
func (e *Eraser) checkTables(ctx context.Context, marks []PendingErasure) (map[uint64]bool, error) {
	for {
		tables, err := e.tablesInUse()
		if err != nil {
			return nil, err
		}
		for i := range tables {
			if err = e.checkTable(ctx, &tables[i], marks); err != nil {
				break
			}
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return numbersOf(tables), err
		}
		// List the tables again, because a compaction has replaced one of them in the meantime.
	}
}

// tablesInUse returns the tables in use on all levels.
func (e *Eraser) tablesInUse() ([]engine.SSTableInfo, error) {
	levels, err := e.engine.SSTables()
	if err != nil {
		return nil, fmt.Errorf("listing tables: %w", err)
	}
	return slices.Concat(levels...), nil
}

func numbersOf(tables []engine.SSTableInfo) map[uint64]bool {
	numbers := make(map[uint64]bool, len(tables))
	for i := range tables {
		numbers[uint64(tables[i].BackingSSTNum)] = true
	}
	return numbers
}

// checkTable returns an error if the table contains marked content. marks must be sorted.
func (e *Eraser) checkTable(ctx context.Context, table *engine.SSTableInfo, marks []PendingErasure) (err error) {
	from, _ := slices.BinarySearchFunc(marks, table.Smallest.UserKey, compareContent)
	name := tableName(uint64(table.BackingSSTNum))
	if from == len(marks) || compareContent(marks[from], table.Largest.UserKey) > 0 {
		return nil
	}
	reader, err := OpenTable(ctx, e.Config.Space.FS, e.Config.Space.FS.PathJoin(e.Config.Space.Dir, name))
	if err != nil {
		return fmt.Errorf("reading table %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	entries, err := reader.NewIter(sstable.NoTransforms, nil, nil, sstable.DebugHandlesBlobContext) // reads no value files
	if err != nil {
		return fmt.Errorf("reading table %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, entries.Close()) }()
	for _, m := range marks[from:] {
		if err := ctx.Err(); err != nil {
			return err
		}
		kv := entries.SeekGE(m.content, 0)
		for ; kv != nil && bytes.Equal(kv.K.UserKey, m.content); kv = entries.Next() {
			if kv.Kind() != engine.InternalKeyKindDelete {
				return fmt.Errorf("table %s still contains erased content", name)
			}
		}
		if kv == nil {
			break // kv is nil at the end and after an error
		}
	}
	return entries.Error()
}

func compareContent(m PendingErasure, key []byte) int { return bytes.Compare(m.content, key) }

// OpenTable opens a table file of the engine for reading. The caller must close the reader.
func OpenTable(ctx context.Context, files vfs.FS, path string) (*sstable.Reader, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	reader, err := sstable.NewReader(ctx, readable, sstable.ReaderOptions{})
	if err != nil {
		return nil, errors.Join(err, readable.Close())
	}
	return reader, nil
}

// TableSuffix is the suffix of the names of table files.
const TableSuffix = ".sst"

func tableName(number uint64) string { return fmt.Sprintf("%06d%s", number, TableSuffix) }

// tablesExcept returns the file numbers of the tables in the folder, except those in excluded.
func (e *Eraser) tablesExcept(excluded map[uint64]bool) ([]uint64, error) {
	names, err := e.Config.Space.FS.List(e.Config.Space.Dir)
	if err != nil {
		return nil, fmt.Errorf("looking for old tables: %w", err)
	}
	var others []uint64
	for _, name := range names {
		digits, isTable := strings.CutSuffix(name, TableSuffix)
		if number, err := strconv.ParseUint(digits, 10, 64); isTable && err == nil && !excluded[number] {
			others = append(others, number)
		}
	}
	return others, nil
}

// remaining returns the old tables that are still in the folder. It omits tables that are now in
// use, because old can include the output of a compaction that was still running. It also retries
// failed deletions.
func (e *Eraser) remaining(old []uint64) ([]uint64, error) {
	tables, err := e.tablesInUse()
	if err != nil {
		return nil, err
	}
	present, err := e.tablesExcept(numbersOf(tables))
	if err != nil {
		return nil, err
	}
	present = slices.DeleteFunc(present, func(number uint64) bool { return !slices.Contains(old, number) })
	return present, e.deleteAgain()
}

// deleted is called when the engine has tried to delete the file at path. It records a failure for
// deleteAgain, because the engine does not retry.
func (e *Eraser) deleted(path string, err error) {
	if err != nil {
		e.mu.Lock()
		e.undeleted[path] = true
		e.mu.Unlock()
	}
	signal(e.files)
}

// deleteAgain deletes the files that the engine failed to delete.
func (e *Eraser) deleteAgain() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for path := range e.undeleted {
		if err := e.Config.Space.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("deleting an old file: %w", err)
		}
		delete(e.undeleted, path)
		signal(e.files)
	}
	return nil
}
