package disk

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

// WALFS controls the reuse of write-ahead log files. Pebble keeps the newest obsolete log and
// writes a new log over it, because a file whose blocks are already allocated syncs faster. The old
// bytes stay readable, both in the file that is kept for reuse and after the last record of the new
// log. WALFS can turn this reuse off and remove the kept files.
type WALFS struct {
	vfs.FS
	LatestLogNumber atomic.Uint64 // number of the newest log
	fresh           atomic.Bool   // whether every new log gets a new file instead of reusing an old one
	dropMu          sync.RWMutex  // RetainLogs locks it for reading

}

// Create implements vfs.FS.
func (l *WALFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	l.note(name)
	return l.FS.Create(name, category)
}

// ReuseForWrite implements vfs.FS. It creates a new file if old is missing or reuse is turned off.
func (l *WALFS) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	l.note(name) // must precede the check of l.fresh (see DropLogs)
	if !l.fresh.Load() {
		f, err := l.FS.ReuseForWrite(old, name, category)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	// Ignore the error, because returning it would end the process. If the file stays, DropLogs or the
	// next opening of the database removes it.
	_ = l.FS.Remove(old)
	return l.FS.Create(name, category)
}

// RetainLogs keeps DropLogs from removing any log until release is called. It is used while the engine
// copies its logs.
func (l *WALFS) RetainLogs() (release func()) {
	l.dropMu.RLock()
	return l.dropMu.RUnlock
}

// note sets LatestLogNumber if name is the name of a newer log.
func (l *WALFS) note(name string) {
	if number, _, ok := wal.ParseLogFilename(l.FS.PathBase(name)); ok && uint64(number) > l.LatestLogNumber.Load() {
		l.LatestLogNumber.Store(uint64(number)) // not a race, because the engine begins one log at a time
	}
}

// Unwrap implements vfs.FS.
func (l *WALFS) Unwrap() vfs.FS { return l.FS }

// DropLogs flushes the contents of the write-ahead logs to tables, and removes every log that was begun
// before the call. Logs that are begun during the call use new files.
func (l *WALFS) DropLogs(ctx context.Context, dir string, db *engine.DB) error {
	l.fresh.Store(true)
	defer l.fresh.Store(false)
	// Because l.fresh is set, every later log uses a new file with a number above latest.
	latest := l.LatestLogNumber.Load()
	flushed, err := db.AsyncFlush()
	if err != nil {
		return fmt.Errorf("flushing the write-ahead logs: %w", err)
	}
	select {
	case <-flushed:
	case <-ctx.Done():
		return ctx.Err()
	}
	l.dropMu.Lock()
	defer l.dropMu.Unlock()
	names, err := l.FS.List(dir)
	if err != nil {
		return fmt.Errorf("looking for old write-ahead logs: %w", err)
	}
	for _, name := range names {
		number, _, ok := wal.ParseLogFilename(name)
		if !ok || uint64(number) > latest {
			continue
		}
		// The engine may already have removed the file. If it tries to reuse the file, it gets a new one.
		if err := l.FS.Remove(l.FS.PathJoin(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing an old write-ahead log: %w", err)
		}
	}
	return nil
}
