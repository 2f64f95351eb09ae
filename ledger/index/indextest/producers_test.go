package indextest

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/producers"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
	"colophon/storage"
)

// produced returns the body of an event whose record has the given producer id and sequence number.
func produced(id string, number uint64) string {
	return rawBody("ipc_record", "{}", fmt.Sprintf(`{"producer":{"id":%q,"seq":%d}}`, id, number))
}

// delivery contains the totals, gaps, and duplicates in the sequence numbers of a producer.
type delivery struct {
	producers.Producer
	gaps       []producers.Gap
	duplicates []producers.Duplicate // newest first
}

// delivered reads everything that the index knows about a producer, in pages of at most limit rows.
func delivered(t tester, v *index.View, id string, limit int) delivery {
	t.Helper()
	var d delivery
	for p := (index.PageRequest{Limit: limit}); ; {
		producer, gaps, duplicates, next, err := producers.Get(v, id, p)
		require.NoError(t, err)
		require.LessOrEqual(t, len(gaps), limit)
		require.LessOrEqual(t, len(duplicates), limit)
		d.Producer, d.gaps, d.duplicates = producer, append(d.gaps, gaps...), append(d.duplicates, duplicates...)
		if next == nil {
			return d
		}
		p.After = next
	}
}

// naiveDeliveries computes the delivery of each producer that occurs in the entries, in order of
// first appearance.
func naiveDeliveries(t tester, entries [][]byte) []delivery {
	t.Helper()
	var order []string
	first := make(map[string]map[uint64]uint64) // for each producer, the seq of the first record with each number
	all := make(map[string]*delivery)
	for seq, entry := range entries {
		var e struct {
			Record struct {
				Producer *struct {
					ID  string
					Seq uint64
				}
			}
		}
		require.NoError(t, json.Unmarshal(entry[32:], &e))
		p := e.Record.Producer
		if p == nil {
			continue
		}
		if all[p.ID] == nil {
			order = append(order, p.ID)
			first[p.ID], all[p.ID] = make(map[uint64]uint64), &delivery{Producer: producers.Producer{ID: p.ID}}
		}
		d := all[p.ID]
		d.LatestSeq, d.Records = uint64(seq), d.Records+1
		if before, repeated := first[p.ID][p.Seq]; repeated {
			d.duplicates = append([]producers.Duplicate{{Seq: uint64(seq), Number: p.Seq, FirstSeq: before}}, d.duplicates...)
			d.Duplicates++
		} else {
			first[p.ID][p.Seq] = uint64(seq)
		}
	}
	var list []delivery
	for _, id := range order {
		all[id].count(first[id])
		list = append(list, *all[id])
	}
	return list
}

// count fills in the gaps and totals of d from the set of delivered numbers.
func (d *delivery) count(numbers map[uint64]uint64) {
	var sorted []uint64
	for n := range numbers {
		if n > 0 {
			sorted = append(sorted, n)
		}
	}
	slices.Sort(sorted)
	last := uint64(0)
	for _, n := range sorted {
		if n != last+1 {
			d.gaps = append(d.gaps, producers.Gap{First: last + 1, Last: n - 1})
			d.MissingCount += n - last - 1
		}
		last = n
	}
	d.HighestNumber, d.CompleteTo = last, last
	if len(d.gaps) > 0 {
		d.CompleteTo = d.gaps[0].First - 1
	}
}

func drawNumber(t *rapid.T) uint64 {
	switch few(t, "how far", "near", "near", "near", "block", "far", "farthest") {
	case "block": // near the boundary of a block, or of a block of blocks
		around := rapid.SampledFrom([]uint64{255, 256, 511, 65535, 65536, 1 << 24}).Draw(t, "end")
		return around + rapid.Uint64Range(0, 2).Draw(t, "beyond")
	case "far":
		return rapid.Uint64Range(0, math.MaxInt64).Draw(t, "far")
	case "farthest":
		return math.MaxInt64 - rapid.Uint64Range(0, 2).Draw(t, "from the end")
	}
	return rapid.Uint64Range(0, 12).Draw(t, "near")
}

// Queries about each producer agree with the naive model, at any log size.
func TestProducersEqualModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := newJournal(t, "default")
		log.append(string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil)))
		for range rapid.IntRange(1, 40).Draw(t, "records") {
			log.append(produced(few(t, "id", "a", "b", ""), drawNumber(t)))
		}
		c := testConfig(vfs.NewMem())
		c.MaxBatchEvents = rapid.IntRange(1, 50).Draw(t, "batch")
		s := openTest(t, c)
		defer func() { require.NoError(t, s.Close()) }()
		f := follow(t, s, log)
		log.catchUp(f)
		limit := rapid.IntRange(1, 4).Draw(t, "limit")
		for _, size := range []uint64{log.head.Size, rapid.Uint64Range(0, log.head.Size).Draw(t, "as of")} {
			v, err := f.View(size)
			require.NoError(t, err)
			want := naiveDeliveries(t, log.entries[:size])
			missing, repeated := uint64(0), uint64(0)
			var list []producers.Producer
			for _, d := range want {
				require.Equal(t, d, delivered(t, v, d.ID, limit))
				list = append(list, d.Producer)
				missing, repeated = addTo(missing, d.MissingCount), repeated+d.Duplicates
			}
			slices.Reverse(list)
			require.Equal(t, list, pages(t, limit, func(p index.PageRequest) ([]producers.Producer, []byte, error) { return producers.List(v, p) }))
			if size == log.head.Size {
				require.Equal(t, missing, countsOf(f)[counters.SeriesOf(counters.MetricMissingProducerSeqs)])
				require.Equal(t, repeated, countsOf(f)[counters.SeriesOf(counters.MetricProducerDuplicates)])
			}
			require.NoError(t, v.Close())
		}
		require.Equal(t, log.refold(), dump(t, s))
	})
}

// addTo returns a + b, or math.MaxUint64 if the sum overflows.
func addTo(a, b uint64) uint64 {
	if a+b < a {
		return math.MaxUint64
	}
	return a + b
}

// Listing the gaps of a producer reads only a few keys, even if its sequence numbers arrive in
// reverse order or its gaps are very long.
func TestGapsAreReadWithFewKeys(t *testing.T) {
	log := newJournal(t, "default")
	log.append(string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil)))
	var bodies []string
	for n := uint64(70000); n > 1; n-- {
		if n != 300 {
			bodies = append(bodies, produced("backwards", n))
		}
	}
	for n := range uint64(60) {
		bodies = append(bodies, produced("sparse", (n+1)<<40))
	}
	log.append(bodies...)
	s := openTest(t, testConfig(vfs.NewMem()))
	f := follow(t, s, log)
	log.catchUp(f)
	v, err := f.LatestView()
	require.NoError(t, err)

	require.Equal(t, []producers.Gap{{First: 1, Last: 1}, {First: 300, Last: 300}}, delivered(t, v, "backwards", 10).gaps)
	require.LessOrEqual(t, v.KeysRead(), 20)
	before := v.KeysRead()
	sparse := delivered(t, v, "sparse", 100)
	require.Len(t, sparse.gaps, 60)
	require.Equal(t, producers.Gap{First: 1<<40 + 1, Last: 2<<40 - 1}, sparse.gaps[1])
	require.LessOrEqual(t, v.KeysRead()-before, 20*len(sparse.gaps))

	// A gap that is filled later still appears in a view at an earlier size.
	size := log.head.Size
	log.append(produced("backwards", 300), produced("backwards", 1))
	log.catchUp(f)
	after, err := f.LatestView()
	require.NoError(t, err)
	require.Equal(t, uint64(70000), delivered(t, after, "backwards", 10).CompleteTo)
	require.NoError(t, v.Close())
	v, err = f.View(size)
	require.NoError(t, err)
	require.Len(t, delivered(t, v, "backwards", 10).gaps, 2)
	require.NoError(t, v.Close())
	require.NoError(t, after.Close())
	require.NoError(t, s.Close())
}

// One record can skip nearly 2^63 numbers, so the sum of missing numbers can exceed 64 bits. The
// metric then stays at its maximum, but the index stores the exact sum.
func TestMissingNumbersDoNotOverflow(t *testing.T) {
	log := newJournal(t, "default")
	log.append(string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil)))
	s := openTest(t, testConfig(vfs.NewMem()))
	f := follow(t, s, log)
	gauge := func() uint64 {
		log.catchUp(f)
		return countsOf(f)[counters.SeriesOf(counters.MetricMissingProducerSeqs)]
	}
	for i, want := range []uint64{math.MaxInt64 - 1, math.MaxUint64 - 3, math.MaxUint64, math.MaxUint64} {
		log.append(produced(fmt.Sprint("p", i), math.MaxInt64))
		require.Equal(t, want, gauge())
	}
	// The upper 64 bits of the sum survive a restart too.
	require.NoError(t, s.RowStore().DB().Flush())
	f.Close()
	f = follow(t, s, log)
	require.Equal(t, uint64(math.MaxUint64), gauge())
	log.append(produced("p0", 5), produced("p0", 5))
	_, value, found := func() (uint64, []byte, bool) {
		gauge()
		v, err := f.LatestView()
		require.NoError(t, err)
		defer v.Close()
		seq, value, found, err := v.NewestVersion(0x9c, []byte{0})
		require.NoError(t, err)
		return seq, slices.Clone(value), found
	}()
	require.True(t, found)
	require.Equal(t, rowstore.AppendNumbers(nil, 1, math.MaxUint64-8), value, "4·(2^63-2) - 1")
	require.NoError(t, s.Close())
}

func TestUnknownProducers(t *testing.T) {
	f, _ := foldBodies(t, produced("a", 1), produced("a", 2), produced("a", 2))
	v := viewOf(t, f, 1)
	_, _, _, _, err := producers.Get(v, "a", index.PageRequest{Limit: 1})
	require.ErrorIs(t, err, storage.ErrNotFound, "the event is not in the view")
	list, next, err := producers.List(v, index.PageRequest{Limit: 1})
	require.NoError(t, err)
	require.Empty(t, list)
	require.Nil(t, next)
	v = viewOf(t, f, 4)
	for _, position := range []string{"", "0123456789"} {
		_, _, _, _, err = producers.Get(v, "a", index.PageRequest{Limit: 1, After: []byte(position)})
		require.ErrorIs(t, err, index.ErrInvalidPosition)
	}
}
