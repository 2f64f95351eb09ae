// Package safefile opens files of a folder in which somebody else may have put links,
// pipes, or files of their own. On systems without owners and modes it checks only that
// files are regular.
package safefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Open opens a regular file for reading. It refuses a link, and never waits for a pipe.
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

// OpenIn is Open for a name in a root. It opens nothing outside of the root, even if
// another user swaps its folders for links meanwhile.
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

// checkOpened refuses an open file that is not regular: it was replaced after the check
// of its name.
func checkOpened(path string, file *os.File) (*os.File, fs.FileInfo, error) {
	info, err := file.Stat()
	if err := checkRegular(path, info, err); err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}

// CheckRegular refuses what is no regular file, a link included. The error is
// fs.ErrNotExist if nothing is there.
func CheckRegular(path string) error {
	info, err := os.Lstat(path)
	return checkRegular(path, info, err)
}

// checkRegular is CheckRegular for what Lstat or Stat has returned.
func checkRegular(path string, info fs.FileInfo, err error) error {
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file; remove it, or put the file itself there", path)
	}
	return err
}

// Read reads a file that only its owner may change: this user, the administrator, or
// the owner of its folder where the administrator reads it.
func Read(path string) ([]byte, error) {
	return read(path, func(info fs.FileInfo) error {
		if hasBits(info, 0o002) {
			return fmt.Errorf("%s can be written by everybody; run: chmod o-w %s", path, path)
		}
		return nil
	})
}

// ReadPrivate is Read of a file that only its owner may read.
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

// CheckPrivate refuses a file or folder that others than its owner can read or write,
// and says how to change that.
func CheckPrivate(path string, info fs.FileInfo, mode string) error {
	if hasBits(info, 0o077) {
		return fmt.Errorf("%s can be read or written by others; run: chmod %s %s", path, mode, path)
	}
	return nil
}

// CheckFolder refuses a folder into which others than its owner can put files. dir may be
// a link of this user's or the administrator's.
func CheckFolder(dir string) error {
	if err := checkLinkOwner(dir); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no folder; move it away", dir)
	case hasBits(info, 0o022):
		return fmt.Errorf("others can put files into %s; run: chmod go-w %s", dir, dir)
	}
	return CheckOwner(dir, info)
}

// checkLinkOwner refuses a link of another user, who could lead this one to any folder.
func checkLinkOwner(path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != fs.ModeSymlink {
		return err
	}
	if owner, known := Owner(info); known && owner != os.Geteuid() && owner != 0 {
		return fmt.Errorf("%s is a link of another user, of id %d; remove it, or run: chown -h %d %s", path, owner, os.Geteuid(), path)
	}
	return nil
}

// CheckDataFolder is CheckFolder for the folder around those that CheckFolder checks. Its
// group may write to it, as container platforms arrange. The administrator may work with
// that of any user.
func CheckDataFolder(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", dir)
	case hasBits(info, 0o002):
		return fmt.Errorf("everybody can put files into %s; run: chmod o-w %s", dir, dir)
	case os.Geteuid() == 0:
		return nil
	}
	return CheckOwner(dir, info)
}

// CheckNoLink refuses a link in the place of a folder.
func CheckNoLink(dir string) error {
	info, err := os.Lstat(dir)
	if err == nil && info.Mode().Type() == fs.ModeSymlink {
		err = fmt.Errorf("%s is a link; remove it, or name the folder that it leads to", dir)
	}
	return err
}

// CheckNamed checks a file that the operator has named: links are followed. It refuses
// one that everybody can write, and a secret that everybody can read.
func CheckNamed(path string, secret bool) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a folder; name a file", path)
	case !info.Mode().IsRegular():
		return nil // a pipe, which has no other content than its writer gives
	case secret && hasBits(info, 0o007):
		return fmt.Errorf("%s can be read or written by everybody; run: chmod o= %s", path, path)
	case hasBits(info, 0o002):
		return fmt.Errorf("%s can be written by everybody; run: chmod o-w %s", path, path)
	}
	return nil
}

// CheckOwner refuses a file or folder of another user. The administrator may work with
// those of the folder's owner.
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
	return fmt.Errorf("%s belongs to another user, of id %d; remove it, or run: chown %d %s", path, owner, self, path)
}

// Create makes a new file that its owner alone can read, in the place of a regular file.
// It never writes through a link, and refuses to replace one.
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

// CreateIn is Create for a name in a root. It creates nothing outside of the root.
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
