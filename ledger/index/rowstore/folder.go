package rowstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// damagedLayout replaces the layout while the index is being emptied, and after damage has
// been found. It differs from the layout of every build, so the next start empties the
// index.
const damagedLayout = "colophon index, to be emptied\n"

// These are the names of this package's files. All other files belong to the engine. A folder with
// layoutFile is known to contain an index, so it can be emptied.
const (
	lockFile   = "LOCK"
	layoutFile = "LAYOUT"
	layoutNext = "LAYOUT.next"
)

// folder is the folder of an index. All methods except acquire must be called with the lock held.
type folder struct {
	files  vfs.FS
	dir    string
	layout string // layout of this build
}

func (f folder) path(name string) string { return f.files.PathJoin(f.dir, name) }

// acquire creates the folder if it is absent, and locks it.
func (f folder) acquire() (*engine.Lock, error) {
	if err := f.files.MkdirAll(f.dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := engine.LockDirectory(f.dir, f.files)
	if err != nil {
		return nil, fmt.Errorf("locking the folder: %w", err)
	}
	return lock, nil
}

// prepare makes sure that the folder contains either an index with this build's layout or
// nothing. It empties an index that has a different layout, and then returns true. It refuses a
// folder that contains other files, and leaves it unchanged.
func (f folder) prepare() (emptied bool, err error) {
	stored, err := f.readLayout()
	switch {
	case err == nil && stored == f.layout:
		return false, nil
	case err == nil:
		return true, f.empty()
	case !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	names, err := f.contents()
	if err != nil {
		return false, err
	}
	if len(names) > 0 {
		return false, fmt.Errorf("the folder contains no index, but it contains other files, such as %q", names[0])
	}
	return false, f.writeLayout(f.layout)
}

// empty deletes the index. If it is interrupted, the next start completes it.
func (f folder) empty() error {
	if err := f.writeLayout(damagedLayout); err != nil {
		return err
	}
	names, err := f.contents()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := f.files.RemoveAll(f.path(name)); err != nil {
			return err
		}
	}
	if err := f.sync(); err != nil {
		return err
	}
	return f.writeLayout(f.layout)
}

// contents returns the names of the engine's files in the folder.
func (f folder) contents() ([]string, error) {
	all, err := f.files.List(f.dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range all {
		if name != lockFile && name != layoutFile && name != layoutNext {
			names = append(names, name)
		}
	}
	return names, nil
}

func (f folder) readLayout() (string, error) {
	file, err := f.files.Open(f.path(layoutFile))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(file)
	return string(text), errors.Join(err, file.Close())
}

// writeLayout replaces the layout file atomically and durably.
func (f folder) writeLayout(text string) error {
	file, err := f.files.Create(f.path(layoutNext), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = file.Write([]byte(text))
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := f.files.Rename(f.path(layoutNext), f.path(layoutFile)); err != nil {
		return err
	}
	return f.sync()
}

// sync makes the names of files in the folder durable.
func (f folder) sync() error {
	dir, err := f.files.OpenDir(f.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// MinFreeBytes is the free space, in bytes, below which nothing is folded. If the disk were
// full, the engine could only exit the process, and the ledger would stop with it. MinFreeBytes
// is less than the smallest free-space threshold of the log, so that committed events can still
// be folded.
const MinFreeBytes = 24 << 20

// hasSpace reports whether there is enough space to fold. It returns true if the file system
// does not report its free space.
func (f folder) hasSpace() (bool, error) {
	usage, err := f.files.GetDiskUsage(f.dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("checking free space: %w", err)
	}
	return usage.AvailBytes >= MinFreeBytes, nil
}

// environmental reports whether an error comes from the operating system, for example because of
// permissions, too many open files, or the disk. In that case, emptying the index would not help. A
// missing file counts as damage.
func environmental(err error) bool {
	var number syscall.Errno
	return errors.As(err, &number) && number != syscall.ENOENT
}
