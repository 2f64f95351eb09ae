//go:build unix

package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/backup"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/folderlock"
	"colophon/internal/safefile"
	"colophon/internal/server"
	"colophon/ledger"
)

// init sets the umask to 022. With a umask of 002, the folders that the tests create would be
// writable by the group.
func init() { syscall.Umask(0o022) }

// victim creates a file that no command is allowed to change. check requires that the file is
// unchanged.
func victim(t *testing.T) (path string, check func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "victim")
	require.NoError(t, os.WriteFile(path, []byte("precious"), 0o600))
	return path, func() {
		t.Helper()
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "precious", string(text))
	}
}

// A backup does not write through a link in the backup folder.
func TestBackupsFollowNoLink(t *testing.T) {
	s := newStored(t)
	s.post(1)
	args := []string{"backup", "--data", s.data, "--to", s.backups}
	for _, name := range []string{"incomplete", "LOCK", "files"} {
		path, check := victim(t)
		target := path
		if name == "files" {
			target = filepath.Dir(path)
		}
		require.NoError(t, os.MkdirAll(s.backups, 0o700))
		require.NoError(t, os.Symlink(target, filepath.Join(s.backups, name)))
		output := s.colophon(cli.ExitFailed, args...)
		require.Contains(t, output, name)
		check()
		entries, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		require.Len(t, entries, 1, "nothing may be written beside it")
		require.NoError(t, os.RemoveAll(s.backups))
	}
	s.backup()
	store := backup.Store{Dir: s.backups}
	for name := range s.files() { // replace each stored file with a link
		require.NoError(t, os.Rename(store.FilePath(name), store.FilePath(name)+".kept"))
		require.NoError(t, os.Symlink(store.FilePath(name)+".kept", store.FilePath(name)))
	}
	require.Contains(t, s.colophon(cli.ExitFailed, "restore", "--from", s.backups, "--data", filepath.Join(t.TempDir(), "x"), "--newest", "--key", s.key()),
		"not a regular file")
	s.backup()
	s.restore()
	name := filepath.Join(s.backups, s.manifests()[1].Name()+".json")
	require.NoError(t, os.Rename(name, name+".kept"))
	require.NoError(t, os.Symlink(name+".kept", name))
	require.Contains(t, s.colophon(cli.ExitFailed, "restore", "--from", s.backups, "--data", filepath.Join(t.TempDir(), "x"), "--newest", "--key", s.key()),
		"not a regular file")
}

// Commands refuse to use a data folder if other users can replace files in one of its subfolders.
func TestFoldersThatOthersCanChange(t *testing.T) {
	s := newStored(t)
	s.post(1)
	s.backup()
	s.colophon(cli.ExitOK, "reindex", "--data", s.data)
	key := s.key()
	commands := [][]string{
		{"serve", "--data", s.data, "--listen", "127.0.0.1:0"},
		{"fsck", "--data", s.data},
		{"reindex", "--data", s.data},
		{"keys", "rotate", ledger.DefaultName, "--data", s.data},
		{"backup", "--data", s.data, "--to", s.backups},
		{"restore", "--data", s.data, "--from", s.backups, "--key", key},
	}
	require.NoError(t, os.MkdirAll(datadir.SpoolFolder(s.data), 0o700))
	require.NoError(t, os.MkdirAll(datadir.TokenFolder(s.data), 0o700))
	require.NoError(t, os.MkdirAll(datadir.WebhookFolder(s.data), 0o700))
	for _, dir := range []string{
		s.data, datadir.DatabaseFolder(s.data), datadir.IndexFolder(s.data), datadir.SpoolFolder(s.data), datadir.SnapshotFolderOf(s.data).Dir,
		datadir.KeyFiles(s.data).Dir, datadir.HighWaterMarkFiles(s.data).Dir, datadir.TokenFolder(s.data), datadir.WebhookFolder(s.data),
	} {
		require.NoError(t, os.Chmod(dir, 0o777), "%s", dir)
		for _, args := range commands {
			if args[0] == "restore" { // restore needs a new folder, which can contain only keys and marks
				if dir != s.data && dir != datadir.KeyFiles(s.data).Dir && dir != datadir.HighWaterMarkFiles(s.data).Dir {
					continue
				}
				data := filepath.Join(t.TempDir(), "data")
				require.NoError(t, os.MkdirAll(data, 0o700))
				if dir == s.data {
					require.NoError(t, os.Chmod(data, 0o777))
				} else {
					require.NoError(t, os.Mkdir(filepath.Join(data, filepath.Base(dir)), 0o700))
					require.NoError(t, os.Chmod(filepath.Join(data, filepath.Base(dir)), 0o777))
				}
				args = append([]string{"restore", "--data", data}, args[3:]...)
			}
			output := s.colophon(cli.ExitUsage, args...)
			require.Contains(t, output, "can put files into", "%s: %s", dir, args)
			require.Contains(t, output, filepath.Base(dir))
		}
		require.NoError(t, os.Chmod(dir, 0o700))
	}
	for _, dir := range []string{datadir.ExternalStoreMarker(s.data), datadir.PublishedCopyFolder(s.data)} { // with these, most commands refuse the folder anyway
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.Chmod(dir, 0o777))
		require.Contains(t, s.colophon(cli.ExitUsage, commands[0]...), "other users can put files into "+dir)
		require.NoError(t, os.Remove(dir))
	}
	s.colophon(cli.ExitOK, "fsck", "--data", s.data)
}

// A command that runs as root does not sign with a key that another user has put into the folder.
func TestKeysOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root can give a file to another user")
	}
	const stranger = 54321
	s := newStored(t)
	s.post(1)
	next := datadir.KeyFiles(s.data).NextKeyPath(ledger.DefaultName)
	s.colophon(cli.ExitOK, "keygen", "--origin", s.origin(), "--out", next)
	require.NoError(t, os.Chown(next, stranger, stranger))
	rotate := []string{"keys", "rotate", ledger.DefaultName, "--data", s.data}
	require.Contains(t, s.colophon(cli.ExitFailed, rotate...), "belongs to another user (uid 54321)")
	require.NoError(t, os.Remove(next))
	require.NoError(t, os.Chown(datadir.KeyFiles(s.data).Dir, stranger, stranger))
	require.Contains(t, s.colophon(cli.ExitUsage, rotate...), "belongs to another user")
	require.NoError(t, os.Chown(datadir.KeyFiles(s.data).Dir, 0, 0))
	require.NoError(t, os.Chown(datadir.HighWaterMarkFiles(s.data).Path(ledger.DefaultName), stranger, stranger))
	require.Contains(t, s.colophon(cli.ExitFailed, rotate...), "belongs to another user")
	require.NoError(t, os.Chown(datadir.HighWaterMarkFiles(s.data).Path(ledger.DefaultName), 0, 0))
	s.token(s.data, "one")
	require.NoError(t, os.Chown(filepath.Join(datadir.TokenFolder(s.data), "tokens.json"), stranger, stranger))
	require.Contains(t, s.colophon(cli.ExitUsage, "serve", "--data", s.data, "--listen", "127.0.0.1:0"), "belongs to another user")
	require.NoError(t, os.Chown(filepath.Join(datadir.TokenFolder(s.data), "tokens.json"), 0, 0))
	s.colophon(cli.ExitOK, rotate...)

	// Root can run a command on a folder that belongs entirely to one other user.
	require.NoError(t, filepath.WalkDir(s.data, func(path string, _ os.DirEntry, err error) error {
		require.NoError(t, err)
		return os.Chown(path, stranger, stranger)
	}))
	s.colophon(cli.ExitOK, "keys", "list", ledger.DefaultName, "--data", s.data)
}

func (s *stored) origin() string {
	s.Helper()
	signer, err := datadir.KeyFiles(s.data).Load(ledger.DefaultName)
	require.NoError(s, err)
	return signer.Origin()
}

// A lock file is never opened through a link, and is never truncated.
func TestLockFilesMustNotBeLinks(t *testing.T) {
	path, check := victim(t)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(path, filepath.Join(dir, "LOCK")))
	_, err := folderlock.Take(dir)
	require.ErrorContains(t, err, "not a regular file")
	check()

	s := newStored(t)
	s.post(1)
	require.NoError(t, os.MkdirAll(datadir.TokenFolder(s.data), 0o700))
	require.NoError(t, os.Symlink(path+"x", filepath.Join(datadir.TokenFolder(s.data), "tokens.lock")))
	require.Contains(t, s.colophon(cli.ExitFailed, "token", "create", "--data", s.data, "--name", "one", "--scope", "read"), "not a regular file")
	require.NoFileExists(t, path+"x")
}

// Commands refuse to use files that anyone can write to, or a TLS key that anyone can read.
func TestNamedFilesThatOthersCanChange(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.NoError(t, os.Chmod(path, mode))
		return path
	}
	s := newStored(t)
	open := write("open.yaml", "log-level: info\n", 0o646)
	for _, args := range [][]string{{"--config", open}, {"--access-file", open}} {
		output := s.colophon(cli.ExitUsage, append([]string{"serve", "--data", s.data, "--listen", "127.0.0.1:0"}, args...)...)
		require.Contains(t, output, "anyone can write to "+open+"; run: chmod o-w "+open)
	}
	t.Run("by a variable", func(t *testing.T) {
		var out strings.Builder
		environment := func(name string) (string, bool) { return open, name == "COLOPHON_CONFIG" }
		require.Equal(t, cli.ExitUsage, run(t.Context(), []string{"serve", "--data", s.data, "--listen", "127.0.0.1:0"}, strings.NewReader(""), &out, &out, environment))
		require.Contains(t, out.String(), "anyone can write to")
	})
	for _, args := range [][]string{
		{"ledger", "list", "--token-file", open}, {"ledger", "list", "--ca-file", open},
		{"verify", open, "--key", open}, {"restore", "--from", s.backups, "--data", filepath.Join(dir, "none"), "--key", open},
	} {
		if args[0] == "restore" {
			s.post(1)
			s.backup()
		}
		var out strings.Builder
		require.NotZero(t, run(t.Context(), args, strings.NewReader(""), &out, &out, func(string) (string, bool) { return "", false }))
		require.Contains(t, out.String(), "anyone can write to", args)
	}
	for _, c := range []struct {
		cert, key, ca os.FileMode
		says          string
	}{
		{0o646, 0o600, 0o600, "anyone can write to "},
		{0o644, 0o644, 0o600, "anyone can read or write "},
		{0o644, 0o640, 0o600, "tls-cert"}, // the certificate file contains no certificate
	} {
		config := server.Config{TLSCertFile: write("cert", "x", c.cert), TLSKeyFile: write("key", "x", c.key), TLSClientCAFile: write("ca", "x", c.ca)}
		_, err := server.LoadTLSFiles(config, slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, c.says)
	}
}

// keygen and safefile.Replace do not write through a link that has the name of the new file.
func TestNewFilesFollowNoLink(t *testing.T) {
	s := newStored(t)
	path, check := victim(t)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(path, link))
	require.Contains(t, s.colophon(cli.ExitUsage, "keygen", "--out", link), "keygen does not overwrite it")
	check()
	require.NoError(t, safefile.Replace(link, []byte("new")))
	check()
}
