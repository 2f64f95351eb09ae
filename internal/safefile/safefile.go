// Package safefile opens files in folders into which another user may have put links, pipes,
// or files. On systems without owners and modes, it checks only that files are regular.
package safefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Open opens a regular file for reading. It returns an error for a link, and does not block on a
// pipe.
func Open(path string) (*os.File, fs.FileInfo, error) {
	if err := CheckRegular(path); err != nil {
		return nil, nil, err
	}
	file, err := os.OpenFile(path, os.O_RDONLY|openAtOnce, 0)
	if err != nil {
		return nil, nil, err
	}
	return checkOpened(path, file)
}

// OpenIn is like Open, but opens a file relative to root. It never opens a file outside root, even
// if another user replaces a folder in it with a link.
func OpenIn(root *os.Root, name string) (*os.File, error) {
	path := filepath.Join(root.Name(), name)
	info, err := root.Lstat(name)
	if err := checkRegular(path, info, err); err != nil {
		return nil, err
	}
	file, err := root.OpenFile(name, os.O_RDONLY|openAtOnce, 0)
	if err != nil {
		return nil, err
	}
	file, _, err = checkOpened(path, file)
	return file, err
}

// checkOpened closes the file and returns an error if the file is not regular. This check is
// needed because the file may have been replaced after its name was checked.
func checkOpened(path string, file *os.File) (*os.File, fs.FileInfo, error) {
	info, err := file.Stat()
	if err := checkRegular(path, info, err); err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}

// CheckRegular returns an error unless path is a regular file. A link is not a regular file. The
// error wraps fs.ErrNotExist if the file does not exist.
func CheckRegular(path string) error {
	info, err := os.Lstat(path)
	return checkRegular(path, info, err)
}

// checkRegular is like CheckRegular, but uses the given result of Lstat or Stat.
func checkRegular(path string, info fs.FileInfo, err error) error {
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file; remove it, or replace it with a regular file", path)
	}
	return err
}

// Read reads a regular file. It returns an error if anyone can write to the file, or if the file
// belongs to neither this user nor root. If this user is root, the file may also belong to the
// owner of its folder.
func Read(path string) ([]byte, error) {
	return read(path, func(info fs.FileInfo) error {
		if hasBits(info, 0o002) {
			return fmt.Errorf("anyone can write to %s; run: chmod o-w %s", path, path)
		}
		return nil
	})
}

// ReadPrivate is like Read, but also returns an error if anyone but the file's owner can read or
// write it.
func ReadPrivate(path string) ([]byte, error) {
	return read(path, func(info fs.FileInfo) error { return CheckPrivate(path, info, "600") })
}

func read(path string, check func(fs.FileInfo) error) ([]byte, error) {
	file, info, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := errors.Join(check(info), CheckOwner(path, info)); err != nil {
		return nil, err
	}
	return io.ReadAll(file)
}

// CheckPrivate returns an error if anyone but the owner of a file or folder can read or write it.
// The error message recommends changing the permissions to mode, for example "600".
func CheckPrivate(path string, info fs.FileInfo, mode string) error {
	if hasBits(info, 0o077) {
		return fmt.Errorf("other users can read or write %s; run: chmod %s %s", path, mode, path)
	}
	return nil
}

// CheckFolder returns an error if anyone but the folder's owner can create files in it, or if the
// folder fails CheckOwner. dir can be a link if the link belongs to the current user or root.
func CheckFolder(dir string) error {
	if err := checkLinkOwner(dir); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder; remove it or move it elsewhere", dir)
	case hasBits(info, 0o022):
		return fmt.Errorf("other users can put files into %s; run: chmod go-w %s", dir, dir)
	}
	return CheckOwner(dir, info)
}

// checkLinkOwner returns an error if path is a link that belongs to another user, because that user
// could redirect it to any folder.
func checkLinkOwner(path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != fs.ModeSymlink {
		return err
	}
	if owner, known := Owner(info); known && owner != os.Geteuid() && owner != 0 {
		return fmt.Errorf("%s is a link that belongs to another user (uid %d); remove it, or run: chown -h %d %s", path, owner, os.Geteuid(), path)
	}
	return nil
}

// CheckDataFolder returns an error if users outside the folder's group can create files in it, or
// if the folder fails CheckOwner. It is for folders whose subfolders must pass the stricter
// CheckFolder. It allows the group to write because container platforms need that, and allows root
// to use any user's folder.
func CheckDataFolder(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", dir)
	case hasBits(info, 0o002):
		return fmt.Errorf("anyone can put files into %s; run: chmod o-w %s", dir, dir)
	case os.Geteuid() == 0:
		return nil
	}
	return CheckOwner(dir, info)
}

// CheckNotSymlink returns an error if dir is a link to a folder instead of a folder.
func CheckNotSymlink(dir string) error {
	info, err := os.Lstat(dir)
	if err == nil && info.Mode().Type() == fs.ModeSymlink {
		err = fmt.Errorf("%s is a link; remove it, or name the folder that it points to", dir)
	}
	return err
}

// CheckUserFile returns an error if anyone can write to a file that the user named, or if the file
// is secret and anyone can read it. It follows links.
func CheckUserFile(path string, secret bool) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a folder; name a file", path)
	case !info.Mode().IsRegular():
		return nil // a pipe, for example, which stores no data to protect
	case secret && hasBits(info, 0o007):
		return fmt.Errorf("anyone can read or write %s; run: chmod o= %s", path, path)
	case hasBits(info, 0o002):
		return fmt.Errorf("anyone can write to %s; run: chmod o-w %s", path, path)
	}
	return nil
}

// ReadUserFile reads a file that passes CheckUserFile.
func ReadUserFile(path string, secret bool) ([]byte, error) {
	if err := CheckUserFile(path, secret); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// CheckOwner returns an error if a file or folder belongs to neither the current user nor root. If
// the current user is root, CheckOwner also accepts the owner of the containing folder.
func CheckOwner(path string, info fs.FileInfo) error {
	owner, known := Owner(info)
	self := os.Geteuid()
	if !known || owner == self || owner == 0 {
		return nil
	}
	if self == 0 {
		absolute, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		folder, err := os.Stat(filepath.Dir(absolute))
		if err != nil {
			return err
		}
		if around, _ := Owner(folder); around == owner {
			return nil
		}
	}
	return fmt.Errorf("%s belongs to another user (uid %d); remove it, or run: chown %d %s", path, owner, self, path)
}

// Create creates a file that only its owner can read and write. It replaces an existing regular
// file, but neither replaces a link nor writes through one.
func Create(path string) (*os.File, error) {
	err := CheckRegular(path)
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// CreateIn is like Create, but creates a file relative to root. It never creates a file outside
// root.
func CreateIn(root *os.Root, name string) (*os.File, error) {
	info, err := root.Lstat(name)
	if err = checkRegular(filepath.Join(root.Name(), name), info, err); err == nil {
		err = root.Remove(name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}
