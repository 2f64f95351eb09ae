package indextest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/drift"
	"colophon/ledger/index"
	"colophon/ledger/index/citations"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
	"colophon/storage"
)

var background = context.Background()

// Every query about citations and sources agrees with the naive model, at any log size and with any
// page length.
func TestCitationsEqualModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := newJournal(t, "default")
		log.append(string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil)))
		log.append(rapid.SliceOfN(rapid.Custom(drawCitationEvent), 1, 25).Draw(t, "events")...)
		c := testConfig(vfs.NewMem())
		c.MaxBatchEvents = rapid.IntRange(1, 30).Draw(t, "batch")
		c.MaxBatchEffects = rapid.IntRange(1, 3).Draw(t, "steps")
		s := openTest(t, c)
		defer func() { require.NoError(t, s.Close()) }()
		f := follow(t, s, log)
		log.catchUp(f)
		require.Equal(t, log.refold(), dump(t, s), "the rows do not depend on the batches")
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		for _, size := range []uint64{log.head.Size, rapid.Uint64Range(0, log.head.Size).Draw(t, "as of")} {
			v, err := f.View(size)
			require.NoError(t, err)
			requireCitations(t, v, log.citedEvents(size), limit)
			require.NoError(t, v.Close())
		}
		events, counted := log.citedEvents(log.head.Size), countsOf(f)
		require.Equal(t, uint64(len(naiveConflicts(events))), counted[counters.SeriesOf(counters.MetricCitationConflicts)])
		require.Equal(t, naiveStale(events).count, counted[counters.SeriesOf(counters.MetricStaleChunks)])
	})
}

// requireSetsOfRuns compares the latest sets of two runs with the naive model.
func requireSetsOfRuns(t *rapid.T, v *index.View, events []citationEvent) {
	below := rapid.Uint64Range(0, uint64(len(events))).Draw(t, "below")
	for _, run := range []string{"r", "q", "none"} {
		seq, _, found, err := citations.LatestSetBelow(v, []byte(run), below)
		require.NoError(t, err)
		want := naiveSetOf(events[:below], run)
		require.Equal(t, want != nil, found)
		if found {
			require.Equal(t, want.Seq, seq)
		}
	}
	sets, err := citations.CompareLatestSets(v, []byte("r"), []byte("q"), v.Size())
	require.NoError(t, err)
	a, b := naiveSetOf(events, "r"), naiveSetOf(events, "q")
	if a == nil || b == nil {
		require.Zero(t, sets)
		return
	}
	differ := !maps.Equal(naivePairs(a), naivePairs(b))
	require.Equal(t, drift.CitationSetPair{SeqA: a.Seq, SeqB: b.Seq, CitationsDiffer: differ}, sets)
	change := citations.Compare(a, b)
	require.Equal(t, differ, change.HasDifferences())
	lost, err := citations.FindLostChunks(v, a)
	require.NoError(t, err)
	require.Equal(t, naiveLost(events, a), lost)
	changed, err := citations.FindReregistrations(v, a, b)
	require.NoError(t, err)
	require.Equal(t, naiveReregistered(events, a, b), changed)
}

func requireCitations(t *rapid.T, v *index.View, events []citationEvent, limit int) {
	requireSetsOfRuns(t, v, events)
	for _, chunk := range someChunks {
		require.Equal(t, naiveSets(events, func(c citations.Citation) bool { return c.ChunkHash == chunk }),
			pages(t, limit, func(p index.PageRequest) ([]citations.Set, []byte, error) {
				return citations.SetsCitingChunk(background, v, chunk, p)
			}))
	}
	for _, subject := range someSubjects {
		require.Equal(t, naiveDrifts(events, subject),
			pages(t, limit, func(p index.PageRequest) ([]citations.Drift, []byte, error) {
				return citations.ListDrift(background, v, subject, p)
			}))
	}
	conflicts := naiveConflicts(events)
	slices.SortStableFunc(conflicts, func(a, b citations.Conflict) int { return int(b.Seq) - int(a.Seq) })
	require.Equal(t, conflicts, pages(t, limit, func(p index.PageRequest) ([]citations.Conflict, []byte, error) { return citations.ListConflicts(v, p) }))
	listed := naiveSources(events)
	stale := naiveStale(events)
	for _, source := range someSources {
		require.Equal(t, naiveSets(events, func(c citations.Citation) bool { return c.SourceID == source }),
			pages(t, limit, func(p index.PageRequest) ([]citations.Set, []byte, error) {
				return citations.SetsCitingSource(background, v, source, p)
			}))
		i := slices.IndexFunc(listed, func(s citations.SourceDetail) bool { return s.ID == source })
		detail, err := citations.SourceDetailByID(background, v, source)
		if i < 0 {
			require.ErrorIs(t, err, storage.ErrNotFound)
		} else {
			require.NoError(t, err)
			require.Equal(t, listed[i], detail)
		}
		requireStale(t, stale.stale[source], pages(t, limit, func(p index.PageRequest) ([]citations.StaleCitation, []byte, error) {
			return citations.ListStaleCitationsOfSource(background, v, source, p)
		}))
	}
	all := pages(t, limit, func(p index.PageRequest) ([]citations.StaleCitation, []byte, error) {
		return citations.ListStaleCitations(background, v, p)
	})
	bySource := make(map[string][]citations.StaleCitation)
	for i, row := range all {
		if _, met := bySource[row.SourceID]; met {
			require.Equal(t, all[i-1].SourceID, row.SourceID, "the rows of a source are adjacent")
		}
		bySource[row.SourceID] = append(bySource[row.SourceID], row)
	}
	require.Len(t, bySource, len(stale.stale))
	for source, rows := range bySource {
		requireStale(t, stale.stale[source], rows)
	}
	for i := range listed {
		listed[i].ChunkHashes = nil
	}
	slices.Reverse(listed)
	require.Equal(t, listed, pages(t, limit, func(p index.PageRequest) ([]citations.SourceDetail, []byte, error) {
		return citations.ListSources(background, v, p)
	}))
	requireDerived(t, v, events)
}

// requireStale compares two lists of stale citations. Chunks that were superseded by the same event
// can be in any order.
func requireStale(t *rapid.T, want, got []citations.StaleCitation) {
	require.True(t, slices.IsSortedFunc(got, func(a, b citations.StaleCitation) int {
		switch {
		case a.SupersededBy != b.SupersededBy:
			return int(b.SupersededBy) - int(a.SupersededBy)
		case a.ChunkHash == b.ChunkHash:
			return int(b.Seq) - int(a.Seq)
		}
		return 0
	}), "%v", got)
	require.Equal(t, sortStale(want), sortStale(got))
}

// requireDerived checks the conflicts and the unregistered sources of each set as of the set's event.
func requireDerived(t *rapid.T, v *index.View, events []citationEvent) {
	for i, e := range events {
		seq := uint64(i)
		conflicts, err := citations.ListSetConflicts(background, v, seq)
		if e.Kind != "citation_set" {
			require.ErrorIs(t, err, storage.ErrNotFound)
			continue
		}
		require.NoError(t, err)
		var want []citations.Conflict
		for _, c := range e.Record.Citations {
			for _, all := range naiveConflicts(events[:i+1]) {
				named := func(w citations.Conflict) bool { return w.ChunkHash == c.ChunkHash }
				if named(all) && !slices.ContainsFunc(want, named) {
					want = append(want, all)
				}
			}
		}
		require.Equal(t, want, conflicts)
		unregistered, err := citations.UnregisteredSources(background, v, seq)
		require.NoError(t, err)
		require.Equal(t, naiveUnregistered(events, seq), unregistered)
		flag := rowstore.IdentityOf([]byte("flag"), []byte("unregistered_source"))
		flagged := false
		for r, err := range v.VersionsNewestFirst(records.PostingsDimension, flag[:], v.Size()) {
			require.NoError(t, err)
			flagged = flagged || r.Seq == seq
		}
		require.Equal(t, len(unregistered) > 0, flagged)
	}
}

const (
	noSection = `null`
	intro     = `"intro"`
)

// If a set cites a place of a source but no longer cites a chunk that an earlier set cited there,
// the chunk is superseded in all earlier sets that cite it, even at other places. A later set that
// cites the chunk again is fresh.
func TestRecitedChunksAreStale(t *testing.T) {
	one, two := chunkOf("one"), chunkOf("two")
	f, _ := foldBodies(t,
		citationSet("x", citation("s", one, intro)),                                // event 1
		citationSet("y", citation("s", one, noSection)),                            // event 2: cites chunk one at another place
		citationSet("y", citation("other", one, intro)),                            // event 3: cites chunk one in another source
		citationSet("y", citation("s", two, intro)),                                // event 4: supersedes chunk one
		citationSet("z", citation("s", one, noSection)),                            // event 5: cites chunk one again, at a third place
		citationSet("y", citation("s", two, noSection), citation("s", one, intro)), // event 6: supersedes both chunks, and cites both again
		citationSet("y"), // event 7: has no citations
	)
	v := viewOf(t, f, 8)
	stale := func(v *index.View) []citations.StaleCitation {
		return pages(t, 2, func(p index.PageRequest) ([]citations.StaleCitation, []byte, error) {
			return citations.ListStaleCitationsOfSource(t.Context(), v, "s", p)
		})
	}
	run := "r"
	row := func(seq uint64, subject, chunk string, by uint64) citations.StaleCitation {
		return citations.StaleCitation{Seq: seq, RunID: &run, Subject: subject, SourceID: "s", ChunkHash: chunk, SupersededBy: by, SupersessionKind: "recited"}
	}
	require.Equal(t, sortStale([]citations.StaleCitation{
		row(5, "z", one, 6), row(4, "y", two, 6), row(2, "y", one, 4), row(1, "x", one, 4),
	}), sortStale(stale(v)))
	require.Equal(t, []citations.StaleCitation{row(2, "y", one, 4), row(1, "x", one, 4)}, stale(viewOf(t, f, 6)))
	require.Empty(t, stale(viewOf(t, f, 4)))
	require.Empty(t, stale(viewOf(t, f, 0)))
	require.Equal(t, uint64(3), countsOf(f)[counters.SeriesOf(counters.MetricStaleChunks)])
	for _, position := range []string{"", "0123456789", "01234567890123456789"} {
		_, _, err := citations.ListStaleCitationsOfSource(t.Context(), v, "s", index.PageRequest{Limit: 1, After: []byte(position)})
		require.ErrorIs(t, err, index.ErrInvalidPosition)
	}
}

// A registration with a list supersedes the cited chunks that are not in the list. Sets that cite
// such a chunk later are stale from the start, until the source is registered without a list.
func TestUnlistedChunksAreStale(t *testing.T) {
	one, two := chunkOf("one"), chunkOf("two")
	list := fmt.Sprintf(`,"chunk_hashes":[%q]`, two)
	f, _ := foldBodies(t,
		citationSet("x", citation("s", one, noSection), citation("s", two, noSection)), // event 1
		registration("s", ""),   // event 2: has no list of chunks
		registration("s", list), // event 3: supersedes chunk one
		citationSet("y", citation("s", one, noSection), citation("t", one, noSection)), // event 4: cites a stale chunk of s
		registration("s", list),                         // event 5: supersedes nothing more
		registration("s", ""),                           // event 6
		citationSet("y", citation("s", one, noSection)), // event 7: fresh
	)
	run := "r"
	require.Equal(t, []citations.StaleCitation{{Seq: 4, RunID: &run, Subject: "y", SourceID: "s", ChunkHash: one, SupersededBy: 4, SupersessionKind: "not_listed"}, {Seq: 1, RunID: &run, Subject: "x", SourceID: "s", ChunkHash: one, SupersededBy: 3, SupersessionKind: "registered"}},
		pages(t, 1, func(p index.PageRequest) ([]citations.StaleCitation, []byte, error) {
			return citations.ListStaleCitationsOfSource(t.Context(), viewOf(t, f, 8), "s", p)
		}))
	unregistered := func(seq uint64) []string {
		ids, err := citations.UnregisteredSources(t.Context(), viewOf(t, f, 8), seq)
		require.NoError(t, err)
		return ids
	}
	require.Empty(t, unregistered(1), "no source was registered before")
	require.Equal(t, []string{"t"}, unregistered(4))
	require.Empty(t, unregistered(7))
}

// An event that supersedes more chunks than fit in a batch is stored in parts. No view sees any of
// the parts before the last one is stored, and an interrupted fold can be resumed.
func TestAnEventIsStoredInParts(t *testing.T) {
	log := newJournal(t, "default")
	log.append(string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil)))
	const chunks = 50
	var cited []string
	for n := range chunks {
		cited = append(cited, citation("s", chunkOf(fmt.Sprint(n)), noSection))
	}
	log.append(citationSet("x", cited...), registration("s", `,"chunk_hashes":[]`), citationSet("y", citation("s", chunkOf("0"), noSection)))
	c := testConfig(vfs.NewMem())
	c.MaxBatchEffects = 7
	s := openTest(t, c)
	stale := func(f *index.Follower) int {
		v, err := f.LatestView()
		require.NoError(t, err)
		rows, _, err := citations.ListStaleCitationsOfSource(t.Context(), v, "s", index.PageRequest{Limit: 2 * chunks})
		require.NoError(t, err)
		require.NoError(t, v.Close())
		return len(rows)
	}
	for part := 0; ; part++ {
		f, err := s.AddStoppedFollower(t.Context(), log.name, log.store)
		require.NoError(t, err)
		more, err := f.FoldBatch(t.Context())
		require.NoError(t, err)
		if f.Size() == log.head.Size {
			require.Equal(t, chunks+1, stale(f))
			require.Equal(t, chunks/c.MaxBatchEffects, part-1)
			f.Close()
			break
		}
		require.True(t, more)
		require.Equal(t, uint64(2), f.Size())
		require.Zero(t, stale(f))
		f.Close()
	}
	requireSame(t, log.refold(), dump(t, s))
	require.NoError(t, s.Close())
}

// The cost of registering a source again depends on its list and on the citations since its
// previous registration, but not on earlier citations.
func TestRegistrationsCostWhatIsNew(t *testing.T) {
	var bodies []string
	for n := range 300 {
		bodies = append(bodies, citationSet("x", citation("s", chunkOf(fmt.Sprint(n)), noSection)))
	}
	list := fmt.Sprintf(`,"chunk_hashes":[%q,%q]`, chunkOf("1"), chunkOf("2"))
	f, log := foldBodies(t, append(bodies, registration("s", list))...)
	before := f.CurrentFold().KeysRead
	for range 100 {
		log.append(registration("s", list))
	}
	log.catchUp(f)
	require.LessOrEqual(t, f.CurrentFold().KeysRead-before, 100*3)
}

// Listing citations reads at most 20 keys per row, even if many sets cite the same chunk of one
// source, or one chunk has many sources.
func TestCitationsAreReadWithFewKeys(t *testing.T) {
	var bodies []string
	for n := range 300 {
		bodies = append(bodies, citationSet("x", citation("s", chunkOf(fmt.Sprint(n%150)), intro), citation(fmt.Sprint("s", n), chunkOf("all"), intro)))
	}
	f, log := foldBodies(t, bodies...)
	v := viewOf(t, f, log.head.Size)
	const limit = 10
	touched := func(name string, query func(index.PageRequest) (int, error)) {
		before := v.KeysRead()
		rows, err := query(index.PageRequest{Limit: limit})
		require.NoError(t, err)
		require.Equal(t, limit, rows, name)
		require.LessOrEqual(t, v.KeysRead()-before, 20*rows, name)
	}
	touched("stale", func(p index.PageRequest) (int, error) {
		r, _, err := citations.ListStaleCitationsOfSource(t.Context(), v, "s", p)
		return len(r), err
	})
	touched("chunk", func(p index.PageRequest) (int, error) {
		r, _, err := citations.SetsCitingChunk(t.Context(), v, chunkOf("all"), p)
		return len(r), err
	})
	touched("source", func(p index.PageRequest) (int, error) {
		r, _, err := citations.SetsCitingSource(t.Context(), v, "s", p)
		return len(r), err
	})
	touched("drift", func(p index.PageRequest) (int, error) {
		r, _, err := citations.ListDrift(t.Context(), v, "x", p)
		return len(r), err
	})
	before := v.KeysRead()
	conflicts, _, err := citations.ListConflicts(v, index.PageRequest{Limit: limit})
	require.NoError(t, err)
	require.Len(t, conflicts, 1)
	require.Equal(t, uint64(300), conflicts[0].SourceCount)
	require.Len(t, conflicts[0].Sources, 16)
	require.LessOrEqual(t, v.KeysRead()-before, 20)
}

func TestCitationPositionsAreChecked(t *testing.T) {
	f, _ := foldBodies(t, citationSet("x"), registration("s", ""), citationSet("x"))
	v := viewOf(t, f, 3)
	for _, position := range [][]byte{{}, {1}, rowstore.AppendSeq(nil, 2), rowstore.AppendSeq(nil, 3), rowstore.AppendSeq(nil, 9)} {
		_, _, err := citations.ListDrift(t.Context(), v, "x", index.PageRequest{Limit: 1, After: position})
		require.ErrorIs(t, err, index.ErrInvalidPosition)
		_, _, err = citations.ListConflicts(v, index.PageRequest{Limit: 1, After: position})
		require.ErrorIs(t, err, index.ErrInvalidPosition)
	}
	_, err := citations.Get(t.Context(), v, 2)
	require.ErrorIs(t, err, storage.ErrNotFound, "the event is a registration")
	_, err = citations.Get(t.Context(), v, 3)
	require.ErrorIs(t, err, storage.ErrNotFound, "the event is not in the view")
}
