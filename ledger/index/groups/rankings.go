package groups

import (
	"encoding/binary"
	"math"
	"math/bits"

	"colophon/internal/bloom"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
)

// Ranking is an order of groups. The index stores it only for the current head. The numeric values
// are stored, so they must not change.
type Ranking byte

// Rankings contain only groups with several runs. ListRanked appends the other groups.
const (
	// RankingByLastRun orders groups by their last live run, latest first. It contains groups that have
	// several runs in any state, at least one of them live.
	RankingByLastRun Ranking = iota
	// RankingByRuns orders groups with several live runs by the number of these runs, largest
	// first.
	RankingByRuns
	// RankingByFlips orders groups with flips by the number of flips, largest first.
	RankingByFlips
	// RankingByStability orders groups with several outputs by the share of runs with the most common
	// output, smallest first.
	RankingByStability
	rankingCount
)

// scores holds a group's score in each ranking. A lower score comes first. notRanked means that the
// group is not in the ranking.
type scores [rankingCount]uint64

const notRanked = math.MaxUint64

// scores computes the scores from the tally of live runs.
func (g *Version) scores() scores {
	s := scores{notRanked, notRanked, notRanked, notRanked}
	t := &g.LiveTally
	if g.AllTally.Runs > 1 && t.Runs > 0 {
		s[RankingByLastRun] = notRanked - t.LastSeq
	}
	if t.Runs > 1 {
		s[RankingByRuns] = notRanked - t.Runs
	}
	if t.flips > 0 {
		s[RankingByFlips] = notRanked - t.flips
	}
	if t.outputs > 1 {
		// For fewer than 2³² runs, different shares have different scores.
		s[RankingByStability], _ = bits.Div64(t.mostCommon, 0, t.Runs)
	}
	return s
}

type rankState struct {
	// changed lists the groups that must be ranked again because they changed at or after since.
	// Usually, since is the seq of the first event in the batch. If ranking is deferred over
	// several batches, it is the seq of the first event in the first batch.
	changed []change
	since   uint64
	filter  *bloom.Filter // nil until its first use
	// filterHasOutputs is true if the filter covers the rows of outputs. That is the case only if
	// there were no groups when the fold began, because an existing index can have too many rows to
	// load.
	filterHasOutputs bool
	run              run // scratch
}

// change is a changed group with the scores under which it is stored in the rankings.
type change struct {
	records.Posting
	before scores
}

// noteChange records the scores of a group when it changes for the first time since it was last
// ranked. A new group is recorded when its second run joins, because until then it is in no
// ranking.
func (r *rankState) noteChange(p records.Posting, g *Version, joins bool) {
	switch {
	case g.AllTally.Runs == 0:
	case g.seq < r.since, joins && g.AllTally.Runs == 1 && g.AllTally.first >= r.since:
		r.changed = append(r.changed, change{p, g.scores()})
	}
}

// BeginBatch implements index.Deferrer.
func (f *Deriver) BeginBatch(from uint64) { f.runs.since = from }

// PendingCount implements index.Deferrer. It returns the number of groups that must be ranked.
func (f *Deriver) PendingCount() int { return len(f.runs.changed) }

// UnrankedGroups returns the groups that have yet to be ranked, without duplicates. Only tests use
// it.
func (f *Deriver) UnrankedGroups() (groups []rowstore.Identity) {
	for _, c := range f.runs.changed {
		groups = append(groups, c.ID)
	}
	return groups
}

// Release implements index.Releaser.
func (f *Deriver) Release() {
	if f.runs.filter != nil {
		f.runs.filter.Release()
	}
}

// FlushPending implements index.Deferrer. It ranks the given number of groups.
func (f *Deriver) FlushPending(count int) {
	left := len(f.runs.changed) - count
	for _, c := range f.runs.changed[left:] {
		g := f.newestGroup(c.ID)
		for i, score := range g.scores() {
			if score == c.before[i] {
				continue
			}
			if c.before[i] != notRanked {
				f.value = rankKey(f.Rows.Keyspace, f.value[:0], c.Grouping, Ranking(i), c.before[i], g.AllTally.first)
				f.Rows.SingleDelete(f.value)
			}
			if score != notRanked {
				f.value = rankKey(f.Rows.Keyspace, f.value[:0], c.Grouping, Ranking(i), score, g.AllTally.first)
				f.Rows.Set(f.value, nil)
			}
		}
	}
	f.runs.changed = f.runs.changed[:left]
}

// rankingKey returns the key prefix that all groups of a family share in one ranking.
func rankingKey(k rowstore.Keyspace, dst []byte, family rowstore.Identity, r Ranking) []byte {
	return append(append(k.AppendPrefix(dst, rankings), family[:]...), byte(r))
}

// rankKey returns the key of a group in one ranking of its family. The key ends with the group's
// first run, by which the group can be looked up in families.
func rankKey(k rowstore.Keyspace, dst []byte, family rowstore.Identity, r Ranking, score, first uint64) []byte {
	return rowstore.AppendVersion(binary.BigEndian.AppendUint64(rankingKey(k, dst, family, r), score), first)
}
