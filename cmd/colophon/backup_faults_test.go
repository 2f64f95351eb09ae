package main

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/storage/pebble"
)

// The newest backup is the one that was made last, whatever the clock says.
func TestBackupsNeverGoBackInTime(t *testing.T) {
	s := newStored(t)
	s.post(1)
	s.backup()
	// The clock was ahead when the first was made.
	ahead := s.manifests()[0]
	require.NoError(t, os.Remove(filepath.Join(s.backups, ahead.name()+".json")))
	ahead.Made = time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)
	_, err := ahead.sign(signingKeys(&console{env: func(string) (string, bool) { return "", false }}, s.data))
	require.NoError(t, err)
	_, err = backupStore{s.backups}.finish(ahead)
	require.NoError(t, err)

	s.post(2)
	s.backup("--keep", "1")
	left := s.manifests()
	require.Len(t, left, 1, "the one before was removed, not the new one")
	require.EqualValues(t, 4, left[0].Ledgers[0].Size)
	require.True(t, left[0].Made.After(ahead.Made))
	s.restore()
}

// Two restores into one folder are never under way together, and none puts anything into
// a folder in which there is a database.
func TestRestoresOneByOne(t *testing.T) {
	s := newStored(t)
	s.post(1)
	s.backup()
	data := filepath.Join(t.TempDir(), "data")
	args := []string{"restore", "--from", s.backups, "--data", data, "--newest", "--key", s.key()}
	require.NoError(t, os.MkdirAll(restoring(data), 0o700))
	lock, err := pebble.LockFolder(restoring(data))
	require.NoError(t, err)
	require.Contains(t, s.colophon(exitInUse, args...), "another restore into "+data+" is under way")
	require.NoError(t, lock.Close())
	s.colophon(exitOK, args...)
	require.NoDirExists(t, restoring(data))
	require.Contains(t, s.colophon(exitUsage, args...), "is not empty")
	for _, name := range []string{"access", "index", "notes.txt"} {
		data := filepath.Join(t.TempDir(), "data")
		require.NoError(t, os.MkdirAll(filepath.Join(data, name), 0o700))
		said := s.colophon(exitUsage, "restore", "--from", s.backups, "--data", data, "--newest", "--key", s.key())
		require.Contains(t, said, `is not empty (there is "`+name+`")`)
		require.NoDirExists(t, databaseDir(data))
	}
}

// Of several servers that start on one folder at once one has it. The others say so.
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
			require.Equal(t, exitOK, p.wait(), "%s", p.said)
			continue
		}
		require.Equal(t, exitInUse, p.wait(), "%s", p.said)
		require.Contains(t, p.said.String(), "another process uses the data folder")
	}
	require.Equal(t, 1, up)
	s := &stored{T: t, data: data}
	require.Contains(t, s.colophon(exitOK, "fsck", "--data", data), "default: clean: 1 event")
}
