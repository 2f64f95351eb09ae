package pebble

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// logFS minds the files of the write-ahead log. Pebble keeps the latest of
// those that it needs no more and writes new logs over them, for a file that has
// its blocks is quicker to sync. What was in them stays readable: in the files
// that wait, and behind the end of the log that is being written. Here their use
// can be turned off, and files that wait can be removed.
type logFS struct {
	vfs.FS
	latest atomic.Uint64 // number of the latest log begun
	anew   atomic.Bool   // every log gets a new file
	// copied is held for reading by who copies the logs: the engine keeps those that it
	// needs no more until then, and so does drop.
	copied sync.RWMutex
}

// Create implements vfs.FS.
func (l *logFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	l.note(name)
	return l.FS.Create(name, category)
}

// ReuseForWrite implements vfs.FS. A file that is gone is no failure.
func (l *logFS) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	l.note(name) // before anew is read: see drop
	if !l.anew.Load() {
		f, err := l.FS.ReuseForWrite(old, name, category)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	// A failure would end the process; what stays is removed by drop, or at the
	// next opening.
	_ = l.FS.Remove(old)
	return l.FS.Create(name, category)
}

// note keeps the number of a log.
func (l *logFS) note(name string) {
	if number, _, ok := wal.ParseLogFilename(l.FS.PathBase(name)); ok && uint64(number) > l.latest.Load() {
		l.latest.Store(uint64(number)) // the engine begins one log at a time
	}
}

// Unwrap implements vfs.FS.
func (l *logFS) Unwrap() vfs.FS { return l.FS }

// drop removes every log of the database in dir that was begun before the call.
// What they hold is written as tables first.
func (l *logFS) drop(ctx context.Context, dir string, db *engine.DB) error {
	l.anew.Store(true)
	defer l.anew.Store(false)
	// A log begun after this has a file of its own.
	latest := l.latest.Load()
	flushed, err := db.AsyncFlush()
	if err != nil {
		return fmt.Errorf("writing out the logs: %w", err)
	}
	select {
	case <-flushed:
	case <-ctx.Done():
		return ctx.Err()
	}
	l.copied.Lock()
	defer l.copied.Unlock()
	names, err := l.FS.List(dir)
	if err != nil {
		return fmt.Errorf("looking for old logs: %w", err)
	}
	for _, name := range names {
		number, _, ok := wal.ParseLogFilename(name)
		if !ok || uint64(number) > latest {
			continue
		}
		// The engine may have removed it just now, or be about to use it again.
		if err := l.FS.Remove(l.FS.PathJoin(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing an old log: %w", err)
		}
	}
	return nil
}
