package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/ledger"
	"colophon/storage"
)

// A checkpoint given with --seen can raise a high-water mark. It never lowers a mark, and never
// replaces a mark that the keys in the backup cannot verify.
func TestRestoresKeepTheHighestMark(t *testing.T) {
	s := newStored(t)
	mark := func(data string) string {
		text, err := datadir.HighWaterMarkFiles(data).Mark(ledger.DefaultName)
		require.NoError(t, err)
		return string(text)
	}
	s.post(5)
	low := mark(s.data)
	s.post(2)
	middle := mark(s.data)
	s.backup("--with-keys")
	key := s.key()
	s.colophon(cli.ExitOK, "keys", "rotate", ledger.DefaultName, "--data", s.data)
	s.colophon(cli.ExitOK, "keys", "retire", ledger.DefaultName, "--data", s.data)
	s.post(3)
	rekeyed := mark(s.data)
	for _, k := range []struct {
		name, mark, seen string
		code             int
		left             string // expected mark after the restore; "" means none
	}{
		{"a later key's mark", rekeyed, low, cli.ExitDamaged, rekeyed},
		{"a later key's mark, and none seen", rekeyed, "", cli.ExitDamaged, rekeyed},
		{"a mark that cannot be read", "garbage", low, cli.ExitDamaged, "garbage"},
		{"a higher mark", middle, low, cli.ExitOK, middle},
		{"a lower mark", low, middle, cli.ExitOK, middle},
		{"no mark", "", low, cli.ExitOK, low},
		{"seen, signed by a later key", "", rekeyed, cli.ExitUsage, ""},
		{"seen, signed by a later key, beside a mark", low, rekeyed, cli.ExitUsage, low},
		{"seen, altered", "", middle[:len(middle)-8] + "AAAAAAA\n", cli.ExitUsage, ""},
	} {
		t.Run(k.name, func(t *testing.T) {
			data := filepath.Join(t.TempDir(), "data")
			if k.mark != "" {
				require.NoError(t, datadir.HighWaterMarkFiles(data).SetMark(ledger.DefaultName, []byte(k.mark)))
			}
			args := []string{"restore", "--from", s.backups, "--data", data, "--key", key}
			if k.seen != "" {
				file := filepath.Join(t.TempDir(), "seen,of,all.txt") // the commas must not be read as separators of file names
				require.NoError(t, os.WriteFile(file, []byte(k.seen), 0o600))
				args = append(args, "--seen", file)
			}
			s.colophon(k.code, args...)
			if k.code == cli.ExitUsage {
				require.NoDirExists(t, datadir.DatabaseFolder(data))
			} else {
				require.DirExists(t, datadir.DatabaseFolder(data))
			}
			if k.left == "" {
				require.NoFileExists(t, datadir.HighWaterMarkFiles(data).Path(ledger.DefaultName))
			} else {
				require.Equal(t, k.left, mark(data))
			}
		})
	}
}

// Restore checks every ledger in the backup, even if one of them has no events.
func TestRestoresJudgeEveryLedger(t *testing.T) {
	s := newStored(t)
	s.post(2)
	database := s.opened()
	_, err := database.CreateLedger(t.Context(), storage.LedgerInfo{Name: "a", Origin: "test.invalid/a"})
	require.NoError(t, err)
	held, err := datadir.SnapshotFolderOf(s.data).Lock()
	require.NoError(t, err)
	_, err = datadir.SnapshotFolderOf(s.data).CopyDatabase(t.Context(), database)
	require.NoError(t, err)
	other := filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.MkdirAll(other, 0o700))
	require.NoError(t, os.Rename(datadir.SnapshotFolderOf(s.data).DatabasePath(), datadir.DatabaseFolder(other)))
	require.NoError(t, held.Close())
	s.colophon(cli.ExitOK, "backup", "--data", other, "--to", s.backups)

	newer := newStored(t)
	newer.post(1)
	data := filepath.Join(t.TempDir(), "restored")
	require.NoError(t, os.CopyFS(filepath.Join(data, "marks"), os.DirFS(datadir.HighWaterMarkFiles(newer.data).Dir)))
	output := s.colophon(cli.ExitDamaged, "restore", "--from", s.backups, "--data", data, "--newest", "--unauthenticated")
	require.Contains(t, output, "default: ")
}
