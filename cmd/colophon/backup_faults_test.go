package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api/access"
	"colophon/internal/backup"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/folderlock"
	"colophon/ledger"
	"colophon/proofs"
	"colophon/storage"
)

// The backup that was made last is treated as the newest, even if the clock was set back in the
// meantime.
func TestBackupsNeverGoBackInTime(t *testing.T) {
	s := newStored(t)
	s.post(1)
	s.backup()
	// The test dates the first backup as if the clock had been ahead.
	ahead := s.manifests()[0]
	require.NoError(t, os.Remove(filepath.Join(s.backups, ahead.Name()+".json")))
	ahead.CreatedAt = time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)
	_, err := ahead.Sign(datadir.SigningKeys(&cli.Console{LookupEnv: func(string) (string, bool) { return "", false }}, s.data))
	require.NoError(t, err)
	_, err = backup.Store{Dir: s.backups}.WriteManifest(ahead)
	require.NoError(t, err)

	s.post(2)
	s.backup("--keep", "1")
	left := s.manifests()
	require.Len(t, left, 1, "the previous backup must be removed, not the new one")
	require.EqualValues(t, 4, left[0].Ledgers[0].TreeSize)
	require.True(t, left[0].CreatedAt.After(ahead.CreatedAt))
	s.restore()
}

// A backup that is dated far in the future is treated as the newest only if its manifest is signed
// with the ledgers' keys. An unsigned backup never prevents another backup from being made,
// removed, or restored, and is never removed itself.
func TestBackupsDatedInTheFarFuture(t *testing.T) {
	s := newStored(t)
	s.post(1)
	s.backup()
	store := backup.Store{Dir: s.backups}
	real := s.manifests()[0]
	environment := &cli.Console{LookupEnv: func(string) (string, bool) { return "", false }}
	forge := func(made time.Time, change func(m *backup.Manifest)) string {
		m := *real
		m.CreatedAt = made
		_, err := m.Sign(datadir.SigningKeys(environment, s.data))
		require.NoError(t, err)
		change(&m)
		name, err := store.WriteManifest(&m)
		require.NoError(t, err)
		return name
	}
	text := []byte("of a backup that a wrong clock might have dated")
	sum := sha256.Sum256(text)
	digest := hex.EncodeToString(sum[:])
	require.NoError(t, os.WriteFile(store.FilePath(digest), text, 0o600))
	far := time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)
	planted := []string{
		forge(time.Now().UTC().Add(25*time.Hour).Truncate(time.Microsecond), func(m *backup.Manifest) { m.SignedNote = "" }),
		forge(far, func(m *backup.Manifest) { m.SignedNote = "" }),
		forge(far.Add(time.Microsecond), func(m *backup.Manifest) {
			m.Files = []backup.StoredFile{{Name: "db/x", SHA256: digest, Size: int64(len(text))}}
		}),
		time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC).Format(backup.NameLayout),
		"backup-20250101T000000.000000Z.1",
		"backup-of mine",
		"backup-99999999T000000.000000Z",
	}
	for _, name := range planted[3:] {
		require.NoError(t, os.WriteFile(filepath.Join(s.backups, name+".json"), []byte("{}"), 0o600))
	}
	slices.Sort(planted)
	counted := func() []string {
		names, ignored, err := store.ClassifyBackups(time.Now(), func(*backup.Manifest) bool { return false })
		require.NoError(t, err)
		require.Equal(t, planted, ignored)
		return names
	}
	for _, keep := range []int{2, 2, 1} {
		s.post(1)
		output := s.backup("--keep", strconv.Itoa(keep))
		for _, name := range planted {
			require.Contains(t, output, strconv.Quote(name))
		}
		names := counted()
		require.Len(t, names, keep)
		m, err := store.ReadManifest(names[keep-1])
		require.NoError(t, err)
		require.EqualValues(t, 1+s.posted, m.Ledgers[0].TreeSize, "the newest signed backup must be restored")
		require.WithinDuration(t, time.Now(), m.CreatedAt, time.Hour)
		require.FileExists(t, store.FilePath(digest), "the unsigned backup must be kept, because it might be real")
	}
	for _, args := range [][]string{{"--key", s.key()}, {"--unauthenticated"}} {
		data := filepath.Join(t.TempDir(), "data")
		output := s.colophon(cli.ExitOK, append([]string{"restore", "--from", s.backups, "--data", data, "--newest"}, args...)...)
		require.Contains(t, output, strconv.Quote(planted[0]))
		require.Contains(t, output, fmt.Sprintf("default: %d events", 1+s.posted))
	}
	require.NoError(t, os.Remove(filepath.Join(s.backups, counted()[0]+".json")))
	data := filepath.Join(t.TempDir(), "data")
	args := []string{"restore", "--from", s.backups, "--data", data, "--newest", "--key", s.key()}
	require.Contains(t, s.colophon(cli.ExitUsage, args...), "cannot determine the newest backup in "+s.backups)
	require.Contains(t, s.colophon(cli.ExitFailed, append(args, "--backup", far.Format(backup.NameLayout))...), "the backup is not signed", "the backup that --backup names must be read")
}

// Only one restore into a folder can run at a time. A restore refuses a folder that contains
// anything except keys and marks.
func TestRestoresDoNotRunAtOnce(t *testing.T) {
	s := newStored(t)
	s.post(1)
	s.backup()
	data := filepath.Join(t.TempDir(), "data")
	args := []string{"restore", "--from", s.backups, "--data", data, "--newest", "--key", s.key()}
	require.NoError(t, os.MkdirAll(datadir.RestoreFolder(data), 0o700))
	lock, err := folderlock.Take(datadir.RestoreFolder(data))
	require.NoError(t, err)
	require.Contains(t, s.colophon(cli.ExitInUse, args...), "another restore into "+data+" is running")
	require.Contains(t, s.colophon(cli.ExitInUse, "serve", "--data", data, "--listen", "127.0.0.1:0"), "a restore into the folder "+data+" is running")
	require.NoDirExists(t, datadir.DatabaseFolder(data))
	require.NoError(t, lock.Close())
	require.NoError(t, datadir.CheckNoRestore(data), "a restore that was killed does not stop the server")
	s.colophon(cli.ExitOK, args...)
	require.NoDirExists(t, datadir.RestoreFolder(data))
	require.Contains(t, s.colophon(cli.ExitUsage, args...), "is not empty")
	for _, name := range []string{"access", "index", "notes.txt"} {
		data := filepath.Join(t.TempDir(), "data")
		require.NoError(t, os.MkdirAll(filepath.Join(data, name), 0o700))
		output := s.colophon(cli.ExitUsage, "restore", "--from", s.backups, "--data", data, "--newest", "--key", s.key())
		require.Contains(t, output, `is not empty (it contains "`+name+`")`)
		require.NoDirExists(t, datadir.DatabaseFolder(data))
	}
}

// A restore that was killed between two of its last steps can be repeated. A token folder that it did not
// create stays.
func TestKilledRestoresCanBeRepeated(t *testing.T) {
	s := newStored(t)
	s.post(1)
	s.backup()
	open := s.manifests()[0].Name()
	token := s.token(s.data, "one")
	s.backup("--with-keys")
	for _, extra := range [][]string{{"--with-tokens"}, {}} {
		data := filepath.Join(t.TempDir(), "data")
		args := append([]string{"restore", "--from", s.backups, "--data", data, "--newest", "--key", s.key()}, extra...)
		s.colophon(cli.ExitOK, args...)
		require.NoError(t, os.Mkdir(datadir.RestoreFolder(data), 0o700))
		require.NoError(t, os.Rename(datadir.DatabaseFolder(data), datadir.DatabaseFolder(datadir.RestoreFolder(data))))
		require.Contains(t, s.colophon(cli.ExitUsage, append(args, "--backup", open)...), `is not empty (it contains "access")`, "that backup has no tokens")
		s.colophon(cli.ExitOK, args...)
		accepted, required := authorized(t, data, token)
		require.Equal(t, len(extra) > 0, accepted)
		require.True(t, required)
		s.colophon(cli.ExitOK, "fsck", "--data", data)
	}
}

// A restore moves nothing into place if a server has created its own database in the meantime.
func TestRestoresDoNotMixWithServers(t *testing.T) {
	s := newStored(t)
	s.post(1)
	s.token(s.data, "one")
	s.backup("--with-keys")
	data := filepath.Join(t.TempDir(), "data")
	hook := func() {
		if datadir.HasDatabase(datadir.RestoreFolder(data)) {
			require.NoError(t, os.MkdirAll(datadir.DatabaseFolder(data), 0o700))
		}
	}
	c := cli.New(strings.NewReader(""), io.Discard, io.Discard, func(string) (string, bool) { return "", false })
	o := backup.RestoreOptions{BackupFolder: s.backups, DataFolder: data, TrustedKeys: []string{s.key()}, AssumeNewestBackup: true, IncludeTokens: true}
	require.ErrorContains(t, backup.Restore(hookContext{t.Context(), hook}, c, o), `is not empty (it contains "db")`)
	require.NoDirExists(t, datadir.KeyFiles(data).Dir)
	require.NoDirExists(t, datadir.TokenFolder(data))
}

// If several servers start on one folder at the same time, one of them opens it, and the others
// report that it is in use.
func TestServersStartAtOnce(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	const servers = 4
	started := make([]*process, servers)
	var all sync.WaitGroup
	for i := range started {
		all.Go(func() { started[i] = startProcess(t, data) })
	}
	all.Wait()
	up := 0
	for _, p := range started {
		if p.up {
			up++
			require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
			require.Equal(t, cli.ExitOK, p.wait(), "%s", p.output)
			continue
		}
		require.Equal(t, cli.ExitInUse, p.wait(), "%s", p.output)
		require.Contains(t, p.output.String(), "another process is using the data folder")
	}
	require.Equal(t, 1, up)
	s := &stored{T: t, data: data}
	require.Contains(t, s.colophon(cli.ExitOK, "fsck", "--data", data), "default: clean: 1 event")
}

// A backup that is made while the server erases content warns that it might contain erased texts.
func TestBackupsReportPendingErasures(t *testing.T) {
	s := newStored(t)
	s.post(1)
	database := s.opened()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, _, err := datadir.SnapshotFolderOf(s.data).CopyForBackupProcess(r.Context(), database); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"name":"backup","erasing":2}`)
	}))
	defer server.Close()
	require.Contains(t, s.backup("--server", server.URL), "this backup may still contain 2 erased texts: make another backup in a minute, and remove this one")
}

// A backup is listed only after the head, the tree, and the signature of every ledger have been
// verified.
func TestBackupsAreVerified(t *testing.T) {
	s := newStored(t)
	s.post(1)
	database := s.opened()
	bad, err := database.CreateLedger(t.Context(), storage.LedgerInfo{Name: "bad", Origin: "log.example/bad"})
	require.NoError(t, err)
	good, err := database.Ledger(t.Context(), ledger.DefaultName)
	require.NoError(t, err)
	head, err := good.Head(t.Context())
	require.NoError(t, err)
	first, err := good.Entry(t.Context(), 0)
	require.NoError(t, err)
	head.Size = 1 // the head states one event, but its checkpoint covers two
	leaf := proofs.LeafHash(first)
	require.NoError(t, bad.Commit(t.Context(), storage.Head{}, storage.Batch{
		Head: head, Entries: [][]byte{first}, Tiles: []storage.Tile{{Hashes: leaf[:]}},
	}))
	held, err := datadir.SnapshotFolderOf(s.data).Lock()
	require.NoError(t, err)
	_, err = datadir.SnapshotFolderOf(s.data).CopyDatabase(t.Context(), database)
	require.NoError(t, err)
	other := filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.MkdirAll(other, 0o700))
	require.NoError(t, os.Rename(datadir.SnapshotFolderOf(s.data).DatabasePath(), datadir.DatabaseFolder(other)))
	require.NoError(t, held.Close())
	require.Contains(t, s.colophon(cli.ExitFailed, "backup", "--data", other, "--to", s.backups), `ledger "bad"`)
	require.Empty(t, s.manifests())
}

// By default, a backup contains only the database and the tokens. It can be restored after the
// backup folder has been moved.
func TestBackupsHoldDatabaseAndTokensOnly(t *testing.T) {
	s := newStored(t)
	s.post(3)
	s.colophon(cli.ExitOK, "reindex", "--data", s.data)
	s.token(s.data, "one")
	require.FileExists(t, datadir.HighWaterMarkFiles(s.data).Path(ledger.DefaultName))
	s.backup()
	folders := make(map[string]bool)
	for _, f := range s.manifests()[0].Files {
		folder, file := path.Split(f.Name)
		require.NotEqual(t, access.DiskReserveFileName, file)
		folders[folder] = true
	}
	require.Equal(t, map[string]bool{"db/": true, "access/": true}, folders)
	moved := filepath.Join(t.TempDir(), "elsewhere")
	require.NoError(t, os.CopyFS(moved, os.DirFS(s.backups)))
	require.NoError(t, os.RemoveAll(s.backups))
	s.backups = moved
	s.restore()
}

// The copy that a killed backup left behind is removed by the next start of the server or by the
// next backup, whichever comes first.
func TestCopiesOfKilledBackupsAreRemoved(t *testing.T) {
	s := newStored(t)
	s.post(1)
	for _, next := range []func(){
		func() { s.backup() },
		func() {
			p := startProcess(t, s.data)
			require.True(t, p.up, "%s", p.output)
			require.NoDirExists(t, datadir.SnapshotFolderOf(s.data).DatabasePath())
			require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
			require.Equal(t, cli.ExitOK, p.wait())
		},
	} {
		require.NoError(t, os.MkdirAll(datadir.SnapshotFolderOf(s.data).DatabasePath(), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(datadir.SnapshotFolderOf(s.data).DatabasePath(), "000001.log"), []byte("secret"), 0o600))
		next()
		require.NoDirExists(t, datadir.SnapshotFolderOf(s.data).DatabasePath())
	}
}

// A backup fails if the keys that it copied do not fit the log that it copied before. Otherwise, the
// restored ledger would refuse writes.
func TestBackupsHoldKeysThatFitTheirLog(t *testing.T) {
	s := newStored(t)
	s.post(1)
	database := s.opened()
	host, err := ledger.OpenHost(t.Context(), database, datadir.KeyFiles(s.data), func(string) ledger.Config {
		return ledger.Config{HighWaterMarks: datadir.HighWaterMarkFiles(s.data)}
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, host.Close()) }()
	change := func(*http.Request) error { return nil } // called between the copies of the log and of the keys
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, _, err := datadir.SnapshotFolderOf(s.data).CopyForBackupProcess(r.Context(), database); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if err := change(r); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"name":"backup","erasing":0}`)
	}))
	defer server.Close()
	args := []string{"backup", "--data", s.data, "--to", s.backups, "--with-keys", "--server", server.URL}
	rotate := func(r *http.Request) error {
		_, err := host.RotateKey(r.Context(), ledger.DefaultName, "")
		return err
	}
	retire := func(r *http.Request) error {
		_, err := host.RetireKey(r.Context(), ledger.DefaultName, "")
		return err
	}
	for i, f := range []func(*http.Request) error{rotate, retire} {
		change = f
		require.Contains(t, s.colophon(cli.ExitFailed, args...), "the keys changed during the backup; run it again")
		change = func(*http.Request) error { return nil }
		s.colophon(cli.ExitOK, args...) // also while two keys sign
		require.Len(t, s.manifests(), i+1)
	}
}

// hookContext is a context that calls a function whenever a command checks whether it was interrupted.
type hookContext struct {
	context.Context
	hook func()
}

func (c hookContext) Err() error {
	c.hook()
	return c.Context.Err()
}

// A backup fails if a key file that it wants to copy has just got another name.
func TestBackupsNoticeRenamedKeys(t *testing.T) {
	s := newStored(t)
	s.post(1)
	path := datadir.KeyFiles(s.data).Path(ledger.DefaultName)
	hook := func() {
		if len(s.files()) > 0 { // the backup has listed its files, and copied the first
			_ = os.Rename(path, path+".renamed")
		}
	}
	require.NoError(t, backup.Store{Dir: s.backups}.CreateFolders())
	c := cli.New(strings.NewReader(""), io.Discard, io.Discard, func(string) (string, bool) { return "", false })
	err := backup.Run(hookContext{t.Context(), hook}, c, backup.Options{DataFolder: s.data, BackupFolder: s.backups, IncludeKeys: true})
	require.ErrorContains(t, err, "the keys changed during the backup; run it again")
	require.Empty(t, s.manifests())
}
