//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/internal/backup"
	"colophon/internal/safefile"
)

// linked is a backup folder that contains one backup. The field outside names a copy of that
// folder.
type linked struct {
	*stored
	store    backup.Store
	manifest *backup.Manifest
	source   backup.SourceFile
	outside  string
	before   map[string]string // contents of the files in outside before the test, keyed by path
}

func newLinked(t *testing.T) *linked {
	s := newStored(t)
	s.post(1)
	s.backup()
	l := &linked{stored: s, store: backup.Store{Dir: s.backups}, manifest: s.manifests()[0], outside: filepath.Join(t.TempDir(), "outside")}
	require.NoError(t, os.CopyFS(l.outside, os.DirFS(s.backups)))
	require.NoError(t, os.WriteFile(filepath.Join(l.outside, "incomplete"), []byte("precious"), 0o600))
	l.before = l.found()
	path := filepath.Join(t.TempDir(), "source")
	require.NoError(t, os.WriteFile(path, []byte("a file that no backup has"), 0o600))
	info, err := os.Stat(path)
	require.NoError(t, err)
	l.source = backup.SourceFile{Name: "db/source", Path: path, Info: info}
	return l
}

// found returns the contents of the files in the folder outside, keyed by path.
func (l *linked) found() map[string]string {
	l.Helper()
	found := make(map[string]string)
	require.NoError(l, filepath.WalkDir(l.outside, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		found[path] = string(text)
		return err
	}))
	return found
}

// plant replaces a file or folder in the backup folder with a link to its counterpart in outside.
func (l *linked) plant(name string) {
	l.Helper()
	require.NoError(l, os.RemoveAll(filepath.Join(l.backups, name)))
	require.NoError(l, os.Symlink(filepath.Join(l.outside, name), filepath.Join(l.backups, name)))
}

// If another user replaces a file or folder with a link just before a step of a backup or a
// restore, the step does not read, write, or remove anything through the link.
func TestBackupStepsFollowNoLink(t *testing.T) {
	steps := map[string]func(l *linked) error{
		"make":  func(l *linked) error { return l.store.CreateFolders() },
		"names": func(l *linked) error { _, err := l.store.BackupNames(); return err },
		"add":   func(l *linked) error { _, _, err := l.store.Add(l.source); return err },
		"finish": func(l *linked) error {
			m := *l.manifest
			m.CreatedAt = m.CreatedAt.Add(time.Second)
			_, err := l.store.WriteManifest(&m)
			return err
		},
		"read":  func(l *linked) error { _, err := l.store.ReadManifest(l.manifest.Name()); return err },
		"open":  func(l *linked) error { _, err := l.store.OpenFile(l.manifest.Files[0]); return err },
		"prune": func(l *linked) error { return l.prune(1) },
	}
	for name, c := range map[string]struct {
		planted func(l *linked) string
		says    string
		refused []string // the steps that use the file or folder, and therefore must fail
	}{
		"files":         {func(*linked) string { return "files" }, "is a link or a file, not a folder", []string{"make", "names", "add", "finish", "read", "open", "prune"}},
		"incomplete":    {func(*linked) string { return backup.IncompleteFileName }, "is not a regular file", []string{"add", "finish"}},
		"a manifest":    {func(l *linked) string { return l.manifest.Name() + ".json" }, "is not a regular file", []string{"read", "prune"}},
		"a stored file": {func(l *linked) string { return backup.RelativeFilePath(l.manifest.Files[0].SHA256) }, "is not a regular file", []string{"open"}},
	} {
		for step, do := range steps {
			t.Run(name+", "+step, func(t *testing.T) {
				l := newLinked(t)
				if step == "prune" { // add an older backup for prune to remove
					m := *l.manifest
					m.CreatedAt = m.CreatedAt.Add(-time.Second)
					_, err := l.store.WriteManifest(&m)
					require.NoError(t, err)
				}
				l.plant(c.planted(l))
				err := do(l)
				if slices.Contains(c.refused, step) {
					require.ErrorContains(t, err, filepath.Join(l.backups, c.planted(l))+" "+c.says)
				} else {
					require.NoError(t, err)
				}
				require.Equal(t, l.before, l.found(), "nothing outside may change")
			})
		}
	}
}

// A backup that finds links in place of stored files or manifests replaces them and does not write
// through them.
func TestBackupsReplaceLinks(t *testing.T) {
	l := newLinked(t)
	f, _, err := l.store.Add(l.source)
	require.NoError(t, err)
	require.NoError(t, os.Rename(l.store.FilePath(f.SHA256), filepath.Join(l.outside, "files", f.SHA256)))
	l.before = l.found()
	l.plant(backup.RelativeFilePath(f.SHA256))
	_, copied, err := l.store.Add(l.source)
	require.NoError(t, err)
	require.Equal(t, f.Size, copied)
	require.NoError(t, safefile.CheckRegular(l.store.FilePath(f.SHA256)))

	l.plant(l.manifest.Name() + ".json")
	_, err = l.store.WriteManifest(l.manifest)
	require.NoError(t, err)
	_, err = l.store.ReadManifest(l.manifest.Name())
	require.NoError(t, err)
	require.Equal(t, l.before, l.found())
}

// A backup never follows a link, even if the folder of stored files is repeatedly swapped for a
// link while the backup reads and writes in it.
func TestBackupsWhileFilesAreSwapped(t *testing.T) {
	l := newLinked(t)
	stored := l.manifest.Files[0]
	require.NoError(t, os.WriteFile(filepath.Join(l.outside, "files", stored.SHA256), []byte("precious"), 0o600))
	l.before = l.found()
	files, kept := l.store.FilesFolder(), l.store.FilesFolder()+".kept"
	stop, stopped := make(chan struct{}), make(chan error)
	go func() {
		swap := func() error {
			for _, do := range []func() error{
				func() error { return os.Rename(files, kept) },
				func() error { return os.Symlink(filepath.Join(l.outside, "files"), files) },
				func() error { return os.Remove(files) },
				func() error { return os.Rename(kept, files) },
			} {
				if err := do(); err != nil {
					return err
				}
			}
			return nil
		}
		var err error
		for err == nil {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
				err = swap()
			}
		}
		stopped <- err
	}()
	added, read := 0, 0
	for i := 0; i < 300 || i < 30_000 && (added == 0 || read == 0); i++ { // a busy machine can need more attempts
		require.NoError(t, os.WriteFile(l.source.Path, fmt.Appendf(nil, "file %d", i), 0o600))
		if _, _, err := l.store.Add(l.source); err == nil {
			added++
		}
		for range 20 {
			in, err := l.store.OpenFile(stored)
			if err != nil {
				continue
			}
			read++
			digest, _, err := backup.DigestOf(in)
			require.NoError(t, errors.Join(err, in.Close()))
			require.Equal(t, stored.SHA256, digest, "nothing may be read from outside")
		}
	}
	close(stop)
	require.NoError(t, <-stopped)
	require.Positive(t, added)
	require.Positive(t, read)
	require.Equal(t, l.before, l.found(), "nothing may be written outside")
}
