package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/api/admin"
	"colophon/internal/backup"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/folderlock"
	"colophon/storage/pebble"
)

// opened opens the database in the data folder and closes it when the test ends. Until then, no other
// process can open it.
func (s *stored) opened() *pebble.Database {
	s.Helper()
	log := (&cli.Console{Err: io.Discard}).WarningLogger()
	database, err := pebble.Open(s.Context(), pebble.Config{Dir: datadir.DatabaseFolder(s.data), Logger: log})
	require.NoError(s, err)
	s.Cleanup(func() { require.NoError(s, database.Close()) })
	return database
}

// A hostile server cannot make a backup read or remove files outside the server's database copy.
func TestBackupsDoNotTrustServers(t *testing.T) {
	s := newStored(t)
	s.post(1)
	s.opened()
	for _, name := range []string{"..", ".", "", "backup", "../db", "LOCK"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, `{"name":%q,"erasing":0}`, name)
		}))
		output := s.colophon(cli.ExitUsage, "backup", "--data", s.data, "--to", s.backups, "--server", server.URL)
		require.Contains(t, output, "does not use the data folder")
		server.Close()
		require.FileExists(t, filepath.Join(datadir.DatabaseFolder(s.data), "LOCK"))
		require.FileExists(t, datadir.KeyFiles(s.data).Path("default"))
		require.Empty(t, s.manifests())
	}
}

// A server copies its database only while a backup waits for the copy, and makes only one copy at a
// time. It removes copies that earlier backups left behind.
func TestSnapshotsServeOneBackup(t *testing.T) {
	s := newStored(t)
	s.post(1)
	database, copies := s.opened(), datadir.SnapshotFolderOf(s.data)
	_, _, err := copies.CopyForBackupProcess(t.Context(), database)
	require.ErrorIs(t, err, admin.ErrNoSnapshot, "no folder")
	require.NoError(t, copies.Reset())
	_, _, err = copies.CopyForBackupProcess(t.Context(), database)
	require.ErrorIs(t, err, admin.ErrNoSnapshot, "no backup waits for a copy")

	held, err := copies.Lock()
	require.NoError(t, err)
	require.NoError(t, copies.RemoveLeftoverCopy(), "no copy yet")
	name, _, err := copies.CopyForBackupProcess(t.Context(), database)
	require.NoError(t, err)
	require.DirExists(t, filepath.Join(copies.Dir, name, "db"))
	_, _, err = copies.CopyForBackupProcess(t.Context(), database)
	require.ErrorIs(t, err, admin.ErrNoSnapshot)
	require.ErrorContains(t, err, "already has a copy of the database")
	require.ErrorIs(t, copies.RemoveLeftoverCopy(), datadir.ErrSnapshotInUse)
	require.DirExists(t, copies.DatabasePath())
	require.NoError(t, held.Close()) // the operating system releases the lock when a backup is killed
	require.NoError(t, copies.RemoveLeftoverCopy())
	require.NoDirExists(t, copies.DatabasePath())
}

// Two backups from the same data folder, or into the same backup folder, never run at the
// same time.
func TestBackupsDoNotRunAtOnce(t *testing.T) {
	s := newStored(t)
	s.post(1)
	s.backup()
	for _, k := range []struct{ dir, says string }{
		{s.backups, "another backup to"}, {datadir.SnapshotFolderOf(s.data).Dir, "another backup of this data folder"},
	} {
		lock, err := folderlock.Take(k.dir)
		require.NoError(t, err)
		require.Contains(t, s.colophon(cli.ExitInUse, "backup", "--data", s.data, "--to", s.backups, "--keep", "1"), k.says)
		require.NoError(t, lock.Close())
	}
	require.Len(t, s.manifests(), 1)
	s.backup()
}

// Every file that a manifest lists must be in the backup folder and be no larger than the manifest
// states.
func TestManifestsNameFilesOfTheBackupOnly(t *testing.T) {
	s := newStored(t)
	s.post(1)
	s.backup()
	store := backup.Store{Dir: s.backups}
	names, err := store.BackupNames()
	require.NoError(t, err)
	good, file := s.manifests()[0], s.manifests()[0].Files[0]

	require.NoError(t, os.WriteFile(store.FilePath(file.SHA256), make([]byte, file.Size+1000), 0o600))
	dir := t.TempDir()
	require.ErrorContains(t, backup.RestoreFile(store, file, dir), "the backup is damaged")
	info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(file.Name)))
	require.NoError(t, err)
	require.Equal(t, file.Size+1, info.Size(), "the rest must not be read")
	require.NoError(t, os.Remove(store.FilePath(file.SHA256)))
	require.NoError(t, os.Mkdir(store.FilePath(file.SHA256), 0o700))
	require.ErrorContains(t, backup.RestoreFile(store, file, dir), "is not a regular file")

	path := filepath.Join(s.backups, names[0]+".json")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, digest := range []string{"../../x", "", strings.ToUpper(good.Files[0].SHA256), good.Files[0].SHA256 + "0"} {
		changed := strings.Replace(string(text), good.Files[0].SHA256, digest, 1)
		require.NoError(t, os.WriteFile(path, []byte(changed), 0o600))
		_, err := store.ReadManifest(names[0])
		require.ErrorContains(t, err, "is damaged", "%q", digest)
	}
}

// A backup signs only what it has read from the data folder. It replaces stored files that another
// program has changed.
func TestBackupsTrustNoStoredFile(t *testing.T) {
	s := newStored(t)
	s.post(50)
	s.backup()
	s.change(func(m *backup.Manifest) {
		for i, f := range m.Files {
			if filepath.Ext(f.Name) != ".sst" {
				continue
			}
			store := backup.Store{Dir: s.backups}
			text, err := os.ReadFile(store.FilePath(f.SHA256))
			require.NoError(t, err)
			text[len(text)/2] ^= 1
			require.NoError(t, os.WriteFile(store.FilePath(f.SHA256), text, 0o600)) // damage the content without changing its length
			sum := sha256.Sum256(text)
			m.Files[i].SHA256 = hex.EncodeToString(sum[:]) // the replacement is stored under its own digest
			require.NoError(t, os.WriteFile(store.FilePath(m.Files[i].SHA256), text, 0o600))
		}
	})
	planted := s.manifests()[0]
	s.backup()
	made := s.manifests()[1]
	tables := 0
	for _, f := range made.Files {
		in, err := backup.Store{Dir: s.backups}.OpenFile(f)
		require.NoError(t, err)
		digest, _, err := backup.DigestOf(in)
		require.NoError(t, errors.Join(err, in.Close()))
		require.Equal(t, f.SHA256, digest)
		if filepath.Ext(f.Name) == ".sst" {
			tables++
			require.NotContains(t, planted.Files, f)
		}
	}
	require.Positive(t, tables)
	s.restore()
}

// Pruning old backups follows no links and removes no files that are not part of a backup.
func TestPruneFollowsNoLink(t *testing.T) {
	s := newStored(t)
	s.post(1)
	s.backup()
	s.backup()
	victim := t.TempDir()
	kept := []string{filepath.Join(victim, "a.conf"), filepath.Join(victim, strings.Repeat("a", 64)), filepath.Join(s.backups, "files", "notes")}
	for _, path := range kept {
		require.NoError(t, os.WriteFile(path, []byte("precious"), 0o600))
	}
	require.NoError(t, s.prune(1))
	s.backup()
	require.NoError(t, os.Rename(filepath.Join(s.backups, "files"), filepath.Join(s.backups, "old")))
	require.NoError(t, os.Symlink(victim, filepath.Join(s.backups, "files")))
	require.Error(t, s.prune(1))
	require.FileExists(t, filepath.Join(s.backups, "old", "notes"))
	for _, path := range kept[:2] {
		require.FileExists(t, path)
	}
}
