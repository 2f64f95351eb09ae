package bucket

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"colophon/internal/safefile"
)

// folder is a bucket that stores each object as a file in a folder. The tag of an object is its
// SHA-256 digest.
type folder struct {
	root string
	made sync.Map // paths of folders whose creation is known to be durable
	// replacing is held from the check of a tag until the object has been replaced, so that no
	// other goroutine changes the object. A lock on the object's folder excludes other processes.
	replacing sync.Mutex
}

// writing is the name of the folder for incomplete files. The folder is next to the objects,
// because Put creates hard links to these files, and hard links cannot cross file systems.
const writing = ".writing"

// abandoned is the age at which an incomplete file is considered to be left over from a process
// that has stopped.
const abandoned = time.Hour

func (f *folder) path(name string) (string, error) {
	local, err := filepath.Localize(name)
	if err != nil {
		return "", fmt.Errorf("invalid object name %q: %w", name, err)
	}
	return filepath.Join(f.root, local), nil
}

// Get implements Bucket.
func (f *folder) Get(ctx context.Context, name string, limit int64) (body []byte, tag string, err error) {
	path, err := f.path(name)
	if err != nil {
		return nil, "", err
	}
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, "", absent(name, err)
	}
	defer file.Close()
	if body, err = readObject(name, file, -1, limit); err != nil {
		return nil, "", absent(name, err)
	}
	return body, tagOf(body), nil
}

// absent replaces err with ErrNotFound if it means that the file is missing or is a folder.
func absent(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || isFolder(err) {
		return fmt.Errorf("reading %s: %w", name, ErrNotFound)
	}
	return err
}

func tagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// Size implements Bucket.
func (f *folder) Size(ctx context.Context, name string) (int64, error) {
	path, err := f.path(name)
	if err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return 0, absent(name, errors.Join(err, fs.ErrNotExist))
	}
	return info.Size(), nil
}

// Put implements Bucket.
func (f *folder) Put(ctx context.Context, name string, body []byte, _ Attributes, condition Condition) error {
	path, err := f.path(name)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := errors.Join(f.makeFolder(filepath.Dir(path)), f.prepareWriting()); err != nil {
		return err
	}
	if condition.absent {
		if _, err := os.Lstat(path); err == nil { // do not write the file if linking it would fail
			return fmt.Errorf("writing %s: %w", name, ErrPreconditionFailed)
		}
	}
	complete, err := f.write(body)
	if errors.Is(err, fs.ErrNotExist) {
		f.made.Clear() // the folder was removed in the meantime; the next attempt creates it
	}
	if err != nil {
		return err
	}
	defer os.Remove(complete)
	if condition.absent {
		err = os.Link(complete, path)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("writing %s: %w", name, ErrPreconditionFailed)
		}
	} else {
		err = f.replace(ctx, name, path, complete, condition)
	}
	if errors.Is(err, fs.ErrNotExist) {
		f.made.Clear()
	}
	if err != nil {
		return err
	}
	return safefile.SyncDir(filepath.Dir(path))
}

// replace moves the file complete to path if the condition holds. It replaces any object at path.
func (f *folder) replace(ctx context.Context, name, path, complete string, condition Condition) error {
	f.replacing.Lock()
	defer f.replacing.Unlock()
	lock, err := lockFolder(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer lock.Close()
	if (condition != Condition{}) {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("writing %s: %w", name, ErrPreconditionFailed)
		}
		if err != nil {
			return err
		}
		_, tag, err := f.Get(ctx, name, info.Size())
		if err != nil {
			return err
		}
		if !condition.Holds(tag) {
			return fmt.Errorf("writing %s: %w", name, ErrPreconditionFailed)
		}
	}
	return os.Rename(complete, path)
}

// write durably writes the bytes to a new file in the folder for incomplete files, and returns its
// path.
func (f *folder) write(body []byte) (path string, err error) {
	file, err := os.CreateTemp(filepath.Join(f.root, writing), "")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(file, bytes.NewReader(body))
	err = errors.Join(err, file.Chmod(0o644), file.Sync(), file.Close()) // #nosec G302 -- the copy is there to be served
	if err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// makeFolder durably creates a folder and its parents.
func (f *folder) makeFolder(path string) error {
	if _, made := f.made.Load(path); made {
		return nil
	}
	above := filepath.Dir(path)
	if above != path && strings.HasPrefix(path, f.root) {
		if err := f.makeFolder(above); err != nil {
			return err
		}
	}
	err := os.Mkdir(path, 0o755) // #nosec G301 -- the copy is there to be served
	switch {
	case err == nil:
		err = safefile.SyncDir(above)
	case errors.Is(err, fs.ErrExist):
		err = nil
	}
	if err == nil {
		f.made.Store(path, true)
	}
	return err
}

// prepareWriting creates the folder for incomplete files. The first call also removes abandoned files that
// earlier processes left there.
func (f *folder) prepareWriting() error {
	dir := filepath.Join(f.root, writing)
	if _, swept := f.made.Load(dir); swept {
		return nil
	}
	if err := f.makeFolder(dir); err != nil {
		return err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, file := range files {
		if info, err := file.Info(); err == nil && time.Since(info.ModTime()) > abandoned {
			_ = os.Remove(filepath.Join(dir, file.Name())) // if this fails, the next start tries again
		}
	}
	return nil
}
