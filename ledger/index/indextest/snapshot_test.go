package indextest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/internal/testing/locked"
	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
	"colophon/storage/pebble/pebbletest"
)

// partsOf returns all parts of a follower's snapshot at the given size. A size of 0 means the
// current one.
func partsOf(t tester, f *index.Follower, size uint64) (parts []*index.SnapshotPart) {
	t.Helper()
	for from := []byte(nil); len(parts) == 0 || from != nil; {
		p, err := index.ReadSnapshotPart(context.Background(), f, size, from)
		require.NoError(t, err)
		parts = append(parts, p)
		size, from = p.Size, p.Next
	}
	return parts
}

// fetchOf returns a SnapshotFetchFunc that yields the given parts.
func fetchOf(parts []*index.SnapshotPart) index.SnapshotFetchFunc {
	return func(context.Context, string) iter.Seq2[*index.SnapshotPart, error] {
		return func(yield func(*index.SnapshotPart, error) bool) {
			for _, p := range parts {
				if !yield(p, nil) {
					return
				}
			}
		}
	}
}

// digestNow returns the digest of all rows of a follower.
func digestNow(t tester, f *index.Follower) [sha256.Size]byte {
	t.Helper()
	v, err := f.LatestView()
	require.NoError(t, err)
	digest, err := v.Digest(context.Background())
	require.NoError(t, errors.Join(err, v.Close()))
	return digest
}

// An index that starts from another server's snapshot has the same rows as one that folded all
// events. The rows stay equal after further events, and the rows of other ledgers do not change.
func TestInstalledSnapshotIsTheFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := newJournal(t, "default")
		log.drawEvents(t, 40)
		c := testConfig(vfs.NewMem())
		c.SnapshotPartBytes = rapid.SampledFrom([]int{1, 300, 1 << 20}).Draw(t, "part")
		source := openTest(t, c)
		defer func() { require.NoError(t, source.Close()) }()
		from := follow(t, source, log)
		log.catchUp(from)
		parts := partsOf(t, from, 0)
		size, digest := log.head.Size, digestNow(t, from)
		require.Equal(t, size, parts[0].Size)

		neighbour := newJournal(t, "neighbour")
		neighbour.append(plains(t, 0, 3)...)
		c = testConfig(vfs.NewMem())
		lines := new(locked.Buffer)
		c.RowStore.Logger = slog.New(slog.NewTextHandler(lines, nil))
		s := openTest(t, c)
		beside := follow(t, s, neighbour)
		neighbour.catchUp(beside)
		old := rapid.IntRange(0, int(size)/2).Draw(t, "own")
		if old > 0 { // the index already exists but is behind
			f, err := s.Refold(context.Background(), log.name, log.store, uint64(old), func(uint64) {})
			require.NoError(t, err)
			f.Close()
		}
		s.SetSnapshotFetchFunc(fetchOf(parts))
		f := follow(t, s, log)
		log.catchUp(f)
		log.check(f)
		require.Equal(t, digest, digestNow(t, f))

		log.drawEvents(t, 20)
		log.catchUp(f)
		log.catchUp(from)
		log.check(f)
		neighbour.check(beside)
		require.Equal(t, digestNow(t, from), digestNow(t, f))
		whole := slices.DeleteFunc(dump(t, s), func(line string) bool { return strings.HasPrefix(line, "neighbour") })
		requireSame(t, log.refold(), whole)
		require.NoError(t, s.Close())
		require.Contains(t, lines.String(), fmt.Sprintf("installed another server's index\" ledger=default size=%d bytes=", size))
		require.Contains(t, lines.String(), fmt.Sprintf("digest=%x", digest))
	})
}

// snapshotRows returns copies of all rows in parts, which a test can then change.
func snapshotRows(t tester, parts []*index.SnapshotPart) (rows []rowstore.SnapshotRow) {
	t.Helper()
	for _, p := range parts {
		for row, err := range rowstore.DecodeSnapshotPart(p.Rows) {
			require.NoError(t, err)
			rows = append(rows, rowstore.SnapshotRow{Key: slices.Clone(row.Key), Value: slices.Clone(row.Value)})
		}
	}
	return rows
}

// partOf returns a snapshot that consists of a single part with the given rows.
func partOf(size uint64, rows []rowstore.SnapshotRow) []*index.SnapshotPart {
	p := &index.SnapshotPart{Size: size}
	for _, row := range rows {
		for _, text := range [][]byte{row.Key, row.Value} {
			p.Rows = append(binary.AppendUvarint(p.Rows, uint64(len(text))), text...)
		}
	}
	return []*index.SnapshotPart{p}
}

// A snapshot that cannot belong to the ledger's log is refused, the reason is logged, and the
// events are folded instead.
func TestWrongSnapshotsAreRefused(t *testing.T) {
	log, other := newJournal(t, "default"), newJournal(t, "default")
	log.append(plains(t, 0, 60)...)
	other.append(plains(t, 100, 160)...)
	source := openTest(t, testConfig(vfs.NewMem()))
	from := follow(t, source, log)
	log.catchUp(from)
	foreign := openTest(t, testConfig(vfs.NewMem()))
	fromOther := follow(t, foreign, other)
	other.catchUp(fromOther)
	first := snapshotRows(t, partsOf(t, from, 0))
	hashes := slices.IndexFunc(first, func(r rowstore.SnapshotRow) bool { return r.Key[0] == 0x03 })
	versioned := slices.IndexFunc(first, func(r rowstore.SnapshotRow) bool { return r.Key[0] >= 0x80 })
	broken := errors.New("the connection broke")

	for _, lie := range []struct {
		name string
		do   func(rows []rowstore.SnapshotRow) []*index.SnapshotPart
		want string
	}{
		{"missing row", func(rows []rowstore.SnapshotRow) []*index.SnapshotPart {
			return partOf(60, slices.Delete(rows, hashes, hashes+1))
		}, "the snapshot has the hashes of 59 events, but its size is 60"},
		{"doubled row", func(rows []rowstore.SnapshotRow) []*index.SnapshotPart {
			return partOf(60, slices.Insert(rows, hashes, rows[hashes]))
		}, "occurs twice"},
		{"wrong order", func(rows []rowstore.SnapshotRow) []*index.SnapshotPart {
			rows[hashes], rows[hashes+1] = rows[hashes+1], rows[hashes]
			return partOf(60, rows)
		}, "comes after the larger key"},
		{"changed length", func(rows []rowstore.SnapshotRow) []*index.SnapshotPart {
			rows[versioned].Key = append(rows[versioned].Key, 0)
			return partOf(60, rows)
		}, "bytes, but must have"},
		{"later version", func(rows []rowstore.SnapshotRow) []*index.SnapshotPart {
			key := rows[len(rows)-1].Key
			copy(key[len(key)-8:], rowstore.AppendVersion(nil, 60))
			return partOf(60, rows)
		}, "is from event 60, but the snapshot's size is 60"},
		{"number of a ledger", func(rows []rowstore.SnapshotRow) []*index.SnapshotPart {
			return partOf(60, append([]rowstore.SnapshotRow{{Key: []byte{0, 'x'}}}, rows...))
		}, "does not belong to a ledger"},
		{"wrong size", func(rows []rowstore.SnapshotRow) []*index.SnapshotPart { return partOf(59, rows) }, "the snapshot's size is 59, but its rows cover 60 events"},
		{"no size", func(rows []rowstore.SnapshotRow) []*index.SnapshotPart { return partOf(0, rows) }, "the snapshot covers no events"},
		{"changing size", func(rows []rowstore.SnapshotRow) []*index.SnapshotPart {
			return append(partOf(60, rows[:9]), partOf(61, rows[9:])...)
		}, "the snapshot's size changed from 60 to 61"},
		{"no rows", func([]rowstore.SnapshotRow) []*index.SnapshotPart { return partOf(60, nil) }, "the snapshot has no cursor"},
		{"no cursor", func(rows []rowstore.SnapshotRow) []*index.SnapshotPart { return partOf(60, rows[1:]) }, "the snapshot has no cursor"},
		{"unfinished", func(rows []rowstore.SnapshotRow) []*index.SnapshotPart {
			rows[0].Value = append(rows[0].Value, 1)
			return partOf(60, rows)
		}, "decoding the snapshot's cursor: a rebuild of the index was interrupted"},
		{"partial", func(rows []rowstore.SnapshotRow) []*index.SnapshotPart {
			rows[0].Value = append(rows[0].Value, 2)
			return partOf(60, rows)
		}, "the snapshot ends within event 60"},
		{"garbled", func([]rowstore.SnapshotRow) []*index.SnapshotPart {
			return []*index.SnapshotPart{{Size: 60, Rows: []byte{200, 1}}}
		}, "invalid rows in a snapshot part"},
		{"empty key", func([]rowstore.SnapshotRow) []*index.SnapshotPart {
			return []*index.SnapshotPart{{Size: 60, Rows: []byte{0, 0}}}
		}, "invalid rows in a snapshot part"},
		{"other log", func([]rowstore.SnapshotRow) []*index.SnapshotPart { return partsOf(t, fromOther, 0) }, "the snapshot belongs to another log: the hash of event 59"},
		{"nothing", func([]rowstore.SnapshotRow) []*index.SnapshotPart { return nil }, "the snapshot has no cursor"},
	} {
		t.Run(lie.name, func(t *testing.T) {
			rows := snapshotRows(t, partsOf(t, from, 0))
			requireRefused(t, log, fetchOf(lie.do(rows)), lie.want)
		})
	}
	t.Run("larger than the log", func(t *testing.T) {
		short := newJournal(t, "default")
		short.append(plains(t, 0, 50)...)
		requireRefused(t, short, fetchOf(partOf(60, first)), "the snapshot belongs to another log: the index covers 60 events, but the log has only 50")
	})
	t.Run("broken connection", func(t *testing.T) {
		requireRefused(t, log, func(context.Context, string) iter.Seq2[*index.SnapshotPart, error] {
			return func(yield func(*index.SnapshotPart, error) bool) {
				_ = yield(partOf(60, first[:5])[0], nil) && yield(nil, broken)
			}
		}, broken.Error())
	})
	t.Run("endless", func(t *testing.T) {
		requireRefused(t, log, func(context.Context, string) iter.Seq2[*index.SnapshotPart, error] {
			return func(yield func(*index.SnapshotPart, error) bool) {
				value := bytes.Repeat([]byte{7}, 1<<20)
				_ = yield(partOf(60, first[:1])[0], nil)
				for n := range uint64(1 << 40) {
					key := rowstore.AppendVersion(append([]byte{0x80}, rowstore.AppendSeq(make([]byte, 8), n)...), 1)
					if !yield(partOf(60, []rowstore.SnapshotRow{{Key: key, Value: value}})[0], nil) {
						return
					}
				}
			}
		}, "the snapshot's rows are too large for 60 events")
	})
	require.NoError(t, source.Close())
	require.NoError(t, foreign.Close())
}

// requireRefused fails unless a snapshot is refused for the given reason, the events are folded,
// and nothing from the snapshot remains.
func requireRefused(t *testing.T, log *journal, fetch index.SnapshotFetchFunc, want string) {
	t.Helper()
	files, lines := vfs.NewMem(), new(locked.Buffer)
	c := testConfig(files)
	c.RowStore.Logger = slog.New(slog.NewTextHandler(lines, nil))
	s := openTest(t, c)
	s.SetSnapshotFetchFunc(fetch)
	f := follow(t, s, log)
	log.catchUp(f)
	require.Contains(t, lines.String(), "building the index from the log instead")
	require.Contains(t, lines.String(), want)
	requireSame(t, log.refold(), dump(t, s))
	left, err := files.List("index/incoming")
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoError(t, s.Close())
}

// After a power failure at any moment during an install, the index has either all its old rows or
// all the new ones. The continued fold produces the same index as an uninterrupted one.
func TestPowerCutInTheMiddleOfAnInstall(t *testing.T) {
	log := newJournal(t, "default")
	log.append(randomBodies(1, 100)...)
	source := openTest(t, testConfig(vfs.NewMem()))
	from := follow(t, source, log)
	log.catchUp(from)
	parts := partsOf(t, from, 0)
	require.NoError(t, source.Close())
	size := log.head.Size

	for _, own := range []uint64{0, 40} {
		files := pebbletest.NewCrashFS()
		c := testConfig(files.FS())
		s := openTest(t, c)
		if own > 0 {
			f, err := s.Refold(t.Context(), log.name, log.store, own, func(uint64) {})
			require.NoError(t, err)
			f.Close()
		}
		require.NoError(t, s.Close())
		s = openTest(t, c)
		var cuts []*pebbletest.CrashFS
		var mu sync.Mutex // guards cuts
		files.BeforeEachOperation(func(operation int) {
			cut := files.AfterPowerCut([]int{100, 0, 50}[operation%3], uint64(operation))
			mu.Lock()
			defer mu.Unlock()
			cuts = append(cuts, cut)
		})
		installed, _, err := s.InstallSnapshot(t.Context(), log.name, log.store, fetchOf(parts))
		require.NoError(t, err)
		require.Equal(t, size, installed)
		files.BeforeEachOperation(nil)
		cuts = append(cuts, files.AfterPowerCut(0, 1)) // power loss after the install
		require.NoError(t, s.Close())

		whole, found := log.refold(), make(map[uint64]int)
		for _, cut := range cuts {
			c.RowStore.FS = cut.FS()
			s := openTest(t, c)
			f, err := s.AddStoppedFollower(t.Context(), log.name, log.store)
			require.NoError(t, err)
			found[f.Size()]++
			log.check(f)
			if f.Size() == size {
				requireSame(t, whole, dump(t, s))
			}
			f.Close()
			f = follow(t, s, log)
			log.catchUp(f)
			requireSame(t, whole, dump(t, s))
			require.NoError(t, s.Close())
		}
		require.Len(t, found, 2)
		require.Positive(t, found[own])
		require.Positive(t, found[size])
		c.RowStore.FS = cuts[len(cuts)-1].FS()
		s = openTest(t, c)
		f, err := s.AddStoppedFollower(t.Context(), log.name, log.store)
		require.NoError(t, err)
		require.Equal(t, size, f.Size())
		require.NoError(t, s.Close())
	}
}

// All parts of a snapshot are taken at the same size, even if events are folded between the
// requests.
func TestSnapshotOfAGrowingLog(t *testing.T) {
	log := newJournal(t, "default")
	bodies := randomBodies(2, 300)
	log.append(bodies[:50]...)
	s := openTest(t, testConfig(vfs.NewMem()))
	f := follow(t, s, log)
	log.catchUp(f)
	var parts []*index.SnapshotPart
	for from := []byte(nil); len(parts) == 0 || from != nil; {
		p, err := index.ReadSnapshotPart(t.Context(), f, 50, from)
		require.NoError(t, err)
		parts = append(parts, p)
		from = p.Next
		if len(bodies) > 60 {
			log.append(bodies[50:60]...)
			bodies = slices.Delete(bodies, 50, 60)
			log.catchUp(f)
		}
	}
	require.Greater(t, len(parts), 5)
	require.Greater(t, log.head.Size, uint64(50))
	first := openTest(t, testConfig(vfs.NewMem()))
	own, err := first.Refold(t.Context(), log.name, log.store, 50, func(uint64) {})
	require.NoError(t, err)
	require.Equal(t, partsOf(t, own, 50), parts)
	require.NoError(t, first.Close())

	_, err = index.ReadSnapshotPart(t.Context(), f, 51, nil)
	require.ErrorIs(t, err, index.ErrSizePassed)
	require.NoError(t, s.Close())
}

// ReadSnapshotPart waits until the log has reached the requested size. Two servers then return the
// same parts, regardless of their batch sizes.
func TestSnapshotAtALaterSize(t *testing.T) {
	log := newJournal(t, "default")
	bodies := randomBodies(3, 100)
	log.append(bodies[:20]...)
	c := testConfig(vfs.NewMem())
	one := openTest(t, c)
	c = testConfig(vfs.NewMem())
	c.MaxBatchEvents = 7
	two := openTest(t, c)
	a, b := follow(t, one, log), follow(t, two, log)
	log.catchUp(a)
	log.catchUp(b)
	got := make(chan []*index.SnapshotPart)
	for _, f := range []*index.Follower{a, b} {
		go func() {
			p, err := index.ReadSnapshotPart(context.Background(), f, 53, nil)
			if err != nil {
				t.Error(err)
			}
			got <- []*index.SnapshotPart{p}
		}()
	}
	for _, f := range []*index.Follower{a, b} {
		for !index.HasWaiter(f, 53) {
			time.Sleep(time.Millisecond)
		}
	}
	log.append(bodies[20:]...)
	log.catchUp(a)
	log.catchUp(b)
	require.Equal(t, (<-got)[0].Rows, (<-got)[0].Rows)
	require.Equal(t, partsOf(t, a, 53), partsOf(t, b, 53))
	require.Equal(t, uint64(100), min(a.Size(), 100))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := index.ReadSnapshotPart(ctx, a, 1000, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, index.HasWaiter(a, 1000))
	require.NoError(t, one.Close())
	require.NoError(t, two.Close())
}

// ReadSnapshotPart returns no part while the store holds only some of the rows of an event.
func TestNoSnapshotInTheMiddleOfAnEvent(t *testing.T) {
	log := newJournal(t, "default")
	var cited []string
	for n := range 30 {
		cited = append(cited, citation("s", chunkOf(fmt.Sprint(n)), noSection))
	}
	log.append(plain(t, 0), citationSet("x", cited...), registration("s", `,"chunk_hashes":[]`))
	c := testConfig(vfs.NewMem())
	c.MaxBatchEffects = 7
	s := openTest(t, c)
	f, err := s.AddStoppedFollower(t.Context(), log.name, log.store)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 { // folds the events before the registration, then a part of the registration
		_, err := f.FoldBatch(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, uint64(2), f.Size())
	for _, size := range []uint64{0, 2} {
		_, err = index.ReadSnapshotPart(ctx, f, size, nil)
		require.Error(t, err, "ReadSnapshotPart waits for the rest of the event until ctx is canceled")
		require.NotErrorIs(t, err, index.ErrSizePassed)
	}
	require.NoError(t, f.CatchUp(t.Context()))
	parts := partsOf(t, f, 0)
	require.Equal(t, log.head.Size, parts[0].Size)
	require.NoError(t, s.Close())
}

// At most two snapshots can be read at a time. Reading one of them to the end makes room for
// another.
func TestFewSnapshotsAtATime(t *testing.T) {
	log := newJournal(t, "default")
	s := openTest(t, testConfig(vfs.NewMem()))
	f := follow(t, s, log)
	var begun []*index.SnapshotPart
	for n := range 2 {
		log.append(plains(t, 10*n, 10*n+10)...)
		log.catchUp(f)
		p, err := index.ReadSnapshotPart(t.Context(), f, 0, nil)
		require.NoError(t, err)
		begun = append(begun, p)
	}
	log.append(plains(t, 20, 30)...)
	log.catchUp(f)
	_, err := index.ReadSnapshotPart(t.Context(), f, 0, nil)
	require.ErrorIs(t, err, index.ErrTooManySnapshots)
	require.Equal(t, begun[0], partsOf(t, f, 10)[0])
	p, err := index.ReadSnapshotPart(t.Context(), f, 0, nil)
	require.NoError(t, err)
	require.Equal(t, uint64(30), p.Size)
	_, err = index.ReadSnapshotPart(t.Context(), f, 10, nil)
	require.ErrorIs(t, err, index.ErrSizePassed)
	require.Equal(t, begun[1], partsOf(t, f, 20)[0])
	require.NoError(t, s.Close())
}

// An index that lacks only a few events folds them instead of fetching a snapshot.
func TestIndexThatLacksFewEventsIsNotFetched(t *testing.T) {
	log := newJournal(t, "default")
	log.append(plains(t, 0, 100)...)
	for _, own := range []struct {
		size, lag uint64
		fetched   bool
	}{{0, 100, true}, {0, 101, false}, {75, 1, true}, {76, 1, false}, {100, 1, false}} {
		c := testConfig(vfs.NewMem())
		c.MinFetchLag = own.lag
		s := openTest(t, c)
		f, err := s.Refold(t.Context(), log.name, log.store, own.size, func(uint64) {})
		require.NoError(t, err)
		f.Close()
		var fetched atomic.Bool
		s.SetSnapshotFetchFunc(func(context.Context, string) iter.Seq2[*index.SnapshotPart, error] {
			fetched.Store(true)
			return func(func(*index.SnapshotPart, error) bool) {}
		})
		f = follow(t, s, log)
		log.catchUp(f)
		f.Close()
		require.Equal(t, own.fetched, fetched.Load(), "%+v", own)
		require.NoError(t, s.Close())
	}
}

// While a snapshot replaces the rows of an index, no query returns an incomplete answer.
func TestReadsDuringAnInstall(t *testing.T) {
	log := newJournal(t, "default")
	log.append(plains(t, 0, 300)...)
	source := openTest(t, testConfig(vfs.NewMem()))
	from := follow(t, source, log)
	log.catchUp(from)
	parts := partsOf(t, from, 0)
	require.NoError(t, source.Close())
	for range 20 {
		s := openTest(t, testConfig(vfs.NewMem()))
		f, err := s.Refold(t.Context(), log.name, log.store, 100, func(uint64) {})
		require.NoError(t, err)
		f.Close()
		s.SetSnapshotFetchFunc(fetchOf(parts))
		f = follow(t, s, log)
		for f.Size() < log.head.Size {
			seq, err := f.FindByHash(t.Context(), log.hashes[50], 51)
			if err == nil {
				require.Equal(t, uint64(50), seq)
			} else if !errors.Is(err, index.ErrRebuilding) {
				require.ErrorIs(t, err, index.ErrBehind)
			}
			v, err := f.LatestView()
			if err != nil {
				require.ErrorIs(t, err, index.ErrRebuilding)
				continue
			}
			require.Contains(t, []uint64{0, 100, 300}, v.Size())
			require.NoError(t, v.Close())
		}
		log.check(f)
		require.NoError(t, s.Close())
	}
}
