package pebble

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"colophon/storage"
)

// failingLog fails syncs or writes of the write-ahead log once it is armed.
type failingLog struct {
	armed atomic.Bool
	kinds []errorfs.OpKind
}

func (f *failingLog) inject(op errorfs.Op) error {
	if f.armed.Load() && strings.HasSuffix(op.Path, ".log") {
		for _, kind := range f.kinds {
			if op.Kind == kind {
				return errorfs.ErrInjected
			}
		}
	}
	return nil
}

// If writing a commit to the log fails, the engine calls Config.Fatal, and Commit does not return.
// After a restart, the acknowledged commit can be read, and no part of the failed commit is left.
func TestFailedLogIsFatal(t *testing.T) {
	for name, kinds := range map[string][]errorfs.OpKind{
		"write": {errorfs.OpFileWrite},
		"sync":  {errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo},
	} {
		t.Run(name, func(t *testing.T) {
			memory := vfs.NewCrashableMem()
			failing := &failingLog{kinds: kinds}
			reasons := make(chan string, 1)
			config := testConfig(errorfs.Wrap(memory, errorfs.InjectorFunc(failing.inject)))
			config.Fatal = func(msg string) {
				reasons <- msg
				runtime.Goexit()
			}
			db, err := Open(t.Context(), config)
			require.NoError(t, err)
			l, err := db.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
			require.NoError(t, err)
			first := batch(storage.Head{}, 2, 100)
			require.NoError(t, l.Commit(t.Context(), storage.Head{}, first))

			failing.armed.Store(true)
			var returned atomic.Bool
			ended := make(chan struct{})
			second := batch(first.Head, 2, 100)
			go func() {
				defer close(ended)
				_ = l.Commit(t.Context(), first.Head, second)
				returned.Store(true)
			}()
			<-ended
			require.False(t, returned.Load(), "nothing is acknowledged, not even a failure")
			require.Contains(t, <-reasons, errorfs.ErrInjected.Error())
			head, err := l.Head(t.Context())
			require.NoError(t, err)
			require.Equal(t, first.Head, head, "readers never saw the failed commit")

			left := openOn(t, memory.CrashClone(vfs.CrashCloneCfg{}))
			store, err := left.Ledger(t.Context(), "default")
			require.NoError(t, err)
			head, err = store.Head(t.Context())
			require.NoError(t, err)
			require.Equal(t, first.Head, head)
			_, err = store.Content(t.Context(), second.Contents[0].Digest)
			require.ErrorIs(t, err, storage.ErrNotFound)
			require.NoError(t, left.Close())
		})
	}
}

// If Fatal returns, which its contract forbids, the logger panics so that the engine does not
// continue.
func TestFatalMustNotReturn(t *testing.T) {
	l := testConfigLogger(func(string) {})
	require.PanicsWithValue(t, "storage/pebble: Config.Fatal returned after: lost 3",
		func() { l.Fatalf("lost %d", 3) })
}

// If a flush fails, it is retried, and the commits can still be read.
func TestFailedFlushIsReportedAndRetried(t *testing.T) {
	var fail atomic.Bool
	files := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if fail.Load() && op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			fail.Store(false)
			return errors.New("creating a table fails")
		}
		return nil
	}))
	db, l := newLedger(t, files)
	fail.Store(true)
	all := commits(t, l, 4)
	require.NoError(t, db.engine.Flush())
	require.False(t, fail.Load(), "the flush failed once")
	require.Zero(t, readDamaged(t.Context(), t, l, all[0]))
}

// The engine can make the erasures of a commit visible before the commit is durable. A reader that
// misses content for this reason must then find the redaction.
func TestContentThatIsBeingErased(t *testing.T) {
	var hold atomic.Bool
	held, release := make(chan struct{}), make(chan struct{})
	files := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
			if hold.CompareAndSwap(true, false) {
				close(held)
				<-release
			}
		}
		return nil
	}))
	db, l := newLedger(t, files)
	db.eraser.Stop()
	first := batch(storage.Head{}, 3, 1000)
	require.NoError(t, l.Commit(t.Context(), storage.Head{}, first))
	second := batch(first.Head, 1, 10)
	second.Redactions = []storage.Redaction{redactionOf(0, 3)}
	hold.Store(true)
	committed := make(chan error, 1)
	go func() { committed <- l.Commit(context.Background(), first.Head, second) }()
	<-held

	missed := make(chan error, 1)
	go func() {
		_, err := l.Content(context.Background(), digestOf(0))
		for err == nil { // the engine can make the erasure visible at any time
			_, err = l.Content(context.Background(), digestOf(0))
		}
		_, redacted := l.RedactingSeq(context.Background(), 0)
		missed <- redacted
	}()
	go func() {
		time.Sleep(100 * time.Millisecond) // gives the reader time to run before the commit is durable
		close(release)
	}()
	require.NoError(t, <-missed, "the content is missing and no redaction explains it")
	require.NoError(t, <-committed)
}

// Each commit syncs the write-ahead log exactly once, with or without redactions.
func TestOneSyncPerCommit(t *testing.T) {
	var syncs atomic.Int64
	files := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
			syncs.Add(1)
		}
		return nil
	}))
	db, l := newLedger(t, files)
	db.eraser.Stop() // the eraser syncs files, too
	var head storage.Head
	for range 5 {
		before := syncs.Load()
		b := batch(head, 3, 1000)
		if head.Size > 0 {
			b.Redactions = []storage.Redaction{redactionOf(head.Size-3, head.Size)}
		}
		require.NoError(t, l.Commit(t.Context(), head, b))
		require.Equal(t, before+1, syncs.Load())
		head = b.Head
	}
}
