package pebble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/storage"
	"colophon/storage/pebble/pebbletest"
)

// history is a series of commits and the expected state after each of them. Tests simulate power
// cuts while play runs it.
type history struct {
	batches []storage.Batch // committing batches[i] changes the head from heads[i] to heads[i+1]
	heads   []storage.Head

	begun, acknowledged atomic.Int64 // numbers of steps begun and acknowledged; the first step is the creation of the ledger
	flushes             int64        // number of memory tables flushed by play
}

// newHistory returns a history of commits whose sizes range from one block of the write-ahead log
// to many blocks. Some of them redact content of the previous commit.
func newHistory(commits int) *history {
	h := &history{heads: []storage.Head{{}}}
	for i := range commits {
		old := h.heads[i]
		b := batch(old, 1+i%5, 4000*(1+i%7))
		if i%8 == 3 {
			b.Redactions = []storage.Redaction{redactionOf(h.heads[i-1].Size, old.Size)}
		}
		h.batches = append(h.batches, b)
		h.heads = append(h.heads, b.Head)
	}
	return h
}

// play creates the ledger and makes the commits. It closes and reopens the database halfway.
func (h *history) play(ctx context.Context, files vfs.FS, durability *engine.WriteOptions) error {
	for _, part := range [][2]int{{0, len(h.batches) / 2}, {len(h.batches) / 2, len(h.batches)}} {
		db, err := Open(ctx, testConfig(files))
		if err != nil {
			return err
		}
		db.durability, db.eraser.Config.WriteOptions = durability, durability
		err = h.playOn(ctx, db, part[0], part[1])
		metrics, unread := db.Metrics()
		h.flushes += metrics.Flushes
		if err := errors.Join(err, unread, db.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (h *history) playOn(ctx context.Context, db *Database, from, to int) error {
	if from == 0 {
		h.begun.Add(1)
		if _, err := db.CreateLedger(ctx, storage.LedgerInfo{Name: "default"}); err != nil {
			return err
		}
		h.acknowledged.Add(1)
	}
	store, err := db.Ledger(ctx, "default")
	if err != nil {
		return err
	}
	var flushed <-chan struct{}
	waitForFlush := func() {
		if flushed != nil {
			<-flushed
		}
	}
	for i := from; i < to; i++ {
		if i%5 == 4 { // the flush runs in parallel with the next commits, as in production
			waitForFlush()
			if flushed, err = db.engine.AsyncFlush(); err != nil {
				return err
			}
		}
		h.begun.Add(1)
		if err := store.Commit(ctx, h.heads[i], h.batches[i]); err != nil {
			return err
		}
		h.acknowledged.Add(1)
	}
	waitForFlush()
	return nil
}

// check opens the database after a power cut. A step is the ledger's creation or a commit. Every
// acknowledged step must be complete. A step that had begun but was not acknowledged must be either
// complete or absent.
func (h *history) check(ctx context.Context, files vfs.FS, acknowledged, begun int64) error {
	db, err := Open(ctx, testConfig(files))
	if err != nil {
		return err
	}
	return errors.Join(h.checkDatabase(ctx, db, acknowledged, begun), db.Close())
}

func (h *history) checkDatabase(ctx context.Context, db *Database, acknowledged, begun int64) error {
	store, err := db.Ledger(ctx, "default")
	if errors.Is(err, storage.ErrNotFound) && acknowledged == 0 {
		_, err := db.CreateLedger(ctx, storage.LedgerInfo{Name: "default"})
		return err
	}
	if err != nil {
		return err
	}
	head, err := store.Head(ctx)
	if err != nil {
		return err
	}
	for step := max(acknowledged, 1); step <= begun; step++ {
		if head.Size == h.heads[step-1].Size {
			return h.checkLedger(ctx, store, int(step-1))
		}
	}
	return fmt.Errorf("the head has size %d after %d acknowledged and %d begun steps", head.Size, acknowledged, begun)
}

// checkLedger compares the ledger with the state expected after n commits, and then makes the next
// commit.
func (h *history) checkLedger(ctx context.Context, store storage.Store, n int) error {
	head, err := store.Head(ctx)
	if err != nil {
		return err
	}
	if want := h.heads[n]; head.Tip != want.Tip || !bytes.Equal(head.Checkpoint, want.Checkpoint) {
		return fmt.Errorf("the head of size %d differs from the committed one", head.Size)
	}
	var entries [][]byte
	for _, b := range h.batches[:n] {
		entries = append(entries, b.Entries...)
	}
	next := 0
	for e, err := range store.Entries(ctx, 0) {
		if err != nil {
			return err
		}
		if !bytes.Equal(e.Bytes, entries[next]) {
			return fmt.Errorf("entry %d differs from the committed one", e.Seq)
		}
		next++
	}
	if next != len(entries) {
		return fmt.Errorf("there are %d entries, not %d", next, len(entries))
	}
	for i := range h.batches {
		if err := h.checkOtherData(ctx, store, i, n); err != nil {
			return fmt.Errorf("commit %d of %d: %w", i, n, err)
		}
	}
	if n == len(h.batches) {
		return nil
	}
	return store.Commit(ctx, h.heads[n], h.batches[n])
}

// checkOtherData checks the tile, the idempotency key, and the content that commit i stored. n is the
// total number of commits.
func (h *history) checkOtherData(ctx context.Context, store storage.Store, i, n int) error {
	b := h.batches[i]
	erased := i%8 == 2 && i+1 < n // the next commit redacts the content
	var failed error
	expect := func(what string, want bool, got []byte, err error, value []byte) {
		switch {
		case want && err != nil:
			failed = errors.Join(failed, err)
		case want && !bytes.Equal(got, value):
			failed = errors.Join(failed, fmt.Errorf("%s differs from the committed one", what))
		case !want && !errors.Is(err, storage.ErrNotFound):
			failed = errors.Join(failed, fmt.Errorf("%s was not erased: %w", what, err))
		}
	}
	hashes, err := store.Tile(ctx, 0, b.Tiles[0].Index)
	expect("tile", i < n, hashes, err, b.Tiles[0].Hashes)
	key, err := store.KeyClaim(ctx, b.Claims[0].KeyDigest)
	expect("key", i < n, key.RecordDigest[:], err, b.Claims[0].RecordDigest[:])
	text, err := store.Content(ctx, b.Contents[0].Digest)
	expect("content", i < n && !erased, text, err, b.Contents[0].Bytes)
	return failed
}

// cuts selects the operations before which the power is cut, and says how much of the unsynced data
// survives each cut.
type cuts struct {
	every    int   // cut before each operation whose number is a multiple of every
	percents []int // approximate percentages of the unsynced data that survive; each operation gets one cut for each
}

// losses runs work and calls inspect before each operation that c selects. inspect calls cut to
// simulate a power cut, and checks the file system that cut returns. losses returns the number of
// cuts and the errors from inspect.
func losses(
	t *testing.T, files *pebbletest.CrashFS, c cuts, work func() error, inspect func(cut func() vfs.FS) error,
) (int, []error) {
	var made int
	var wrong []error
	files.BeforeEachOperation(func(operation int) {
		if operation%c.every != 0 {
			return
		}
		for i, percent := range c.percents {
			made++
			seed := uint64(operation*len(c.percents) + i)
			if err := inspect(func() vfs.FS { return files.AfterPowerCut(percent, seed).FS() }); err != nil {
				wrong = append(wrong, fmt.Errorf("power cut before operation %d with %d %% kept: %w", operation, percent, err))
			}
		}
	})
	err := work()
	files.BeforeEachOperation(nil) // made and wrong do not change after this call
	require.NoError(t, err)
	return made, wrong
}

// lossesOf plays a history on a new file system and checks it after each power cut. It returns the
// number of cuts and the errors found after them.
func lossesOf(t *testing.T, h *history, c cuts, durability *engine.WriteOptions) (int, []error) {
	files := pebbletest.NewCrashFS()
	ctx := t.Context()
	work := func() error { return h.play(ctx, files.FS(), durability) }
	return losses(t, files, c, work, func(cut func() vfs.FS) error {
		acknowledged := h.acknowledged.Load() // acknowledged must be read before the cut, and begun after it
		left := cut()
		return h.check(ctx, left, acknowledged, h.begun.Load())
	})
}

func TestPowerCutAtEveryOperation(t *testing.T) {
	h := newHistory(24)
	c := cuts{every: 1, percents: []int{0, 50, 100}}
	if testing.Short() {
		c.every = 5
	}
	made, wrong := lossesOf(t, h, c, engine.Sync)
	require.NoError(t, errors.Join(wrong...))
	require.Greater(t, made*c.every, 3*2*len(h.batches), "each commit writes and syncs")
	require.Greater(t, h.flushes, int64(2), "power was cut in flushes too")
}

// No commit is lost or partial if the power fails during a large commit. Pebble stores a commit of
// more than half a memory table in a memory table of its own.
func TestPowerCutInLargeCommit(t *testing.T) {
	h := newHistory(1)
	large := batch(h.heads[1], 10, memTableBytes/16)
	h.batches, h.heads = append(h.batches, large), append(h.heads, large.Head)
	after := batch(large.Head, 1, 100)
	h.batches, h.heads = append(h.batches, after), append(h.heads, after.Head)
	_, wrong := lossesOf(t, h, cuts{every: 24, percents: []int{0, 50, 100}}, engine.Sync)
	require.NoError(t, errors.Join(wrong...))
}

// The power-cut tests report lost commits if commits are not synced.
func TestPowerCutFindsMissingSync(t *testing.T) {
	_, wrong := lossesOf(t, newHistory(6), cuts{every: 1, percents: []int{0}}, engine.NoSync)
	require.NotEmpty(t, wrong)
}

// Nothing is lost if the power fails again during the restart after a cut. A restart has few
// operations, so each is tried with many seeds.
func TestPowerCutInRestart(t *testing.T) {
	h := newHistory(8)
	ctx := t.Context()
	first := pebbletest.NewCrashFS()
	require.NoError(t, h.play(ctx, first.FS(), engine.Sync))
	files := first.AfterPowerCut(0, 0)
	steps := h.acknowledged.Load()
	work := func() error { return h.check(ctx, files.FS(), steps, steps) }
	_, wrong := losses(t, files, cuts{every: 1, percents: []int{30, 50, 50, 50, 50, 50, 70, 90}}, work,
		func(cut func() vfs.FS) error { return h.check(ctx, cut(), steps, steps) })
	require.NoError(t, errors.Join(wrong...))
}
