package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/safefile"
)

// asOwner is what to do about a file that only its owner can look at.
const asOwner = "run this as the owner of the data folder, or as root"

// checkFolder: the data folder is there, and closed to others.
func checkFolder(d *doctor) []diagnosis {
	info, err := os.Stat(d.data())
	switch {
	case errors.Is(err, fs.ErrNotExist) && d.settings.named:
		return found(wrong, "correct its name; if this is to be a first start, serve makes it, so look again after that", "there is no folder %s", d.data())
	case errors.Is(err, fs.ErrNotExist):
		return found(advice, "name the folder with --data; if this is to be a first start, serve makes it", "there is no folder %s", d.data())
	case errors.Is(err, fs.ErrPermission):
		return found(unchecked, asOwner, "%v", err)
	case err != nil:
		return found(wrong, "", "%v", err)
	case !info.IsDir():
		return found(wrong, "name a folder with --data", "%s is not a folder", d.data())
	case hasModes && info.Mode().Perm()&0o007 != 0:
		return found(wrong, "run: chmod 700 "+d.data(), "every user of this machine can look into %s, texts included (mode %o)", d.data(), info.Mode().Perm())
	case hasModes && info.Mode().Perm()&0o070 != 0:
		return found(advice, "run: chmod 700 "+d.data(), "a group can look into %s, texts included (mode %o)", d.data(), info.Mode().Perm())
	}
	if _, err := os.Stat(datadir.Database(d.data())); errors.Is(err, fs.ErrNotExist) {
		return found(advice, "name the folder with --data; if this is to be a first start, serve makes it", "%s holds no ledgers", d.data())
	}
	return found(fine, "", "%s is its owner's alone", d.data())
}

// checkOwner: all files belong to the user who runs the server. A command that root
// has run on the folder leaves files that the server cannot open.
func checkOwner(d *doctor) []diagnosis {
	folder, err := os.Stat(d.data())
	if err != nil {
		return found(unchecked, "", "the folder cannot be looked at")
	}
	owner, known := safefile.Owner(folder)
	if !known {
		return found(unchecked, "", "this system's files have no owner that could be compared")
	}
	others, example, err := filesOfOthers(resolved(d.data()), owner)
	if errors.Is(err, fs.ErrPermission) {
		return found(unchecked, asOwner, "%v", err)
	}
	if err != nil {
		return found(wrong, "", "%v", err)
	}
	if others > 0 {
		return found(wrong, fmt.Sprintf("run: chown -R %d %s", owner, d.data()),
			"%s, such as %s, of others than user %d, who owns the folder", cli.Counted(others, "file"), example, owner)
	}
	return found(fine, "", "everything belongs to user %d", owner)
}

// filesOfOthers counts what is in a data folder and belongs to another user.
func filesOfOthers(data string, owner int) (count uint64, example string, err error) {
	err = filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a server removes files all the time
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if entry.Name() == "lost+found" {
			return fs.SkipDir
		}
		if user, _ := safefile.Owner(info); user != owner {
			count, example = count+1, path
		}
		return nil
	})
	return count, example, err
}

// checkKeys: each signing key can be used and is the owner's alone; what waits or was
// left over is named.
func checkKeys(d *doctor) []diagnosis {
	dir := datadir.Keys(d.data()).Dir
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return found(unchecked, asOwner, "%v", err)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return found(wrong, "", "%v", err)
	case len(entries) == 0:
		if _, err := os.Stat(datadir.Database(d.data())); err == nil {
			return found(wrong, "restore the keys from a backup; a ledger cannot go on without its key", "there is a database but no key in %s", dir)
		}
		return found(fine, "", "there are none yet; the first start makes one")
	}
	var list []diagnosis
	if info, err := os.Stat(dir); err == nil && hasModes && info.Mode().Perm()&0o077 != 0 {
		list = append(list, found(wrong, "run: chmod 700 "+dir, "others can look into %s (mode %o)", dir, info.Mode().Perm())...)
	}
	var good []string
	for _, entry := range entries {
		name, isKey := strings.CutSuffix(entry.Name(), ".key")
		if !isKey {
			list = append(list, checkNoKey(d, entry.Name())...)
			continue
		}
		switch _, err := datadir.Keys(d.data()).Load(name); {
		case errors.Is(err, fs.ErrPermission):
			list = append(list, found(unchecked, asOwner, "%v", err)...)
		case err != nil:
			list = append(list, found(wrong, "do what it says, or restore the file from a backup", "%v", err)...)
		default:
			good = append(good, name)
		}
	}
	list = append(list, checkLostKeys(d)...)
	return orFine(list, "%s: %s", cli.Counted(uint64(len(good)), "key"), strings.Join(good, ", "))
}

// checkLostKeys names the ledgers that have signed, as their marks show, and have no signing
// key in a file or a variable.
func checkLostKeys(d *doctor) []diagnosis {
	marks, err := filepath.Glob(filepath.Join(datadir.Marks(d.data()).Dir, "*.checkpoint"))
	if err != nil {
		return found(wrong, "", "%v", err)
	}
	var list []diagnosis
	keys := datadir.SigningKeys(d.Console, d.data())
	for _, path := range marks {
		name := strings.TrimSuffix(filepath.Base(path), ".checkpoint")
		_, err := os.Lstat(keys.Path(name))
		if value, _ := d.Console.Env(keys.Variable(name)); errors.Is(err, fs.ErrNotExist) && value == "" {
			list = append(list, found(wrong, "put "+keys.Path(name)+" back from a backup; until then the ledger takes no writes",
				"ledger %s has signed, as its mark shows, and no signing key of it is in %s", name, keys.Dir)...)
		}
	}
	return list
}

// checkNoKey judges a file among the keys that is none.
func checkNoKey(d *doctor, file string) []diagnosis {
	path := filepath.Join(datadir.Keys(d.data()).Dir, file)
	if strings.HasSuffix(file, ".vkey") {
		return nil // of a key in a variable
	}
	name, staged := strings.CutSuffix(file, ".key.new")
	if name, next := strings.CutSuffix(file, ".key.next"); next {
		return found(advice, "rotate (colophon keys rotate "+name+"), or remove the file", "%s waits to follow the key of ledger %s", path, name)
	}
	if name, previous := strings.CutSuffix(file, ".key.previous"); previous {
		return found(advice, "once everybody has the new key: colophon keys retire "+name, "%s still signs beside the newest key of ledger %s", path, name)
	}
	if !staged {
		return found(advice, "remove it, unless you know what it is for", "%s is no signing key of a ledger; it may hold one that a crash left", path)
	}
	signer, err := datadir.Keys(d.data()).Staged(name)
	if errors.Is(err, fs.ErrPermission) {
		return found(unchecked, asOwner, "%v", err)
	}
	if err != nil {
		return found(wrong, "do what it says, or remove the file", "%v", err)
	}
	return found(advice, "make the ledger (colophon ledger create "+name+"), or remove the file", "%s waits for its ledger to be made, of origin %s", path, signer.Origin())
}

// checkKeyCopy reminds of what cannot be seen.
func checkKeyCopy(d *doctor) []diagnosis {
	names, err := keyNames(d.data())
	if err != nil {
		return found(unchecked, asOwner, "%v", err)
	}
	if len(names) == 0 {
		return found(fine, "", "there is no key to keep a copy of")
	}
	return found(advice, "keep a copy of "+datadir.Keys(d.data()).Dir+" in a safe place, apart from copies of the database",
		"whether there is a copy cannot be seen from here; a key that is lost cannot be made again")
}

// keyNames are the ledgers whose signing keys are in the data folder.
func keyNames(data string) ([]string, error) {
	entries, err := os.ReadDir(datadir.Keys(data).Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if name, isKey := strings.CutSuffix(entry.Name(), ".key"); isKey {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}
