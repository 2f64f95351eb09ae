package log

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/ledger/keystore"
	"colophon/ledger/record"
	"colophon/storage/memory"
)

// open creates an in-memory ledger, and returns it with its database.
func open(t *testing.T) (*ledger.Ledger, *memory.Database) {
	t.Helper()
	database := memory.New()
	host, err := ledger.OpenHost(t.Context(), database, keystore.KeyFiles{Dir: t.TempDir()}, func(string) ledger.Config { return ledger.Config{} })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, host.Close()) })
	l, err := host.Create(t.Context(), ledger.CreateOptions{Name: ledger.DefaultName})
	require.NoError(t, err)
	return l, database
}

func write(t *testing.T, l *ledger.Ledger, kind record.Kind, body string) {
	t.Helper()
	r, err := record.DefaultLimits().ParseRecord(kind, []byte(body))
	require.NoError(t, err)
	defer r.Release()
	sub, err := l.PrepareRecord(r, ledger.AnonymousActor, "")
	require.NoError(t, err)
	_, err = l.Submit(sub)
	require.NoError(t, err)
}

func ipcRecord(output string) string {
	return fmt.Sprintf(`{"payload":{"seed":1},"output":%q,"model":"m","temperature":0.5,"max_tokens":10}`, output)
}

// Events for several followers at the same position are read and encoded once.
func TestFramesAreShared(t *testing.T) {
	l, _ := open(t)
	for i := range 100 {
		write(t, l, record.KindIPCRecord, ipcRecord(strconv.Itoa(i)))
	}
	f := newFrames()
	blocks := make([]*block, 50)
	var all sync.WaitGroup
	for i := range blocks {
		all.Go(func() {
			var err error
			blocks[i], err = f.at(t.Context(), l, 3, l.Head().Size)
			require.NoError(t, err)
		})
	}
	all.Wait()
	for _, b := range blocks {
		require.Same(t, blocks[0], b)
	}
	last := uint64(0)
	for next := uint64(3); next < l.Head().Size; {
		b, err := f.at(t.Context(), l, next, l.Head().Size)
		require.NoError(t, err)
		require.Greater(t, b.next, next)
		require.True(t, b.next%blockEvents == 0 || b.next == l.Head().Size || len(b.bytes) >= blockBytes, "%d to %d", next, b.next)
		require.Equal(t, next/blockEvents, (b.next-1)/blockEvents)
		last, next = next, b.next
	}
	write(t, l, record.KindIPCRecord, ipcRecord("y"))
	b, err := f.at(t.Context(), l, last, l.Head().Size)
	require.NoError(t, err)
	require.EqualValues(t, 101, b.next, "the cached block must not change")
}

// A block ends when it reaches blockBytes, so it exceeds that limit by at most one event.
func TestFramesAreBounded(t *testing.T) {
	l, _ := open(t)
	subject := `{"subject":"s","citations":[` + strings.Repeat(`{"chunk_hash":"sha256:`+strings.Repeat("0", 64)+`","source_id":"s","weight":1},`, 300)
	for range 10 {
		write(t, l, record.KindCitationSet, strings.TrimSuffix(subject, ",")+"]}")
	}
	f, blocks := newFrames(), 0
	for next := uint64(0); next < l.Head().Size; blocks++ {
		b, err := f.at(t.Context(), l, next, l.Head().Size)
		require.NoError(t, err)
		require.LessOrEqual(t, len(b.bytes), blockBytes+160<<10)
		next = b.next
	}
	require.Greater(t, blocks, 3)
}

// A block that cannot be read is not cached.
func TestDamageIsNotCached(t *testing.T) {
	l, database := open(t)
	for i := range 40 {
		write(t, l, record.KindIPCRecord, ipcRecord(strconv.Itoa(i)))
	}
	tamper, err := database.Tamperer(ledger.DefaultName)
	require.NoError(t, err)
	require.NoError(t, tamper.DeleteEntry(20))
	f := newFrames()
	_, err = f.at(t.Context(), l, 0, l.Head().Size)
	require.Error(t, err)
	require.NotContains(t, f.blocks.CurrentEntries, position{ledger.DefaultName, 0})
	_, err = f.at(t.Context(), l, 30, l.Head().Size)
	require.NoError(t, err)
	require.NotEmpty(t, f.blocks.CurrentEntries)
}

// A commit without waiting followers allocates nothing, and neither does a commit while an
// announcement is pending. Waiting followers share one channel.
func TestCommitsWithoutFollowers(t *testing.T) {
	quiet := new(stream)
	require.Zero(t, testing.AllocsPerRun(1000, quiet.committed))
	news, _ := quiet.changed()
	again, _ := quiet.changed()
	require.Equal(t, news, again)
	quiet.committed()
	require.Zero(t, testing.AllocsPerRun(1000, quiet.committed))
	<-news
}
