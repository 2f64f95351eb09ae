package groups

import (
	"encoding/binary"
	"math"
	"math/bits"

	"colophon/internal/bloom"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
)

// Ranking is one of the orders that groups are kept in, for the present only.
// Numbers are stored.
type Ranking byte

// The rankings. Only groups of several runs can be in them; lists go on with all others.
const (
	// RankedRecent is by the last live run, of groups that have had several runs.
	RankedRecent Ranking = iota
	// RankedRuns is by the number of live runs, where there are several.
	RankedRuns
	// RankedFlips is by the number of flips, where there are any.
	RankedFlips
	// RankedStability is by the share of the commonest output, the least first,
	// where there are several outputs.
	RankedStability
	rankingCount
)

// scores are where a group stands in the rankings: the lowest comes first. A group
// is not in those where it has notRanked.
type scores [rankingCount]uint64

const notRanked = math.MaxUint64

// scores follow from what is known of the live runs.
func (g *Version) scores() scores {
	s := scores{notRanked, notRanked, notRanked, notRanked}
	t := &g.Live
	if g.All.Runs > 1 && t.Runs > 0 {
		s[RankedRecent] = notRanked - t.Last
	}
	if t.Runs > 1 {
		s[RankedRuns] = notRanked - t.Runs
	}
	if t.flips > 0 {
		s[RankedFlips] = notRanked - t.flips
	}
	if t.outputs > 1 {
		// Different shares of less than 2³² runs differ.
		s[RankedStability], _ = bits.Div64(t.commonest, 0, t.Runs)
	}
	return s
}

// runsFold is what the fold of runs keeps in memory. It belongs to the follower's
// goroutine.
type runsFold struct {
	// changed are the groups that have changed since an event, and are not ranked yet: by
	// the batch, which begins there, or by many, if they are ranked later.
	changed []change
	since   uint64
	filter  *bloom.Filter // nil until it is first wanted
	// filterHasOutputs: the rows of outputs are among what is known, for there was no group when
	// the fold began. They are too many to be read.
	filterHasOutputs bool
	run              run // scratch
}

// change is a group as it is ranked, and the scores that it has there.
type change struct {
	records.Posting
	before scores
}

// changes notes, once, what a group is before the first change since it was ranked; one
// that is new since, when its second run joins: until then it is in no ranking.
func (r *runsFold) changes(p records.Posting, g *Version, joins bool) {
	switch {
	case g.All.Runs == 0:
	case g.seq < r.since, joins && g.All.Runs == 1 && g.All.first >= r.since:
		r.changed = append(r.changed, change{p, g.scores()})
	}
}

// BeginBatch implements Deferring.
func (f *Deriver) BeginBatch(from uint64) { f.runs.since = from }

// Pending implements Deferring: it is the number of groups that are not ranked.
func (f *Deriver) Pending() int { return len(f.runs.changed) }

// Changed are the groups that wait to be ranked, each once; for tests.
func (f *Deriver) Changed() (groups []rowstore.Identity) {
	for _, c := range f.runs.changed {
		groups = append(groups, c.ID)
	}
	return groups
}

// Release implements Releaser.
func (f *Deriver) Release() {
	if f.runs.filter != nil {
		f.runs.filter.Release()
	}
}

// FlushPending implements Deferring: it brings so many of the groups that have changed to
// where they stand now.
func (f *Deriver) FlushPending(count int) {
	left := len(f.runs.changed) - count
	for _, c := range f.runs.changed[left:] {
		g := f.newestGroup(c.ID)
		for i, score := range g.scores() {
			if score == c.before[i] {
				continue
			}
			if c.before[i] != notRanked {
				f.value = rankKey(f.Rows.Keys, f.value[:0], c.Family, Ranking(i), c.before[i], g.All.first)
				f.Rows.SingleDelete(f.value)
			}
			if score != notRanked {
				f.value = rankKey(f.Rows.Keys, f.value[:0], c.Family, Ranking(i), score, g.All.first)
				f.Rows.Set(f.value, nil)
			}
		}
	}
	f.runs.changed = f.runs.changed[:left]
}

// rankingKey is the beginning of the keys of a family's groups in one order.
func rankingKey(k rowstore.Keyspace, dst []byte, family rowstore.Identity, r Ranking) []byte {
	return append(append(k.Key(dst, rankings), family[:]...), byte(r))
}

// rankKey is the key of a group in one order of its family. It ends as that of the group in
// the list of its family does: that leads to the group.
func rankKey(k rowstore.Keyspace, dst []byte, family rowstore.Identity, r Ranking, score, first uint64) []byte {
	return rowstore.AppendVersion(binary.BigEndian.AppendUint64(rankingKey(k, dst, family, r), score), first)
}
