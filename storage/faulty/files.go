package faulty

import (
	"fmt"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Names of file system calls.
const (
	CallCreate        = "create"
	CallCompact       = "compact" // a call to Create for the output of a compaction
	CallLink          = "link"
	CallOpen          = "open"
	CallOpenDir       = "open folder"
	CallRemove        = "remove"
	CallRename        = "rename"
	CallReuseForWrite = "reuse"
	CallMkdirAll      = "make folder"
	CallLock          = "lock"
	CallList          = "list"
	CallStat          = "stat"
	CallDiskUsage     = "disk usage"
)

// Names of calls on an open file.
const (
	CallRead        = "read"
	CallWrite       = "write"
	CallSync        = "sync"
	CallSyncTo      = "sync part" // a call to SyncTo, which starts a sync without waiting for it
	CallPreallocate = "preallocate"
	CallClose       = "close"
)

// FileCallNames returns the names of all calls on a file system and on its files.
func FileCallNames() []string {
	return []string{CallCreate, CallCompact, CallLink, CallOpen, CallOpenDir, CallRemove, CallRename, CallReuseForWrite, CallMkdirAll, CallLock, CallList, CallStat, CallDiskUsage,
		CallRead, CallWrite, CallSync, CallSyncTo, CallPreallocate, CallClose}
}

// FS is a file system with injected faults.
type FS struct {
	vfs.FS
	faults *Injector
}

var _ vfs.FS = (*FS)(nil)

// NewFS returns a file system that forwards all calls to under, unless faults makes them fail.
func NewFS(under vfs.FS, faults *Injector) *FS { return &FS{under, faults} }

// Unwrap implements vfs.FS.
func (f *FS) Unwrap() vfs.FS { return f.FS }

// do performs a call on the named file by calling done. If the plan makes the call fail, do returns
// an error without calling done. In mode ModeFailAfterSuccess, do calls done first.
func (f *FS) do(call, name string, done func() error) error {
	mode := f.faults.next(call, name)
	err := injectedError(mode)
	if err != nil && mode != ModeFailAfterSuccess {
		return wrap(call, name, err)
	}
	if failed := done(); failed != nil {
		return failed
	}
	return wrap(call, name, err)
}

// open is like do, but for a call that opens a file. The returned file injects faults, too.
func (f *FS) open(call, name string, done func() (vfs.File, error)) (vfs.File, error) {
	var opened vfs.File
	err := f.do(call, name, func() (err error) {
		opened, err = done()
		return err
	})
	if err != nil {
		if opened != nil { // done succeeded before the injected error
			_ = opened.Close()
		}
		return nil, err
	}
	return &file{opened, name, f.faults}, nil
}

func wrap(call, name string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: call, Path: name, Err: err}
}

// compactions is the write category that Pebble uses for the tables written by compactions.
const compactions vfs.DiskWriteCategory = "pebble-compaction"

// Create implements vfs.FS.
func (f *FS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	call := CallCreate
	if category == compactions {
		call = CallCompact
	}
	return f.open(call, name, func() (vfs.File, error) { return f.FS.Create(name, category) })
}

// Link implements vfs.FS.
func (f *FS) Link(from, to string) error {
	return f.do(CallLink, to, func() error { return f.FS.Link(from, to) })
}

// Open implements vfs.FS.
func (f *FS) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	return f.open(CallOpen, name, func() (vfs.File, error) { return f.FS.Open(name, options...) })
}

// OpenReadWrite implements vfs.FS.
func (f *FS) OpenReadWrite(name string, category vfs.DiskWriteCategory, options ...vfs.OpenOption) (vfs.File, error) {
	return f.open(CallOpen, name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, category, options...) })
}

// OpenDir implements vfs.FS.
func (f *FS) OpenDir(name string) (vfs.File, error) {
	return f.open(CallOpenDir, name, func() (vfs.File, error) { return f.FS.OpenDir(name) })
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	return f.do(CallRemove, name, func() error { return f.FS.Remove(name) })
}

// RemoveAll implements vfs.FS.
func (f *FS) RemoveAll(name string) error {
	return f.do(CallRemove, name, func() error { return f.FS.RemoveAll(name) })
}

// Rename implements vfs.FS.
func (f *FS) Rename(from, to string) error {
	return f.do(CallRename, to, func() error { return f.FS.Rename(from, to) })
}

// ReuseForWrite implements vfs.FS.
func (f *FS) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.open(CallReuseForWrite, to, func() (vfs.File, error) { return f.FS.ReuseForWrite(from, to, category) })
}

// MkdirAll implements vfs.FS.
func (f *FS) MkdirAll(dir string, perm os.FileMode) error {
	return f.do(CallMkdirAll, dir, func() error { return f.FS.MkdirAll(dir, perm) })
}

// Lock implements vfs.FS. ModeFailAfterSuccess acts like ModeFail, because the caller could not
// release the lock.
func (f *FS) Lock(name string) (io.Closer, error) {
	mode := f.faults.next(CallLock, name)
	if err := injectedError(mode); err != nil {
		return nil, wrap(CallLock, name, err)
	}
	return f.FS.Lock(name)
}

// List implements vfs.FS.
func (f *FS) List(dir string) (names []string, err error) {
	err = f.do(CallList, dir, func() (err error) {
		names, err = f.FS.List(dir)
		return err
	})
	return names, err
}

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (info vfs.FileInfo, err error) {
	err = f.do(CallStat, name, func() (err error) {
		info, err = f.FS.Stat(name)
		return err
	})
	return info, err
}

// GetDiskUsage implements vfs.FS.
func (f *FS) GetDiskUsage(dir string) (usage vfs.DiskUsage, err error) {
	err = f.do(CallDiskUsage, dir, func() (err error) {
		usage, err = f.FS.GetDiskUsage(dir)
		return err
	})
	return usage, err
}

type file struct {
	vfs.File
	name   string
	faults *Injector
}

func (f *file) do(call string, done func() error) error {
	return (&FS{faults: f.faults}).do(call, f.name, done)
}

// read calls the given function to fill p, unless the plan makes the call fail. In mode ModeFlipBit,
// read flips one bit of the data that the function has read.
func (f *file) read(p []byte, read func([]byte) (int, error)) (int, error) {
	mode := f.faults.next(CallRead, f.name)
	if err := injectedError(mode); err != nil {
		return 0, wrap(CallRead, f.name, err)
	}
	n, err := read(p)
	if mode == ModeFlipBit && n > 0 {
		p[f.faults.plan.BitIndex/8%n] ^= 1 << (f.faults.plan.BitIndex % 8)
	}
	return n, err
}

// Read implements vfs.File.
func (f *file) Read(p []byte) (int, error) { return f.read(p, f.File.Read) }

// ReadAt implements vfs.File.
func (f *file) ReadAt(p []byte, offset int64) (int, error) {
	return f.read(p, func(p []byte) (int, error) { return f.File.ReadAt(p, offset) })
}

// write calls the given function to write p. If the plan makes the call fail, the mode determines
// how much of p is written first: all, the first half, or nothing.
func (f *file) write(p []byte, write func([]byte) (int, error)) (int, error) {
	mode := f.faults.next(CallWrite, f.name)
	err := injectedError(mode)
	switch {
	case err == nil:
		return write(p)
	case mode == ModeFail:
		return 0, wrap(CallWrite, f.name, err)
	case mode == ModeFailAfterSuccess:
		if n, failed := write(p); failed != nil {
			return n, failed
		}
		return 0, wrap(CallWrite, f.name, err)
	}
	n, failed := write(p[:len(p)/2])
	if failed != nil {
		return n, failed
	}
	return n, wrap(CallWrite, f.name, err)
}

// Write implements vfs.File.
func (f *file) Write(p []byte) (int, error) { return f.write(p, f.File.Write) }

// WriteAt implements vfs.File.
func (f *file) WriteAt(p []byte, offset int64) (int, error) {
	return f.write(p, func(p []byte) (int, error) { return f.File.WriteAt(p, offset) })
}

// Sync implements vfs.File.
func (f *file) Sync() error { return f.do(CallSync, f.File.Sync) }

// SyncData implements vfs.File.
func (f *file) SyncData() error { return f.do(CallSync, f.File.SyncData) }

// SyncTo implements vfs.File.
func (f *file) SyncTo(length int64) (full bool, err error) {
	err = f.do(CallSyncTo, func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}

// Preallocate implements vfs.File.
func (f *file) Preallocate(offset, length int64) error {
	return f.do(CallPreallocate, func() error { return f.File.Preallocate(offset, length) })
}

// Close implements vfs.File. It closes the file even if it returns an error, because callers do not
// retry Close.
func (f *file) Close() error {
	err := wrap(CallClose, f.name, injectedError(f.faults.next(CallClose, f.name)))
	if closed := f.File.Close(); closed != nil {
		return fmt.Errorf("closing %s: %w", f.name, closed)
	}
	return err
}

// Stat implements vfs.File.
func (f *file) Stat() (info vfs.FileInfo, err error) {
	err = f.do(CallStat, func() (err error) {
		info, err = f.File.Stat()
		return err
	})
	return info, err
}
