package indextest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/index"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
)

// naiveRange is a range of consecutive runs that are not live.
type naiveRange struct{ first, last uint64 }

// deadRangesOf reads the stored dead ranges of the group with the given identity.
func deadRangesOf(t tester, s *index.Store, id rowstore.Identity) (found []naiveRange) {
	t.Helper()
	const deadRuns = 0x12
	lower := append(testKeys.AppendPrefix(nil, deadRuns), id[:]...)
	it, err := s.RowStore().NewIterator(lower, rowstore.UpperBound(lower, rowstore.SeqSize))
	require.NoError(t, err)
	for ok := it.First(); ok; ok = it.Next() {
		last, err := it.Value()
		require.NoError(t, err)
		found = append(found, naiveRange{binary.BigEndian.Uint64(it.Key()[len(lower):]), binary.BigEndian.Uint64(last)})
	}
	require.NoError(t, it.Close())
	return found
}

// naiveDeadRanges returns the ranges of consecutive runs of a group that are not live as of the
// given size.
func (n *naiveGenerations) naiveDeadRanges(by, value string, size uint64) (ranges []naiveRange) {
	follows := false // the previous run is not live
	for _, r := range n.group(by, value, true, size) {
		gone := n.stateAt(r.seq, size) != "live"
		switch {
		case gone && follows:
			ranges[len(ranges)-1].last = r.seq
		case gone:
			ranges = append(ranges, naiveRange{r.seq, r.seq})
		}
		follows = gone
	}
	return ranges
}

// The stored dead ranges of every group are maximal and agree with the model.
func TestDeadRangesEqualModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawRunsUnderTest(t, func(u *runsUnderTest) {
			for _, by := range groupNames {
				for _, value := range u.naive.groupsBy(by, u.log.head.Size) {
					require.Equal(t, u.naive.naiveDeadRanges(by, value, u.log.head.Size),
						deadRangesOf(t, u.store, rowstore.IdentityOf([]byte(by), []byte(value))), "%s %s", by, value)
				}
			}
		})
	})
}

// A group agrees with the model even if its runs become live and stop being live in any order, and
// even if records that are not runs come between them.
func TestStatesOfRunsChangeInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := generations{T: t, log: newJournal(t, "default")}
		add := func(body string) {
			g.log.append(body)
			g.naive.read(t, g.log.entries[len(g.log.entries)-1])
		}
		add(string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil)))
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			var live, gone []uint64
			for _, r := range g.naive.records {
				if !r.isRun() {
					continue
				}
				if g.naive.stateAt(r.seq, g.log.head.Size) == "live" {
					live = append(live, r.seq)
				} else {
					gone = append(gone, r.seq)
				}
			}
			switch what := few(t, "what", "run", "incomplete", "leave", "leave", "leave", "come"); {
			case what == "leave" && len(live) > 0:
				add(stateOf(rapid.SampledFrom(live).Draw(t, "leaves"), "quarantined"))
			case what == "come" && len(gone) > 0:
				add(stateOf(rapid.SampledFrom(gone).Draw(t, "comes"), "live"))
			case what == "incomplete":
				add(posted(t, record.KindIPCRecord, `{"payload":{"q":"why?"},"model":"m","temperature":0,"max_tokens":9}`))
			default:
				add(runBody(t, "m", few(t, "output", "yes", "no", "well"), ""))
			}
		}
		s := openTest(t, testConfig(vfs.NewMem()))
		defer func() { require.NoError(t, s.Close()) }()
		f := follow(t, s, g.log)
		g.log.catchUp(f)
		require.Equal(t, g.naive.naiveDeadRanges("model", "m", g.log.head.Size), deadRangesOf(t, s, rowstore.IdentityOf([]byte("model"), []byte("m"))))
		for _, size := range []uint64{g.log.head.Size, rapid.Uint64Range(1, g.log.head.Size).Draw(t, "size")} {
			v, err := f.View(size)
			require.NoError(t, err)
			runs := g.naive.group("model", "m", false, size)
			got, found, err := groups.Get(t.Context(), v, groups.RunQuery{Value: records.Value{Name: "model", Text: "m"}, AnyState: false})
			require.NoError(t, err)
			require.Equal(t, len(runs) > 0, found)
			if found {
				requireGroup(t, naiveGroup("m", runs), got)
			}
			require.NoError(t, v.Close())
		}
	})
}

// Changing the state of one more run reads only a few keys. The cost depends neither on how many
// runs of the group are dead nor on the order in which they died. The same holds if runs become
// live again.
func TestCostOfDeadRunsIsBounded(t *testing.T) {
	const runs, groups = 3000, 6
	order := rand.New(rand.NewPCG(3, 3)).Perm(runs)
	orders := map[string]func(n int) int{
		"oldest first": func(n int) int { return n },
		"newest first": func(n int) int { return runs - 1 - n },
		"random order": func(n int) int { return order[n] },
	}
	for name, nth := range orders {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var bodies []string
			for n := range runs {
				output := "half of them"
				if n%2 == 1 {
					output = fmt.Sprint("two of them ", n/4)
				}
				bodies = append(bodies, runBody(t, "m", output, "")) // events 1 and later
			}
			f, log := foldBodies(t, bodies...)
			before := 0
			for _, state := range []string{"quarantined", "live"} {
				for n := range runs {
					log.append(stateOf(uint64(1+nth(n)), state))
					if n%500 != 499 {
						continue
					}
					log.catchUp(f)
					require.LessOrEqual(t, f.CurrentFold().KeysRead-before, 500*groups*10, "%s, run %d", state, n)
					before = f.CurrentFold().KeysRead
				}
			}
			require.Equal(t, uint64(runs), groupOfModel(t, viewOf(t, f, log.head.Size), "m").Runs)
			require.Empty(t, deadRangesOf(t, log.index, rowstore.IdentityOf([]byte("model"), []byte("m"))))
		})
	}
}

// The neighbours of a run in its group are found even if there are many records between them that
// are not runs.
func TestNeighboursBeyondOtherRecords(t *testing.T) {
	bodies := []string{runBody(t, "m", "yes", ""), runBody(t, "m", "no", "")}           // events 1, 2
	incomplete := `{"payload":{"q":"why?"},"model":"m","temperature":0,"max_tokens":9}` // an IPC record that is not a run
	for range 1000 {
		bodies = append(bodies, posted(t, record.KindIPCRecord, incomplete))
	}
	f, log := foldBodies(t, append(bodies, runBody(t, "m", "yes", ""), stateOf(2, "failed"))...) // events 1003, 1004
	require.Less(t, f.CurrentFold().KeysRead, 200)
	g := groupOfModel(t, viewOf(t, f, log.head.Size), "m")
	require.Equal(t, []uint64{2, 0, 1, 1003}, []uint64{g.Runs, g.Flips, g.FirstRun.Seq, g.LastRun.Seq})
}
