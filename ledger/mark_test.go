package ledger_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/ledger/highwater"
	"colophon/ledger/keystore"
	"colophon/proofs"
	"colophon/storage"
	"colophon/storage/memory"
)

// openWithMarks opens a ledger that keeps its high-water mark in marks.
func openWithMarks(t testing.TB, s storage.Store, marks highwater.Store) *ledger.Ledger {
	c := config(t)
	c.HighWaterMarks = marks
	return open(t, s, c)
}

// growLedger opens the empty ledger in s, appends events until it has size events, and closes it.
// checkpoints[n] is the checkpoint at tree size n, and mark is the last mark.
func growLedger(t testing.TB, s storage.Store, size int) (checkpoints [][]byte, mark []byte) {
	marks := keystore.HighWaterMarkFiles{Dir: t.TempDir()}
	l := openWithMarks(t, s, marks)
	checkpoints = append(checkpoints, nil, l.Head().Checkpoint)
	for range size - 1 {
		checkpoints = append(checkpoints, post(t, l, ipc(t, "", "x"), "").Head.Checkpoint)
	}
	require.NoError(t, l.Close())
	mark, err := marks.Mark(l.Name())
	require.NoError(t, err)
	return checkpoints, mark
}

func TestMarkIsTheLastCheckpoint(t *testing.T) {
	s := store(t, memory.New())
	checkpoints, mark := growLedger(t, s, 9)
	require.Equal(t, string(checkpoints[9]), string(mark))
	for size, checkpoint := range checkpoints[1:] {
		require.NoError(t, highwater.Check(t.Context(), s, checkpoint, signer(t).Verifier()), "size %d", size)
	}
}

// If the store does not match the mark, or if the mark is damaged, the ledger refuses writes and
// says why. It can still be read.
func TestStoresThatAreNotTheNewest(t *testing.T) {
	_, mark := growLedger(t, store(t, memory.New()), 12)
	_, other := growLedger(t, store(t, memory.New()), 5) // its events have different times, so its tree differs
	foreign, err := proofs.NewKey([32]byte{7}).Signer("test.invalid/default")
	require.NoError(t, err)
	rekeyed, err := foreign.Sign(proofs.Checkpoint{Origin: "test.invalid/default", Size: 3})
	require.NoError(t, err)
	for name, k := range map[string]struct {
		mark []byte
		says string
	}{
		"older":       {mark, "an older copy"},
		"fork":        {other, "the store is a fork"},
		"another key": {rekeyed, "does not contain"},
		"half":        {mark[:40], "reading the last signed checkpoint"},
		"empty":       {nil, "reading the last signed checkpoint"},
		"changed":     {append([]byte("x"), mark...), "reading the last signed checkpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			s := store(t, memory.New())
			_, own := growLedger(t, s, 8)
			marks := keystore.HighWaterMarkFiles{Dir: t.TempDir()}
			require.NoError(t, marks.SetMark(ledger.DefaultName, k.mark))
			l := openWithMarks(t, s, marks)
			_, err := l.Submit(submission(t, l, ipc(t, "", "x"), ""))
			require.ErrorIs(t, err, highwater.ErrRollback)
			require.ErrorContains(t, err, k.says)
			require.ErrorIs(t, l.CheckWritable(t.Context()), highwater.ErrRollback)
			_, err = l.RotateKey(foreign, "operator")
			require.ErrorIs(t, err, highwater.ErrRollback)
			_, err = l.Checkpoint(t.Context(), l.Head(), 3)
			require.ErrorIs(t, err, highwater.ErrRollback, "nothing is signed")
			last, err := l.Checkpoint(t.Context(), l.Head(), 8)
			require.NoError(t, err)
			require.Equal(t, string(own), string(last))
			require.NoError(t, walk(t, l))
			require.NoError(t, l.Freeze(t.Context()))
			require.NoError(t, l.CheckWritable(t.Context()), "a frozen ledger reports no rollback")
			require.NoError(t, l.Close())
			left, err := marks.Mark(ledger.DefaultName)
			require.NoError(t, err)
			require.Equal(t, string(k.mark), string(left))
		})
	}
}

func TestLostMark(t *testing.T) {
	s := store(t, memory.New())
	growLedger(t, s, 4)
	marks := keystore.HighWaterMarkFiles{Dir: filepath.Join(t.TempDir(), "marks")}
	l := openWithMarks(t, s, marks)
	post(t, l, ipc(t, "", "x"), "")
	require.NoError(t, l.Close())
	mark, err := marks.Mark(ledger.DefaultName)
	require.NoError(t, err)
	require.Equal(t, string(l.Head().Checkpoint), string(mark))
	require.NoError(t, os.WriteFile(marks.Path(ledger.DefaultName)+".new", []byte("half"), 0o600))
	post(t, openWithMarks(t, s, marks), ipc(t, "", "x"), "")
}

// If there is no mark, Open logs a warning that the store may be an older copy.
func TestMissingMarkIsLogged(t *testing.T) {
	s := store(t, memory.New())
	growLedger(t, s, 4)
	var log strings.Builder
	c := config(t)
	c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	c.HighWaterMarks = keystore.HighWaterMarkFiles{Dir: filepath.Join(t.TempDir(), "marks")}
	require.NoError(t, open(t, s, c).Close())
	require.Contains(t, log.String(), "cannot tell whether this store is an older copy")
}

// brokenMarks is a highwater.Store that counts writes, and makes them fail while broken is set.
type brokenMarks struct {
	keystore.HighWaterMarkFiles
	mu             sync.Mutex
	broken         bool // guarded by mu
	tried, written int  // guarded by mu
}

func (m *brokenMarks) SetMark(name string, checkpoint []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tried++
	if m.broken {
		return errors.New("no space")
	}
	m.written++
	return m.HighWaterMarkFiles.SetMark(name, checkpoint)
}

// Commits continue while marks cannot be written. Not every commit writes a mark.
func TestCommitsContinueWithoutMarks(t *testing.T) {
	marks := &brokenMarks{HighWaterMarkFiles: keystore.HighWaterMarkFiles{Dir: t.TempDir()}, broken: true}
	l := openWithMarks(t, store(t, memory.New()), marks)
	for range 200 {
		post(t, l, ipc(t, "", "x"), "")
	}
	marks.mu.Lock()
	require.Less(t, marks.tried, 100)
	require.Zero(t, marks.written)
	marks.broken = false
	marks.mu.Unlock()
	require.NoError(t, l.Close())
	mark, err := marks.Mark(ledger.DefaultName)
	require.NoError(t, err)
	require.Equal(t, string(l.Head().Checkpoint), string(mark))
}

// A mark that could not be written is written later, even without another commit.
func TestMarksCatchUp(t *testing.T) {
	marks := &brokenMarks{HighWaterMarkFiles: keystore.HighWaterMarkFiles{Dir: t.TempDir()}, broken: true}
	l := openWithMarks(t, store(t, memory.New()), marks)
	reached := func(n *int) func() bool {
		return func() bool {
			marks.mu.Lock()
			defer marks.mu.Unlock()
			return *n > 0
		}
	}
	require.Eventually(t, reached(&marks.tried), time.Minute, time.Millisecond)
	marks.mu.Lock()
	marks.broken = false
	marks.mu.Unlock()
	require.Eventually(t, reached(&marks.written), time.Minute, time.Millisecond)
	mark, err := marks.Mark(ledger.DefaultName)
	require.NoError(t, err)
	require.Equal(t, string(l.Head().Checkpoint), string(mark))
}

// Create refuses a name that has a high-water mark but no ledger in the database.
func TestMarkWithoutLedger(t *testing.T) {
	marks := keystore.HighWaterMarkFiles{Dir: t.TempDir()}
	config := func(string) ledger.Config { return ledger.Config{HighWaterMarks: marks} }
	h, err := ledger.OpenHost(context.Background(), memory.New(), keystore.KeyFiles{Dir: t.TempDir()}, config)
	require.NoError(t, err)
	_, err = h.Create(t.Context(), ledger.CreateOptions{Name: "a"})
	require.NoError(t, err)
	require.NoError(t, h.Close())
	h, err = ledger.OpenHost(context.Background(), memory.New(), keystore.KeyFiles{Dir: t.TempDir()}, config)
	require.NoError(t, err)
	_, err = h.Create(t.Context(), ledger.CreateOptions{Name: "a"})
	require.ErrorIs(t, err, ledger.ErrMarkWithoutLedger)
	_, err = h.Create(t.Context(), ledger.CreateOptions{Name: "b"})
	require.NoError(t, err)
	require.NoError(t, h.Close())
}
