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

// logFS controls the reuse of write-ahead log files. Pebble keeps the newest obsolete log and
// writes a new log over it, because a file whose blocks are allocated syncs faster. The old
// bytes stay readable: in the waiting file, and behind the end of the log being written. logFS
// can turn this reuse off and remove the waiting files.
type logFS struct {
	vfs.FS
	latest atomic.Uint64 // number of the newest log
	anew   atomic.Bool   // every log gets a new file: no reuse
	// copied is read-locked by a copy of the logs. Until the copy ends, the engine keeps the
	// logs, and drop waits.
	copied sync.RWMutex
}

// Create implements vfs.FS.
func (l *logFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	l.note(name)
	return l.FS.Create(name, category)
}

// ReuseForWrite implements vfs.FS. A missing old file is no error.
func (l *logFS) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	l.note(name) // before it reads anew: see drop
	if !l.anew.Load() {
		f, err := l.FS.ReuseForWrite(old, name, category)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	// An error here would end the process. If the file stays, drop or the next opening removes
	// it.
	_ = l.FS.Remove(old)
	return l.FS.Create(name, category)
}

// note remembers the number of a log.
func (l *logFS) note(name string) {
	if number, _, ok := wal.ParseLogFilename(l.FS.PathBase(name)); ok && uint64(number) > l.latest.Load() {
		l.latest.Store(uint64(number)) // the engine begins one log at a time
	}
}

// Unwrap implements vfs.FS.
func (l *logFS) Unwrap() vfs.FS { return l.FS }

// drop flushes the content of the write-ahead logs to tables, and removes every log that was
// begun before the call.
func (l *logFS) drop(ctx context.Context, dir string, db *engine.DB) error {
	l.anew.Store(true)
	defer l.anew.Store(false)
	// A log that begins after this has a new file.
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
		// The engine may have removed the file meanwhile, or may be about to reuse it.
		if err := l.FS.Remove(l.FS.PathJoin(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing an old log: %w", err)
		}
	}
	return nil
}
