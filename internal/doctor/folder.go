package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/safefile"
)

// adviceRunAsOwner is the advice for files that the current user has no permission to read.
const adviceRunAsOwner = "run the doctor as the owner of the data folder, or as root"

// checkFolder checks that the data folder exists and that only its owner can open it. A volume must
// stay open to its group, so checkFolder looks at the folders in it instead.
func checkFolder(d *deployment) []Finding {
	info, err := os.Stat(d.data())
	switch {
	case errors.Is(err, fs.ErrNotExist) && d.settings.named:
		return finding(VerdictWrong, "correct the name or, if the server has never been started, run serve to create the folder", "the folder %s does not exist", d.data())
	case errors.Is(err, fs.ErrNotExist):
		return finding(VerdictAdvice, "name the folder with --data or, if the server has never been started, run serve to create the folder", "the folder %s does not exist", d.data())
	case errors.Is(err, fs.ErrPermission):
		return finding(VerdictNotChecked, adviceRunAsOwner, "%v", err)
	case err != nil:
		return finding(VerdictWrong, "", "%v", err)
	case !info.IsDir():
		return finding(VerdictWrong, "name a folder with --data", "%s is not a folder", d.data())
	}
	volume := d.isVolume(info)
	switch {
	case volume && info.Mode().Perm()&0o002 != 0:
		return finding(VerdictWrong, "run as root: chmod o-w "+d.data(), "every user of this machine can put files into %s (mode %o)", d.data(), info.Mode().Perm())
	case !volume:
		if list := checkReaders(d.data(), info); list != nil {
			return list
		}
	}
	if _, err := os.Stat(d.logFolder()); errors.Is(err, fs.ErrNotExist) {
		return finding(VerdictAdvice, "name the folder with --data or, if the server has never been started, run serve to create the ledger", "%s contains no ledgers", d.data())
	}
	if !volume {
		return finding(VerdictOK, "", "only its owner can read %s", d.data())
	}
	entries, err := os.ReadDir(d.data())
	if err != nil {
		return finding(VerdictNotChecked, adviceRunAsOwner, "%v", err)
	}
	for _, entry := range entries {
		path := filepath.Join(d.data(), entry.Name())
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			if list := checkReaders(path, info); list != nil {
				return list
			}
		}
	}
	return finding(VerdictOK, "", "root owns %s, as it owns a volume, and only their owner can read the folders in it", d.data())
}

// checkReaders returns a finding if users other than the owner can read a folder.
func checkReaders(path string, info fs.FileInfo) []Finding {
	switch mode := info.Mode().Perm(); {
	case hasModes && mode&0o007 != 0:
		return finding(VerdictWrong, "run: chmod 700 "+path, "every user of this machine can read %s and all texts in it (mode %o)", path, mode)
	case hasModes && mode&0o070 != 0:
		return finding(VerdictAdvice, "run: chmod 700 "+path, "members of the folder's group can read %s and all texts in it (mode %o)", path, mode)
	}
	return nil
}

// isVolume reports whether root owns the data folder, but not the log in it. Kubernetes mounts a volume
// like that. The server's user then writes to it as a member of the group. A folder of root without
// a log can be a new volume.
func (d *deployment) isVolume(folder fs.FileInfo) bool {
	root, known := safefile.Owner(folder)
	owner, found := d.owner(folder)
	return known && root == 0 && !(found && owner == 0)
}

// owner returns the user to whom the files in the data folder should belong: the owner of the folder
// or, if that is root, the owner of the log. ok is false if root owns the folder and there is no log,
// or if files have no owner on this system.
func (d *deployment) owner(folder fs.FileInfo) (owner int, ok bool) {
	owner, ok = safefile.Owner(folder)
	if owner != 0 || !ok {
		return owner, ok
	}
	log, err := os.Stat(d.logFolder())
	if err != nil {
		return 0, false
	}
	return safefile.Owner(log)
}

// logFolder returns the folder that a server with these settings creates in the data folder for its
// log. It is the database, the published copy, or, if the log is in another database, a marker.
func (d *deployment) logFolder() string {
	switch config := d.settings.config; {
	case config.StoreURL != "":
		return datadir.ExternalStoreMarker(d.data())
	case config.CopyURL != "":
		return datadir.PublishedCopyFolder(d.data())
	}
	return datadir.DatabaseFolder(d.data())
}

// checkOwner checks that all files belong to one user (see owner). If root has run a command on the
// folder, it may contain files that the server cannot open.
func checkOwner(d *deployment) []Finding {
	folder, err := os.Stat(d.data())
	if err != nil {
		return finding(VerdictNotChecked, "", "the folder cannot be read")
	}
	if _, known := safefile.Owner(folder); !known {
		return finding(VerdictNotChecked, "", "files have no owner on this system")
	}
	owner, ok := d.owner(folder)
	if !ok {
		return finding(VerdictNotChecked, "", "root owns the folder, and it contains no ledgers that show which user runs the server")
	}
	others, example, err := filesOfOthers(datadir.ResolveSymlinks(d.data()), owner)
	if errors.Is(err, fs.ErrPermission) {
		return finding(VerdictNotChecked, adviceRunAsOwner, "%v", err)
	}
	if err != nil {
		return finding(VerdictWrong, "", "%v", err)
	}
	if others > 0 {
		do := fmt.Sprintf("run: chown -R %d %s", owner, d.data())
		if owner == 0 { // giving the keys to root is wrong unless root runs the server
			do = "run chown -R with the user that runs the server"
		}
		return finding(VerdictWrong, do, "found %s, such as %s, not owned by user %d, who should own all files", cli.FormatCount(others, "file"), example, owner)
	}
	return finding(VerdictOK, "", "all files belong to user %d", owner)
}

// filesOfOthers counts the files and folders in a data folder that do not belong to owner. It ignores
// the data folder itself. example is the path of one of them.
func filesOfOthers(data string, owner int) (count uint64, example string, err error) {
	err = filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a running server may remove files at any time
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
		if user, _ := safefile.Owner(info); user != owner && path != data {
			count, example = count+1, path
		}
		return nil
	})
	return count, example, err
}

// checkKeys checks that each signing key can be used and that only its owner can read it. It also
// reports staged keys and unknown files.
func checkKeys(d *deployment) []Finding {
	if d.settings.config.ReadOnly {
		return finding(VerdictOK, "", "a read-only server needs no signing key")
	}
	dir := datadir.KeyFiles(d.data()).Dir
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return finding(VerdictNotChecked, adviceRunAsOwner, "%v", err)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return finding(VerdictWrong, "", "%v", err)
	case len(entries) == 0:
		if _, err := os.Stat(datadir.DatabaseFolder(d.data())); err == nil {
			return finding(VerdictWrong, "restore the keys from a backup; a ledger cannot continue without its key", "the database exists, but %s contains no signing key", dir)
		}
		return finding(VerdictOK, "", "no signing key exists yet; the server creates one when it first starts")
	}
	var list []Finding
	if info, err := os.Stat(dir); err == nil && hasModes && info.Mode().Perm()&0o077 != 0 {
		list = append(list, finding(VerdictWrong, "run: chmod 700 "+dir, "other users can read %s (mode %o)", dir, info.Mode().Perm())...)
	}
	var good []string
	for _, entry := range entries {
		name, isKey := strings.CutSuffix(entry.Name(), ".key")
		if !isKey {
			list = append(list, checkOtherFile(d, entry.Name())...)
			continue
		}
		switch _, err := datadir.KeyFiles(d.data()).Load(name); {
		case errors.Is(err, fs.ErrPermission):
			list = append(list, finding(VerdictNotChecked, adviceRunAsOwner, "%v", err)...)
		case err != nil:
			list = append(list, finding(VerdictWrong, "fix the reported problem, or restore the file from a backup", "%v", err)...)
		default:
			good = append(good, name)
		}
	}
	list = append(list, checkLostKeys(d)...)
	return orOK(list, "%s: %s", cli.FormatCount(uint64(len(good)), "key"), strings.Join(good, ", "))
}

// checkLostKeys reports ledgers that have signed checkpoints, according to their high-water marks,
// but whose signing keys are neither in a file nor in an environment variable.
func checkLostKeys(d *deployment) []Finding {
	marks, err := filepath.Glob(filepath.Join(datadir.HighWaterMarkFiles(d.data()).Dir, "*.checkpoint"))
	if err != nil {
		return finding(VerdictWrong, "", "%v", err)
	}
	var list []Finding
	keys := datadir.SigningKeys(d.console, d.data())
	for _, path := range marks {
		name := strings.TrimSuffix(filepath.Base(path), ".checkpoint")
		_, err := os.Lstat(keys.Path(name))
		if value, _ := d.console.LookupEnv(keys.VariableName(name)); errors.Is(err, fs.ErrNotExist) && value == "" {
			list = append(list, finding(VerdictWrong, "restore "+keys.Path(name)+" from a backup; until then the ledger accepts no writes",
				"ledger %s has signed checkpoints, according to its mark, but %s contains no signing key for the ledger", name, keys.Dir)...)
		}
	}
	return list
}

// checkOtherFile reports a file in the keys folder that is not the signing key of a ledger.
func checkOtherFile(d *deployment, file string) []Finding {
	path := filepath.Join(datadir.KeyFiles(d.data()).Dir, file)
	if strings.HasSuffix(file, ".vkey") {
		return nil // the signing key is in an environment variable, so only its verifier key is in a file
	}
	name, staged := strings.CutSuffix(file, ".key.new")
	if name, next := strings.CutSuffix(file, ".key.next"); next {
		return finding(VerdictAdvice, "rotate the key (colophon keys rotate "+name+"), or remove the file", "%s is a staged successor of the key of ledger %s", path, name)
	}
	if name, previous := strings.CutSuffix(file, ".key.previous"); previous {
		return finding(VerdictAdvice, "once all clients have the new key, run: colophon keys retire "+name, "the key in %s still signs in addition to the newest key of ledger %s", path, name)
	}
	if !staged {
		return finding(VerdictAdvice, "remove the file, unless you know what it is for", "%s is not the signing key of a ledger; it may be left over from a crash", path)
	}
	signer, err := datadir.KeyFiles(d.data()).LoadStaged(name)
	if errors.Is(err, fs.ErrPermission) {
		return finding(VerdictNotChecked, adviceRunAsOwner, "%v", err)
	}
	if err != nil {
		return finding(VerdictWrong, "fix the reported problem, or remove the file", "%v", err)
	}
	return finding(VerdictAdvice, "create the ledger (colophon ledger create "+name+"), or remove the file", "%s is the staged key of a ledger that does not exist yet (origin %s)", path, signer.Origin())
}

// checkKeyCopy reminds the operator to keep a copy of the keys, because the doctor cannot see
// whether one exists.
func checkKeyCopy(d *deployment) []Finding {
	names, err := datadir.LedgersWithKeys(d.data())
	if err != nil {
		return finding(VerdictNotChecked, adviceRunAsOwner, "%v", err)
	}
	if len(names) == 0 {
		return finding(VerdictOK, "", "there is no key to copy")
	}
	return finding(VerdictAdvice, "keep a copy of "+datadir.KeyFiles(d.data()).Dir+" in a safe place, apart from copies of the database",
		"the doctor cannot check whether the keys have been copied; a lost key cannot be replaced")
}
