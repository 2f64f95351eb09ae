package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/backup"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/ledger"
	"colophon/ledger/record"
	"colophon/storage/pebble"
)

// stored is a data folder that no server uses, and a folder for its backups.
type stored struct {
	*testing.T
	data, backups string
	posted        int
}

func newStored(t *testing.T) *stored {
	dir := t.TempDir()
	return &stored{T: t, data: filepath.Join(dir, "data"), backups: filepath.Join(dir, "backups")}
}

// post posts n records whose texts do not compress. It opens and closes the database.
func (s *stored) post(n int) {
	s.Helper()
	log := (&cli.Console{Err: io.Discard}).WarningLogger()
	database, err := pebble.Open(s.Context(), pebble.Config{Dir: datadir.DatabaseFolder(s.data), Logger: log})
	require.NoError(s, err)
	host, err := ledger.OpenHost(s.Context(), database, datadir.KeyFiles(s.data), func(string) ledger.Config {
		return ledger.Config{HighWaterMarks: datadir.HighWaterMarkFiles(s.data)}
	})
	require.NoError(s, err)
	l, err := host.Ledger(ledger.DefaultName)
	if err != nil {
		l, err = host.Create(s.Context(), ledger.CreateOptions{Name: ledger.DefaultName})
		require.NoError(s, err)
	}
	for range n {
		s.posted++
		r, err := record.DefaultLimits().WithPayloadMemberSecret(l.PayloadMemberSecret()).ParseRecord(record.KindIPCRecord, fmt.Appendf(nil, `{"payload":{},"output":"%d %s","model":"m","temperature":0,"max_tokens":1}`, s.posted, strings.Repeat(fmt.Sprint(s.posted*7919), 300)))
		require.NoError(s, err)
		submission, err := l.PrepareRecord(r, ledger.AnonymousActor, "")
		require.NoError(s, err)
		_, err = l.Submit(submission)
		require.NoError(s, err)
	}
	require.NoError(s, host.Close())
	require.NoError(s, database.Close())
}

// colophon runs a command, requires the given exit code, and returns the output.
func (s *stored) colophon(code int, args ...string) string {
	s.Helper()
	var out strings.Builder
	got := run(s.Context(), args, strings.NewReader(""), &out, &out, func(string) (string, bool) { return "", false })
	require.Equal(s, code, got, "%s", out.String())
	return out.String()
}

func (s *stored) backup(args ...string) string {
	s.Helper()
	return s.colophon(cli.ExitOK, append([]string{"backup", "--data", s.data, "--to", s.backups}, args...)...)
}

// key returns the verifier key of the ledger "default".
func (s *stored) key() string {
	s.Helper()
	signer, err := datadir.KeyFiles(s.data).Load(ledger.DefaultName)
	require.NoError(s, err)
	return signer.Verifier().String()
}

// restore restores the newest backup into a new folder, adds the keys, and checks the folder with fsck.
// It returns the path of the folder.
func (s *stored) restore(args ...string) string {
	s.Helper()
	data := filepath.Join(s.TempDir(), "restored")
	s.colophon(cli.ExitOK, append([]string{"restore", "--from", s.backups, "--data", data, "--newest", "--key", s.key()}, args...)...)
	require.NoError(s, os.CopyFS(filepath.Join(data, "keys"), os.DirFS(datadir.KeyFiles(s.data).Dir)))
	require.NoError(s, os.Chmod(datadir.KeyFiles(data).Path(ledger.DefaultName), 0o600))
	s.colophon(cli.ExitOK, "fsck", "--data", data)
	return data
}

// files returns the size of each stored file, keyed by file name. Backups share these files.
func (s *stored) files() map[string]int64 {
	s.Helper()
	entries, err := os.ReadDir(backup.Store{Dir: s.backups}.FilesFolder())
	require.NoError(s, err)
	sizes := make(map[string]int64)
	for _, entry := range entries {
		info, err := entry.Info()
		require.NoError(s, err)
		sizes[entry.Name()] = info.Size()
	}
	return sizes
}

func (s *stored) manifests() []*backup.Manifest {
	s.Helper()
	store := backup.Store{Dir: s.backups}
	names, err := store.BackupNames()
	require.NoError(s, err)
	var list []*backup.Manifest
	for _, name := range names {
		m, err := store.ReadManifest(name)
		require.NoError(s, err)
		list = append(list, m)
	}
	return list
}

// prune removes all but the newest keep backups, as backup --keep does.
func (s *stored) prune(keep int) error {
	store := backup.Store{Dir: s.backups}
	names, err := store.BackupNames()
	return errors.Join(err, store.Prune(keep, names, nil))
}

// A second backup copies only what is new, and both backups are complete.
func TestBackupsCopyWhatIsNew(t *testing.T) {
	s := newStored(t)
	s.post(400)
	s.backup()
	before := s.files()
	s.post(3)
	output := s.backup()
	after := s.files()
	var copied, all int64
	for name, size := range after {
		if _, there := before[name]; !there {
			copied += size
		}
	}
	manifests := s.manifests()
	require.Len(t, manifests, 2)
	shared := 0
	for _, f := range manifests[1].Files {
		all += f.Size
		if _, there := before[f.SHA256]; there && strings.HasSuffix(f.Name, ".sst") {
			shared++
		}
	}
	require.Contains(t, output, fmt.Sprintf(": %d bytes copied", copied))
	require.Positive(t, shared)
	require.Less(t, copied, all)
	require.EqualValues(t, 401, manifests[0].Ledgers[0].TreeSize)
	require.EqualValues(t, 404, manifests[1].Ledgers[0].TreeSize)
	store := backup.Store{Dir: s.backups}
	names, err := store.BackupNames()
	require.NoError(t, err)
	s.restore()
	s.restore("--backup", names[0])
	output = s.colophon(cli.ExitDamaged, "restore", "--from", s.backups, "--data", filepath.Join(t.TempDir(), "x"), "--newest", "--key", s.key(),
		"--backup", names[0], "--seen", datadir.HighWaterMarkFiles(s.data).Path(ledger.DefaultName))
	require.Contains(t, output, "the ledger has signed 404 events, but the store has only 401")

	// The second backup is still complete after the first has been removed.
	s.backup("--keep", "1")
	require.Len(t, s.manifests(), 1)
	needed := make(map[string]bool)
	for _, f := range s.manifests()[0].Files {
		needed[f.SHA256] = true
	}
	require.Len(t, s.files(), len(needed))
	s.restore()
}

// A backup that is interrupted at any step is not listed. The next backup does not copy again what
// was already copied.
func TestInterruptedBackupsDoNotCount(t *testing.T) {
	s := newStored(t)
	s.post(50)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NotZero(t, run(ctx, []string{"backup", "--data", s.data, "--to", s.backups}, strings.NewReader(""), io.Discard, io.Discard,
		func(string) (string, bool) { return "", false }))
	store := backup.Store{Dir: s.backups}
	require.NoError(t, store.CreateFolders())
	names, err := store.BackupNames()
	require.NoError(t, err)
	require.Empty(t, names)

	s.backup()
	whole := s.files()
	name, err := store.BackupNames()
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(s.backups, name[0]+".json")))
	require.NoError(t, os.WriteFile(filepath.Join(s.backups, "incomplete"), []byte("half"), 0o600))
	var missing string
	for name, size := range whole {
		if size > 4096 {
			missing = name
			require.NoError(t, os.WriteFile(store.FilePath(name), []byte("half"), 0o600))
			break
		}
	}
	require.NotEmpty(t, missing)
	s.colophon(cli.ExitUsage, "restore", "--from", s.backups, "--data", filepath.Join(t.TempDir(), "x"), "--newest")
	s.backup()
	s.restore()
	require.NoDirExists(t, datadir.SnapshotFolderOf(s.data).DatabasePath(), "no copy may be left behind")
}

// An interrupted restore can be repeated. A restore from damaged files creates no data folder.
func TestRestoresVerify(t *testing.T) {
	s := newStored(t)
	s.post(50)
	s.colophon(cli.ExitOK, "token", "create", "--data", s.data, "--name", "reader", "--scope", "read")
	s.backup("--with-keys")
	data := filepath.Join(t.TempDir(), "restored")
	for _, f := range s.manifests()[0].Files {
		if f.Size == 0 {
			continue
		}
		path := backup.Store{Dir: s.backups}.FilePath(f.SHA256)
		good, err := os.ReadFile(path)
		require.NoError(t, err)
		bad := append([]byte{}, good...)
		bad[len(bad)/2] ^= 1
		for _, damaged := range [][]byte{bad, good[:len(good)-1], append(good[:len(good):len(good)], 0)} {
			require.NoError(t, os.WriteFile(path, damaged, 0o600))
			output := s.colophon(cli.ExitFailed, "restore", "--from", s.backups, "--data", data, "--newest", "--with-tokens", "--key", s.key())
			require.Contains(t, output, "the backup is damaged", f.Name)
			require.NoDirExists(t, data, "the failed restore must not prevent the next one")
		}
		require.NoError(t, os.WriteFile(path, good, 0o600))
	}
	require.NoError(t, os.MkdirAll(datadir.DatabaseFolder(datadir.RestoreFolder(data)), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(datadir.DatabaseFolder(datadir.RestoreFolder(data)), "000009.sst"), []byte("half"), 0o600))
	s.colophon(cli.ExitOK, "restore", "--from", s.backups, "--data", data, "--newest", "--with-tokens", "--key", s.key())
	require.NoDirExists(t, datadir.RestoreFolder(data))
	require.DirExists(t, datadir.TokenFolder(data))
	s.colophon(cli.ExitOK, "fsck", "--data", data)

	manifest := s.manifests()[0]
	for _, name := range []string{"db/../../x", "db/", "index/x", "/etc/x", "db/a/b", ""} {
		err := backup.RestoreFile(backup.Store{Dir: s.backups}, backup.StoredFile{Name: name, SHA256: manifest.Files[0].SHA256}, t.TempDir())
		require.ErrorContains(t, err, "the file ", "%q", name)
	}
}

// A backup contains keys only if the flag --with-keys is given.
func TestBackupsLeaveKeysOut(t *testing.T) {
	s := newStored(t)
	s.post(1)
	key, err := os.ReadFile(datadir.KeyFiles(s.data).Path(ledger.DefaultName))
	require.NoError(t, err)
	holds := func() bool {
		for name := range s.files() {
			text, err := os.ReadFile(backup.Store{Dir: s.backups}.FilePath(name))
			require.NoError(t, err)
			if strings.Contains(string(text), strings.TrimSpace(string(key))) {
				return true
			}
		}
		return false
	}
	s.backup()
	require.False(t, holds())
	s.backup("--with-keys")
	require.True(t, holds())
	s.backup("--keep", "1")
	require.False(t, holds())
}
