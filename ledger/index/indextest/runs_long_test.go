package indextest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger/index"
	"colophon/ledger/index/effects"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/index/runs"
	"colophon/ledger/query"
	"colophon/ledger/record"
	"colophon/storage"
	"colophon/storage/pebble"
)

// longRun returns the body of the n-th of many IPC records. There are about ten records for each
// input, except for one input that every twentieth record has. A third of the outputs repeat
// earlier ones.
func longRun(t tester, n, all int) string {
	t.Helper()
	input := int(rand.New(rand.NewPCG(uint64(n), 1)).Int64N(int64(all) / 10 * 19 / 20))
	if n%20 == 0 {
		input = -1
	}
	output := fmt.Sprintf("because %d", n)
	if n%3 == 0 {
		output = fmt.Sprintf("because of %d", input%1000)
	}
	return posted(t, record.KindIPCRecord, fmt.Sprintf(
		`{"run_id":"run-%d","payload":{"seed":42,"q":"why %d?"},"system_prompt":"Be kind.","output":%q,"model":"model-%d","temperature":%s,
		"max_tokens":512,"labels":{"experiment":"e-%d"}}`, n, input, output, n%3, []string{"0.7", "0.2"}[n/20%2], n/5000))
}

// makeLongLog writes a log with the given number of longRun records to a folder.
func makeLongLog(t *testing.T, dir string, runs int) {
	t.Helper()
	database, err := pebble.Open(t.Context(), pebble.Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	store, err := database.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	var head storage.Head
	bodies := []string{string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil))}
	for n := 0; n < runs || len(bodies) > 0; {
		for ; n < runs && len(bodies) < 5000; n++ {
			bodies = append(bodies, longRun(t, n, runs))
		}
		next := storage.Batch{Head: head}
		for _, body := range bodies {
			entry := append(slices.Clone(next.Head.Tip[:]), body...)
			entry = record.AppendBodySuffix(entry, next.Head.Size, time.UnixMicro(int64(next.Head.Size)*1000))
			next.Entries = append(next.Entries, entry)
			next.Head = storage.Head{Size: next.Head.Size + 1, Tip: sha256.Sum256(entry)}
		}
		require.NoError(t, store.Commit(t.Context(), head, next))
		head, bodies = next.Head, nil
	}
	require.NoError(t, database.Close())
}

// longQuery is one kind of query. page reads one page of results for a record and returns the
// number of rows.
type longQuery struct {
	name string
	page func(ctx context.Context, v *index.View, about *records.IPCRecord, p index.PageRequest) (rows int, err error)
}

// rowsOf converts the results of a query that returns a page to the number of rows in the page.
func rowsOf[R any](rows []R, _ []byte, err error) (int, error) { return len(rows), err }

var longQueries = []longQuery{
	{"groups", func(ctx context.Context, v *index.View, _ *records.IPCRecord, p index.PageRequest) (int, error) {
		return rowsOf(groups.List(ctx, v, groups.Query{GroupBy: "input_hash"}, p))
	}},
	{"groups since", func(ctx context.Context, v *index.View, about *records.IPCRecord, p index.PageRequest) (int, error) {
		return rowsOf(groups.ListRanked(ctx, v, groups.RankingByLastRun, groups.Query{GroupBy: "input_hash", TimeRange: index.TimeRange{Since: &about.Time}}, p))
	}},
	{"groups by runs", func(ctx context.Context, v *index.View, _ *records.IPCRecord, p index.PageRequest) (int, error) {
		return rowsOf(groups.ListRanked(ctx, v, groups.RankingByRuns, groups.Query{GroupBy: "input_hash"}, p))
	}},
	{"groups by flips", func(ctx context.Context, v *index.View, _ *records.IPCRecord, p index.PageRequest) (int, error) {
		return rowsOf(groups.ListRanked(ctx, v, groups.RankingByFlips, groups.Query{GroupBy: "ipc_id"}, p))
	}},
	{"groups by stability", func(ctx context.Context, v *index.View, _ *records.IPCRecord, p index.PageRequest) (int, error) {
		return rowsOf(groups.ListRanked(ctx, v, groups.RankingByStability, groups.Query{GroupBy: "input_hash"}, p))
	}},
	{"group", func(ctx context.Context, v *index.View, about *records.IPCRecord, p index.PageRequest) (int, error) {
		_, _, err := groups.Get(ctx, v, groups.RunQuery{Value: records.Value{Name: "input_hash", Text: string(about.InputHash)}, AnyState: false})
		return 1, err
	}},
	{"runs", func(ctx context.Context, v *index.View, about *records.IPCRecord, p index.PageRequest) (int, error) {
		return rowsOf(runs.List(ctx, v, groups.RunQuery{Value: records.Value{Name: "input_hash", Text: string(about.InputHash)}, AnyState: false}, p))
	}},
	{"outputs", func(ctx context.Context, v *index.View, about *records.IPCRecord, p index.PageRequest) (int, error) {
		return rowsOf(groups.ListOutputs(ctx, v, groups.RunQuery{Value: records.Value{Name: "model", Text: string(about.Model)}, AnyState: false}, p))
	}},
	{"timeline", func(ctx context.Context, v *index.View, about *records.IPCRecord, p index.PageRequest) (int, error) {
		return rowsOf(runs.Timeline(ctx, v, groups.RunQuery{Value: records.Value{Name: "input_hash", Text: string(about.InputHash)}, AnyState: false}, p))
	}},
	{"drift", func(ctx context.Context, v *index.View, about *records.IPCRecord, p index.PageRequest) (int, error) {
		_, _, err := runs.DriftOf(ctx, v, about.Seq)
		return 1, err
	}},
	{"effects", func(ctx context.Context, v *index.View, about *records.IPCRecord, p index.PageRequest) (int, error) {
		return rowsOf(effects.ListPairs(ctx, v, effects.Query{Variable: "temperature", A: "0.7", B: "0.2"}, p))
	}},
}

// longPage is the page limit that TestMillion uses.
const longPage = 10

// The cost of a query depends on the size of its answer, not on the size of the log. With a million
// runs, fifty thousand of which have the same input, no page reads more than twenty keys per row.
// The test logs the times for a million runs and for ten thousand, measured alternately. It
// measures once with a server's caches, which hold the whole small ledger and part of the large
// one. It then measures with almost no caches, so that queries read from files.
func TestMillion(t *testing.T) {
	if os.Getenv("COLOPHON_LONG") == "" {
		t.Skip("takes minutes; COLOPHON_LONG=1 runs it")
	}
	var sides []longSide
	for _, runs := range []int{10_000, 1_000_000} {
		side := longSide{dir: t.TempDir(), runs: runs}
		makeLongLog(t, side.logDir(), runs)
		begin := time.Now()
		side.open(t, true)
		t.Logf("folded %d runs, %.0f/s", runs, float64(runs)/time.Since(begin).Seconds())
		side.close(t)
		sides = append(sides, side)
	}
	for _, cached := range []bool{true, false} {
		t.Logf("caches: %v", cached)
		for i := range sides {
			sides[i].open(t, cached)
		}
		for _, q := range longQueries {
			q.compare(t, sides)
		}
		for i := range sides {
			sides[i].close(t)
		}
	}
}

// longSide is one of the two indexes that TestMillion compares.
type longSide struct {
	*index.Follower
	index    *index.Store
	database *pebble.Database
	dir      string
	runs     int
}

func (s *longSide) logDir() string { return filepath.Join(s.dir, "log") }

// open opens the log and the index, either with the caches of a server or with almost none, and
// waits until the whole log is folded.
func (s *longSide) open(t *testing.T, cached bool) {
	t.Helper()
	log := pebble.Config{Dir: s.logDir(), Logger: slog.New(slog.DiscardHandler)}
	folded, err := index.Config{Dir: filepath.Join(s.dir, "index"), Families: query.Families(), Logger: log.Logger}.Resolve()
	require.NoError(t, err)
	if !cached {
		log.CacheBytes, log.MemTableBytes, folded.RowStore.CacheBytes = 1, 64<<10, 1
	}
	s.database, err = pebble.Open(t.Context(), log)
	require.NoError(t, err)
	store, err := s.database.Ledger(t.Context(), "default")
	require.NoError(t, err)
	s.index = openTest(t, folded)
	s.Follower, err = s.index.Follow("default", store)
	require.NoError(t, err)
	require.NoError(t, s.WaitForSize(t.Context(), uint64(s.runs)+1))
}

func (s *longSide) close(t *testing.T) {
	t.Helper()
	require.NoError(t, s.index.Close())
	require.NoError(t, s.database.Close())
}

// compare runs the query for runs at the same relative positions in both indexes.
func (q longQuery) compare(t *testing.T, sides []longSide) {
	t.Helper()
	const rounds, questions = 5, 1000
	random := rand.New(rand.NewPCG(7, 7))
	most := 0.0 // largest number of keys per row
	var middle, slow [][]time.Duration
	for range rounds {
		took := make([][]time.Duration, len(sides))
		for range questions {
			part := random.Float64()
			for i, side := range sides {
				time, keys := q.ask(t, side, part)
				took[i], most = append(took[i], time), max(most, keys)
			}
		}
		var halves, hundredths []time.Duration
		for _, of := range took {
			slices.Sort(of)
			halves, hundredths = append(halves, of[questions/2]), append(hundredths, of[questions*99/100])
		}
		middle, slow = append(middle, halves), append(slow, hundredths)
	}
	require.LessOrEqual(t, most, float64(rowstore.MaxKeysReadPerRow), q.name)
	t.Logf("%-20s p50 %s  p99 %s  at most %.1f keys per row", q.name, ratioOf(middle), ratioOf(slow), most)
}

// ask queries one run, using a new view. part is the run's relative position in the log, from 0 to
// 1. It returns the time taken and the number of keys read per row.
func (q longQuery) ask(t *testing.T, side longSide, part float64) (took time.Duration, keys float64) {
	t.Helper()
	v, err := side.LatestView()
	require.NoError(t, err)
	about, err := records.ReadIPCRecord(t.Context(), v, 1+uint64(part*float64(side.runs-1)))
	require.NoError(t, err)
	require.NoError(t, v.Close())
	begin := time.Now()
	v, err = side.LatestView()
	require.NoError(t, err)
	rows, err := q.page(t.Context(), v, &about, index.PageRequest{Limit: longPage})
	require.NoError(t, err)
	require.NoError(t, v.Close())
	took = time.Since(begin)
	require.Positive(t, rows, q.name)
	return took, float64(v.KeysRead()) / float64(rows)
}

// ratioOf finds the round with the median ratio of the last side's time to the first side's time.
// It formats that ratio and the round's times.
func ratioOf(rounds [][]time.Duration) string {
	ratio := func(r []time.Duration) float64 { return float64(r[len(r)-1]) / float64(r[0]) }
	slices.SortFunc(rounds, func(a, b []time.Duration) int { return cmp.Compare(ratio(a), ratio(b)) })
	at := rounds[len(rounds)/2]
	return fmt.Sprintf("%.2f %9v", ratio(at), at)
}
