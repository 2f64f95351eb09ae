package indextest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/drift"
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/effects"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/records"
	questions "colophon/ledger/index/runs"
	"colophon/ledger/record"
	"colophon/ledger/record/members"
)

func sha256Hex(t tester, text string) string {
	t.Helper()
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// naiveGroup returns the group of the given runs (spec: Groups). The list of runs can be empty.
func naiveGroup(value string, runs []naiveGeneration) groups.Group {
	g := groups.Group{Value: value, Runs: uint64(len(runs))}
	counts := make(map[string]uint64)
	for i, r := range runs {
		counts[r.hashes["output_hash"]]++
		if i > 0 && r.hashes["output_hash"] != runs[i-1].hashes["output_hash"] {
			g.Flips++
		}
	}
	for _, count := range counts {
		share := float64(count) / float64(len(runs))
		g.Entropy -= share * math.Log2(share)
		g.MostCommonOutputRuns = max(g.MostCommonOutputRuns, count)
	}
	g.Outputs = uint64(len(counts))
	if len(runs) > 0 {
		g.FirstRun = groups.TimedEvent{Seq: runs[0].seq, Time: runs[0].time}
		g.LastRun = groups.TimedEvent{Seq: runs[len(runs)-1].seq, Time: runs[len(runs)-1].time}
	}
	return g
}

// cause compares two runs as of the given size. It returns the cause (spec: Causes) and the names
// of the variables that differ.
func (n *naiveGenerations) cause(a, b *naiveGeneration, size uint64) (cause string, differing []string) {
	counted := 0
	for _, name := range []string{"input", "system_prompt", "model", "temperature", "max_tokens", "seed",
		"ollama_build_hash", "host_platform", "model_digest"} {
		of, knownA := a.values[name]
		and, knownB := b.values[name]
		if name == "input" && (!a.hasPayload || !b.hasPayload || a.values["input_hash"] == b.values["input_hash"]) {
			of, and = a.values["input_hash"], b.values["input_hash"]
		}
		environment := slices.Contains([]string{"ollama_build_hash", "host_platform", "model_digest"}, name)
		if of == and && knownA == knownB || environment && !(knownA && knownB) {
			continue
		}
		differing = append(differing, name)
		if name != "model_digest" || a.values["model"] == b.values["model"] {
			counted++
		}
	}
	evidenceA, hasA := n.evidence(a, size)
	evidenceB, hasB := n.evidence(b, size)
	if hasA && hasB && !slices.Equal(evidenceA, evidenceB) {
		differing = append(differing, "evidence")
		counted++
	}
	_, seeded := a.values["seed"]
	_, digestA := a.values["model_digest"]
	_, digestB := b.values["model_digest"]
	switch same := a.hashes["output_hash"] == b.hashes["output_hash"]; {
	case !a.isRun() || !b.isRun():
		return "incomplete", differing
	case same && counted == 0:
		return "identical", differing
	case same:
		return "no_effect", differing
	case counted > 1:
		return "confounded", differing
	case counted == 1 && differing[0] == "model_digest":
		return "model_internal", differing
	case counted == 1:
		return differing[0], differing
	case !seeded:
		return "unseeded", differing
	case digestA && digestB:
		return "stochastic", differing
	}
	return "stochastic_or_model_internal", differing
}

// requireGroup fails the test unless two groups are equal. Entropies can differ by up to 1e-7,
// because an answer shows only six decimals.
func requireGroup(t tester, want, got groups.Group) {
	t.Helper()
	require.InDelta(t, want.Entropy, got.Entropy, 1e-7)
	want.Entropy, got.Entropy = 0, 0
	want.FirstRun.Time, want.LastRun.Time = want.FirstRun.Time.UTC(), want.LastRun.Time.UTC()
	require.Equal(t, want, got)
}

func requireGroups(t tester, want, got []groups.Group) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		requireGroup(t, want[i], got[i])
	}
}

var groupNames = []string{"ipc_id", "input", "input_hash", "system_prompt_hash", "output_hash", "model", "ollama_build_hash", "label:step", "label:where", "label:none"}

// runsUnderTest is a random log of runs, and a view of its index.
type runsUnderTest struct {
	*generations
	view     *index.View
	follower *index.Follower
	store    *index.Store
	size     uint64 // number of events in view
	any      bool
	seeded   bool
	limit    int
}

func drawRunsUnderTest(t *rapid.T, check func(*runsUnderTest)) {
	u := &runsUnderTest{generations: newGenerations(t)}
	c := testConfig(vfs.NewMem())
	c.MaxBatchEvents = rapid.IntRange(1, 50).Draw(t, "batch")
	c.RowCacheBytes = rapid.IntRange(0, 2000).Draw(t, "kept")
	u.append(25)
	s := openTest(t, c)
	u.log.catchUp(follow(t, s, u.log))
	require.NoError(t, s.Close())

	u.append(25)
	s = openTest(t, c)
	defer func() { require.NoError(t, s.Close()) }()
	f := follow(t, s, u.log)
	u.log.catchUp(f)
	u.size, u.any, u.limit = drawSize(t, u.log), rapid.Bool().Draw(t, "any"), rapid.IntRange(1, 5).Draw(t, "limit")
	u.seeded = rapid.Bool().Draw(t, "seeded")
	view, err := f.View(u.size)
	require.NoError(t, err)
	defer func() { require.NoError(t, view.Close()) }()
	u.view, u.follower, u.store = view, f, s
	check(u)
}

// query returns a random query for groups. It also returns the groups that the query must find
// according to the model, newest first.
func (u *runsUnderTest) query() (groups.Query, []groups.Group) {
	q := groups.Query{
		GroupBy: rapid.SampledFrom(groupNames).Draw(u.T, "by"), AnyState: u.any,
		MinRuns: rapid.Uint64Range(0, 3).Draw(u.T, "min_runs"), MinOutputs: rapid.Uint64Range(0, 2).Draw(u.T, "min_outputs"),
		TimeRange: index.TimeRange{Since: drawMoment(u.T, u.log, "since"), Until: drawMoment(u.T, u.log, "until")},
	}
	var want []groups.Group
	for _, value := range u.naive.groupsBy(q.GroupBy, u.size) {
		g := naiveGroup(value, u.naive.group(q.GroupBy, value, q.AnyState, u.size))
		if g.Runs > 0 && g.Runs >= q.MinRuns && g.Outputs >= q.MinOutputs &&
			(q.Since == nil || !g.LastRun.Time.Before(*q.Since)) && (q.Until == nil || g.LastRun.Time.Before(*q.Until)) {
			want = append(want, g)
		}
	}
	return q, want
}

func TestGroupsEqualModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawRunsUnderTest(t, func(u *runsUnderTest) {
			q, want := u.query()
			requireGroups(t, want, pages(t, u.limit, func(p index.PageRequest) ([]groups.Group, []byte, error) {
				return groups.List(t.Context(), u.view, q, p)
			}))
		})
	})
}

func TestRankedGroupsEqualModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawRunsUnderTest(t, func(u *runsUnderTest) {
			ranking := rapid.SampledFrom([]groups.Ranking{groups.RankingByLastRun, groups.RankingByRuns, groups.RankingByFlips, groups.RankingByStability}).Draw(t, "ranking")
			q, want := u.query()
			list := func(p index.PageRequest) ([]groups.Group, []byte, error) {
				return groups.ListRanked(t.Context(), u.view, ranking, q, p)
			}
			if q.AnyState || u.size < u.log.head.Size {
				_, _, err := list(index.PageRequest{Limit: 1})
				require.ErrorIs(t, err, groups.ErrNotRanked)
				return
			}
			got := pages(t, u.limit, list)
			score := func(g groups.Group) float64 {
				return []float64{float64(g.LastRun.Seq), float64(g.Runs), float64(g.Flips), -float64(g.MostCommonOutputRuns) / float64(g.Runs)}[ranking]
			}
			require.True(t, slices.IsSortedFunc(got, func(a, b groups.Group) int { return cmp.Compare(score(b), score(a)) }))
			byValue := func(a, b groups.Group) int { return cmp.Compare(a.Value, b.Value) }
			slices.SortFunc(want, byValue)
			slices.SortFunc(got, byValue)
			requireGroups(t, want, got)
		})
	})
}

func TestOneGroupEqualsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawRunsUnderTest(t, func(u *runsUnderTest) {
			by := rapid.SampledFrom(groupNames).Draw(t, "by")
			value := rapid.SampledFrom(append(u.naive.groupsBy(by, u.log.head.Size), "none")).Draw(t, "value")
			q := groups.RunQuery{Value: records.Value{Name: by, Text: value}, AnyState: u.any, SeededOnly: u.seeded}
			runs := u.naive.group(by, value, u.any, u.size)

			group, found, err := groups.Get(t.Context(), u.view, q)
			require.NoError(t, err)
			require.Equal(t, len(runs) > 0, found)
			if found {
				requireGroup(t, naiveGroup(value, runs), group)
			}
			u.checkOutputs(q, runs, u.naive.group(by, value, true, u.size))
			runs = slices.DeleteFunc(runs, u.isExcluded)
			u.checkRuns(q, runs)
			u.checkTimeline(q, runs)
		})
	})
}

// isExcluded reports whether only runs with a seed are wanted and r has none.
func (u *runsUnderTest) isExcluded(r naiveGeneration) bool { return u.seeded && r.values["seed"] == "" }

func (u *runsUnderTest) checkRuns(q groups.RunQuery, runs []naiveGeneration) {
	got := pages(u.T, u.limit, func(p index.PageRequest) ([]questions.Run, []byte, error) {
		return questions.List(u.Context(), u.view, q, p)
	})
	require.Len(u.T, got, len(runs))
	slices.Reverse(got)
	for i, r := range runs {
		u.checkRun(r, got[i])
	}
}

func (u *runsUnderTest) checkRun(want naiveGeneration, got questions.Run) {
	require.Equal(u.T, want.seq, got.Seq)
	require.True(u.T, want.time.Equal(got.Time))
	require.Equal(u.T, want.hashes["output_hash"], string(got.OutputHash))
	require.Equal(u.T, want.hashes["ipc_id"], string(got.IPCID))
	require.Equal(u.T, record.State(u.naive.stateAt(want.seq, u.size)), got.State)
}

// checkOutputs compares the listed outputs of a group with the model. runs contains the group's
// runs in the wanted states, and all contains its runs in any state.
func (u *runsUnderTest) checkOutputs(q groups.RunQuery, runs, all []naiveGeneration) {
	var want []groups.Output
	for _, first := range all {
		hash := first.hashes["output_hash"]
		if slices.ContainsFunc(all, func(r naiveGeneration) bool { return r.seq < first.seq && r.hashes["output_hash"] == hash }) {
			continue
		}
		o := groups.Output{Seq: first.seq, Hash: hash}
		for _, r := range runs {
			if r.hashes["output_hash"] == hash {
				o.Runs++
			}
		}
		if o.Runs > 0 {
			want = append([]groups.Output{o}, want...)
		}
	}
	require.Equal(u.T, want, pages(u.T, u.limit, func(p index.PageRequest) ([]groups.Output, []byte, error) {
		return groups.ListOutputs(u.Context(), u.view, q, p)
	}))
}

func (u *runsUnderTest) checkTimeline(q groups.RunQuery, runs []naiveGeneration) {
	got := pages(u.T, u.limit, func(p index.PageRequest) ([]questions.TimelineStep, []byte, error) {
		return questions.Timeline(u.Context(), u.view, q, p)
	})
	require.Len(u.T, got, len(runs))
	for i, r := range runs {
		u.checkRun(r, got[i].Run)
		if i == 0 {
			require.Nil(u.T, got[i].PreviousSeq)
			continue
		}
		require.Equal(u.T, runs[i-1].seq, *got[i].PreviousSeq)
		u.checkAttribution(&runs[i-1], &runs[i], u.size, got[i].RunChange.Cause, namesOf(got[i]))
		u.checkMembers(&runs[i-1], &runs[i], got[i].RunChange.Differences)
	}
}

func namesOf(s questions.TimelineStep) []string {
	var names []string
	for _, d := range s.Differences {
		names = append(names, d.Variable)
	}
	return names
}

// checkMembers compares the listed differences between the payload members of two runs with the
// model.
func (u *runsUnderTest) checkMembers(before, after *naiveGeneration, differences []drift.Difference) {
	var want, got []string
	if _, differing := u.naive.cause(before, after, u.size); slices.Contains(differing, "input") && before.members != nil && after.members != nil {
		all := maps.Clone(before.members)
		maps.Copy(all, after.members)
		for _, pointer := range slices.Sorted(maps.Keys(all)) {
			if a, b := before.members[pointer], after.members[pointer]; a != b {
				want = append(want, fmt.Sprintf("%s %s %s", pointer, a, b))
			}
		}
	}
	for _, d := range differences {
		for _, m := range d.Members {
			require.Equal(u.T, "input", d.Variable)
			got = append(got, fmt.Sprintf("%s %s %s", m.Pointer, m.DigestA, m.DigestB))
		}
	}
	require.Equal(u.T, want, got)
}

func (u *runsUnderTest) checkAttribution(before, after *naiveGeneration, size uint64, cause drift.Cause, differing []string) {
	wantCause, want := u.naive.cause(before, after, size)
	require.Equal(u.T, wantCause, string(cause))
	require.Equal(u.T, want, differing)
}

// Each run is compared with the latest earlier run with the same input that was then live. The
// cause of the difference is counted once, and it does not change as the log grows.
func TestDriftEqualsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawRunsUnderTest(t, func(u *runsUnderTest) {
			want := make(map[string]uint64)
			for _, r := range u.naive.records {
				if before := u.naive.before(r, r.seq); before != nil && r.isRun() {
					cause, _ := u.naive.cause(before, &r, r.seq)
					want[cause]++
				}
				if r.seq >= u.size {
					continue
				}
				d, found, err := questions.DriftOf(t.Context(), u.view, r.seq)
				require.NoError(t, err)
				before := u.naive.before(r, r.seq)
				require.Equal(t, before != nil && r.isRun(), found)
				if found {
					require.Equal(t, before.seq, d.PreviousSeq)
					u.checkAttribution(before, &r, r.seq, d.Cause, namesOf(questions.TimelineStep{RunChange: d.RunChange}))
				}
			}
			got := make(map[string]uint64)
			for s, n := range countsOf(u.follower) {
				if s.Metric == counters.MetricDrift && n > 0 {
					got[s.Labels[0]] = n
				}
			}
			require.Equal(t, want, got)
		})
	})
}

// before returns the last run before r that has the same input and is live as of the given size, or
// nil if there is none.
func (n *naiveGenerations) before(r naiveGeneration, size uint64) *naiveGeneration {
	var last *naiveGeneration
	for i, b := range n.records {
		if b.seq < r.seq && b.isRun() && b.values["input"] == r.values["input"] && n.stateAt(b.seq, size) == "live" {
			last = &n.records[i]
		}
	}
	return last
}

func TestEffectsEqualModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawRunsUnderTest(t, func(u *runsUnderTest) {
			variable := rapid.SampledFrom(append(effects.Variables[:], "temperature", "temperature", "model", "ollama_build_hash", "label:step", "label:where", "label:none", "/q", "/a", "/a", "/b~1~0", "/b~1~0", "/seed", "/m7")).Draw(t, "variable")
			name := variable
			if variable == "system_prompt_hash" {
				name = "system_prompt"
			}
			values := rapid.Permutation(u.naive.valuesOf(name)).Draw(t, "values")
			for i := range values[:2] {
				if variable[0] == '/' && !members.IsDigest([]byte(values[i])) { // made-up words are not digests
					values[i] = fmt.Sprintf("%032x", i)
				}
			}
			q := effects.Query{Variable: variable, AnyState: u.any, SeededOnly: u.seeded, A: values[0], B: values[1]}
			want := u.effects(name, q)
			got := make(map[[2]uint64]bool)
			for _, pair := range pages(t, u.limit, func(p index.PageRequest) ([]effects.Pair, []byte, error) {
				return effects.ListPairs(t.Context(), u.view, q, p)
			}) {
				key := [2]uint64{pair.A.Seq, pair.B.Seq}
				require.NotContains(t, got, key)
				got[key] = pair.OutputChanged
				require.Equal(t, pair.OutputChanged, string(pair.A.OutputHash) != string(pair.B.OutputHash))
			}
			require.Equal(t, want, got)
			totals := effects.Totals{TreeSize: u.size}
			for _, changed := range want {
				totals.Pairs++
				if changed {
					totals.ChangedPairs++
				} else {
					totals.UnchangedPairs++
				}
			}
			gotTotals, err := effects.CountPairs(t.Context(), u.view, q, nil)
			require.NoError(t, err)
			require.Equal(t, totals, gotTotals)
			first, err := effects.FirstPage(t.Context(), u.view, q, 1000)
			require.NoError(t, err)
			require.Equal(t, totals, first.Totals)
			require.False(t, first.HasMore)
			for _, pair := range first.Seqs {
				require.Contains(t, want, pair)
			}
			require.Len(t, first.Seqs, len(want))
			other, err := u.follower.View(drawSize(t, u.log))
			require.NoError(t, err)
			defer func() { require.NoError(t, other.Close()) }()
			known, err := effects.CountPairs(t.Context(), other, q, nil)
			require.NoError(t, err)
			gotTotals, err = effects.CountPairsFrom(t.Context(), u.view, q, known)
			require.NoError(t, err)
			require.Equal(t, totals, gotTotals)
			require.Equal(t, u.size, u.view.Size())
		})
	})
}

// valuesOf returns the sorted values of a variable in the records. If there are fewer than two, it adds
// made-up ones.
func (n *naiveGenerations) valuesOf(name string) []string {
	values := make(map[string]bool)
	for _, r := range n.records {
		if value, ok := r.values[name]; ok {
			values[value] = true
		}
	}
	for _, none := range []string{"none", "neither"} {
		if len(values) < 2 {
			values[none] = true
		}
	}
	return slices.Sorted(maps.Keys(values))
}

// effects returns the pairs of runs that the model finds for a query, keyed by their seqs. The
// value is true if the output changed.
func (u *runsUnderTest) effects(name string, q effects.Query) map[[2]uint64]bool {
	others := []string{"input_hash", "system_prompt", "model", "temperature", "max_tokens", "seed"}
	if name == "seed" || name == "input" {
		others[0] = "input"
	}
	isMember := strings.HasPrefix(name, "/")
	if isMember {
		others = others[1:]
	}
	others = slices.DeleteFunc(others, func(other string) bool { return other == name })
	sides := make(map[string][2][]naiveGeneration)
	for _, r := range u.naive.runs(q.AnyState, u.size) {
		value, given := r.values[name]
		at := slices.Index([]string{q.A, q.B}, value)
		if !given || at < 0 || u.isExcluded(r) {
			continue
		}
		var combination []string
		if isMember {
			but := maps.Clone(r.members)
			delete(but, name)
			combination = append(combination, fmt.Sprint(but))
		}
		for _, other := range others {
			value, given := r.values[other]
			combination = append(combination, fmt.Sprint(value, given))
		}
		key := strings.Join(combination, ", ")
		both := sides[key]
		both[at] = append(both[at], r)
		sides[key] = both
	}
	pairs := make(map[[2]uint64]bool)
	for _, both := range sides {
		for k := range min(len(both[0]), len(both[1])) {
			a, b := both[0][k], both[1][k]
			pairs[[2]uint64{a.seq, b.seq}] = a.hashes["output_hash"] != b.hashes["output_hash"]
		}
	}
	return pairs
}

// With batches and caches of any size, the rows equal those of one uninterrupted fold.
func TestRunsRefold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawRunsUnderTest(t, func(u *runsUnderTest) {
			requireSame(t, u.log.refold(), dump(t, u.store))
		})
	})
}
