package main

import (
	"fmt"
	"slices"
	"time"

	"colophon/bench/contestant"
)

// target is a ratio of two measured figures, and the limit that the ratio must meet. Ratio is the
// median over all rounds.
type target struct {
	What    string  `json:"what"`
	Ratio   float64 `json:"ratio"`
	Lowest  float64 `json:"lowest"`
	Highest float64 `json:"highest"`
	// AtLeast is the lower limit of the ratio. If it is 0, AtMost is the upper limit.
	AtLeast float64 `json:"at_least,omitempty"`
	AtMost  float64 `json:"at_most,omitempty"`
}

func (t target) met() bool {
	if t.AtLeast > 0 {
		return t.Ratio >= t.AtLeast
	}
	return t.Ratio <= t.AtMost
}

func (t target) String() string {
	verdict, bound := "missed", fmt.Sprintf("at least %g", t.AtLeast)
	if t.AtLeast == 0 {
		bound = fmt.Sprintf("at most %g", t.AtMost)
	}
	if t.met() {
		verdict = "met"
	}
	return fmt.Sprintf("%s: %.2f × (%.2f–%.2f; %s: %s)", t.What, t.Ratio, t.Lowest, t.Highest, bound, verdict)
}

// of returns a copy of t with the median, the lowest, and the highest of the given ratios.
func (t target) of(ratios ...float64) target {
	t.Ratio, t.Lowest, t.Highest = median(ratios), slices.Min(ratios), slices.Max(ratios)
	return t
}

// ratios divides a figure of row a by the same figure of row b, for each round.
func ratios(a, b *summary, figure func(*contestant.Measurement) float64) []float64 {
	list := make([]float64, len(a.Rounds))
	for i := range list {
		list[i] = figure(&a.Rounds[i]) / figure(&b.Rounds[i])
	}
	return list
}

func rate(m *contestant.Measurement) float64 { return m.Rate }

func p50(m *contestant.Measurement) float64 { return m.P50 }

// summaries maps the names of rows to their results.
type summaries map[string]*summary

// targets returns the targets for every build of Colophon. It omits targets whose rows were not
// measured.
func targets(r *report) (list []target) {
	rows := make(summaries)
	var builds []string
	for _, s := range r.Rows {
		rows[s.Row.name()] = s
		if build := s.Row.Contestant; s.Row.Way == "http" && build != "tessera" && !slices.Contains(builds, build) {
			builds = append(builds, build)
		}
	}
	for _, build := range builds {
		list = append(list, rows.singleTargets(build, min(r.Before.P50, r.After.P50))...)
		list = append(list, rows.batchTargets(build)...)
	}
	return append(list, proofTargets(r.Proofs)...)
}

// singleTargets returns the targets that compare single posts with Tessera and with the duration of
// a sync.
func (rows summaries) singleTargets(build string, sync time.Duration) (list []target) {
	const theirs = "tessera/http/single/"
	ours := build + "/http/single/"
	if a, b := rows[ours+"64"], rows[theirs+"64"]; a != nil && b != nil {
		list = append(list,
			target{What: build + ", single posts, 64 connections, over Tessera behind net/http", AtLeast: 1}.of(ratios(a, b, rate)...),
			target{What: build + ", the same: p50", AtMost: 1}.of(ratios(a, b, p50)...))
	}
	if a, b := rows[ours+"512"], rows[theirs+"512"]; a != nil && b != nil {
		list = append(list, target{What: build + ", single posts, 512 connections, over Tessera behind net/http", AtLeast: 0.9}.of(ratios(a, b, rate)...))
	}
	if s := rows[ours+"1"]; s != nil {
		syncs := make([]float64, len(s.Rounds))
		for i, m := range s.Rounds {
			syncs[i] = m.P50 * float64(time.Millisecond) / float64(sync)
		}
		list = append(list, target{What: build + ", single posts, 1 connection: p50 over that of a sync", AtMost: 4}.of(syncs...))
	}
	return list
}

// batchTargets returns the targets that compare batches with in-process Tessera. One target uses
// full receipts, at the number of connections with the highest rate. Another uses minimal receipts.
func (rows summaries) batchTargets(build string) (list []target) {
	raw := rows["tessera/process/single/8192"]
	if raw == nil {
		return nil
	}
	var fastest *summary
	for _, clients := range batchClients {
		s := rows[fmt.Sprintf("%s/http/batch/%d", build, clients)]
		if s != nil && (fastest == nil || s.Median.Rate > fastest.Median.Rate) {
			fastest = s
		}
	}
	if fastest != nil {
		what := fmt.Sprintf("%s, batches with full receipts (%d connections), over Tessera's raw appends in process", build, fastest.Row.Clients)
		list = append(list, target{What: what, AtLeast: 0.75}.of(ratios(fastest, raw, rate)...))
	}
	if s := rows[build+"/http/batch-minimal/64"]; s != nil {
		list = append(list, target{What: build + ", batches with minimal receipts (64 connections), likewise", AtLeast: 0.75}.of(ratios(s, raw, rate)...))
	}
	return list
}
