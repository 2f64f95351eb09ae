package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/schollz/progressbar/v3"

	"colophon/api/access"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/safefile"
)

func (m *Manifest) hasTokens() bool {
	return slices.ContainsFunc(m.Files, func(f StoredFile) bool { return strings.HasPrefix(f.Name, "access/") })
}

// needsNewToken reports whether the restored server must require a token although no tokens are
// restored. It returns false if the operator asked to restore the tokens. Otherwise, it returns true if
// the backup contains tokens, or if it is unauthenticated, because a forged manifest might conceal
// them.
func (o RestoreOptions) needsNewToken(m *Manifest) bool {
	return !o.IncludeTokens && (m.hasTokens() || o.AllowUnauthenticated)
}

// takes reports whether the given file of the backup should be restored. Staged keys from an
// unauthenticated backup are not restored, because an attacker might have added such a key, and the
// ledger would later sign with it.
func (o RestoreOptions) takes(f StoredFile) bool {
	switch folder, base := path.Split(f.Name); folder {
	case "access/":
		return o.IncludeTokens
	case "keys/":
		return !o.AllowUnauthenticated || !strings.HasSuffix(base, ".next") && !strings.HasSuffix(base, ".new")
	}
	return true
}

// restoreFiles copies the files for which takes returns true from the backup into
// datadir.RestoreFolder. It first removes any files that an interrupted restore left there.
func (o RestoreOptions) restoreFiles(ctx context.Context, c *cli.Console, store Store, m *Manifest) error {
	dir := datadir.RestoreFolder(o.DataFolder)
	left, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range left { // remove the files of an interrupted restore, but not the lock
		if entry.IsDir() {
			if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	var files []StoredFile
	var total int64
	for _, f := range m.Files {
		if o.takes(f) {
			files = append(files, f)
			total += f.Size
		}
	}
	if o.needsNewToken(m) {
		if err := (access.TokenStore{Dir: datadir.TokenFolder(dir)}).Clear(); err != nil {
			return err
		}
	}
	bar := cli.NewProgress(c, total, "restoring", progressbar.OptionShowBytes(true))
	defer bar.Finish()
	for _, f := range files {
		if ctx.Err() != nil {
			return cli.ExitErrorf(cli.ExitFailed, "interrupted; nothing was restored")
		}
		if err := RestoreFile(store, f, dir); err != nil {
			return fmt.Errorf("restoring %s: %w", f.Name, err)
		}
		bar.Add(int(f.Size))
	}
	return nil
}

// RestoreFile durably copies a file from a backup into dir. It returns an error if a data folder cannot
// contain a file with that name, or if the content does not match the manifest.
func RestoreFile(store Store, f StoredFile, dir string) error {
	folder, base := path.Split(f.Name)
	switch folder {
	case "db/", "access/", "keys/":
	default:
		return errors.New("the file does not belong in a data folder")
	}
	if base == "" || !filepath.IsLocal(base) || filepath.Base(base) != base {
		return errors.New("the file name is not valid")
	}
	to := filepath.Join(dir, filepath.FromSlash(folder))
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	in, err := store.OpenFile(f)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := safefile.Create(filepath.Join(to, base))
	if err != nil {
		return err
	}
	// Allow one more byte than expected, to detect a file that is too long.
	digest, size, err := copyFile(out, io.LimitReader(in, f.Size+1))
	if err == nil && (digest != f.SHA256 || size != f.Size) {
		err = fmt.Errorf("the backup is damaged: %s does not match the size (%d bytes) or the hash in the manifest; restore another backup", store.FilePath(f.SHA256), f.Size)
	}
	return err
}

// placeRestored durably moves the restored files into place. It moves the database last, so that no
// server can open the database before its keys and tokens are in place, even after a power loss.
func (o RestoreOptions) placeRestored(m *Manifest) error {
	data, from := o.DataFolder, datadir.RestoreFolder(o.DataFolder)
	if err := o.checkEmpty(m); err != nil { // checked again: a server that started before the restore may have created files since
		return err
	}
	folders, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if !folder.IsDir() { // the lock file
			continue
		}
		if err := safefile.SyncDir(filepath.Join(from, folder.Name())); err != nil {
			return err
		}
	}
	if err := placeKeys(filepath.Join(from, "keys"), datadir.KeyFiles(data).Dir); err != nil {
		return err
	}
	if err := os.Rename(datadir.TokenFolder(from), datadir.TokenFolder(data)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := safefile.SyncDir(data); err != nil {
		return err
	}
	if err := os.Rename(datadir.DatabaseFolder(from), datadir.DatabaseFolder(data)); err != nil {
		return errors.Join(err, o.takeBackTokens(m))
	}
	return safefile.SyncDir(data)
}

// ownsTokens reports whether the tokens in the data folder come from an interrupted placeRestored. A
// restore that has tokens writes them to datadir.RestoreFolder before it writes the database there. If
// the database is there without the tokens, placeRestored has therefore moved them.
func (o RestoreOptions) ownsTokens(m *Manifest) bool {
	from := datadir.RestoreFolder(o.DataFolder)
	_, err := os.Lstat(datadir.TokenFolder(from))
	return (o.needsNewToken(m) || o.IncludeTokens && m.hasTokens()) && datadir.HasDatabase(from) && errors.Is(err, fs.ErrNotExist)
}

// takeBackTokens moves the tokens that ownsTokens describes back into datadir.RestoreFolder. The caller
// must hold the lock.
func (o RestoreOptions) takeBackTokens(m *Manifest) error {
	if !o.ownsTokens(m) {
		return nil
	}
	err := os.Rename(datadir.TokenFolder(o.DataFolder), datadir.TokenFolder(datadir.RestoreFolder(o.DataFolder)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// placeKeys moves the keys of a backup, if it has any, into the keys folder. It does not
// replace keys that are already there.
func placeKeys(from, to string) error {
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := errors.Join(err, os.MkdirAll(to, 0o700)); err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(to, entry.Name())
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		if err := os.Rename(filepath.Join(from, entry.Name()), path); err != nil {
			return err
		}
	}
	return safefile.SyncDir(to)
}
