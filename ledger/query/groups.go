package query

import (
	"cmp"
	"context"
	"strings"

	"colophon/client/wire"
	"colophon/ledger/index"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/records"
	"colophon/ledger/index/runs"
)

// groupQuestions lists the questions about groups of runs (spec: Groups; Runs).
var groupQuestions = []Question{
	{Path: "/drift/groups", SharedParameters: PageParameters | StateParameter | ProofsParameter | NamesParameter, ParameterNames: []string{"by", "since", "until", "sort", "min_runs", "min_outputs"},
		RequiresHead: usesRanking, RefusalReasons: map[string]string{"seeded": "group counts include runs without a seed; " +
			"to list the seeded runs of a group, use this parameter with /drift/groups/{by}/{value}"}, ParseParameters: askWith(parseGroups, Groups)},
	{Path: "/drift/groups/:by/:value", SharedParameters: PageParameters | StateParameter | ProofsParameter | SeededParameter | NamesParameter, SecondCursorParameter: "outputs_cursor", ParseParameters: askWith(groupInPath, GroupDetail)},
}

// GroupsQuery selects and orders groups of runs.
type GroupsQuery struct {
	groups.Query
	// Ranking is the order of the groups; it exists only for the latest tree size. If it is nil, the groups are sorted
	// by first run, newest first.
	Ranking *groups.Ranking
}

// rankings maps each value of the sort parameter to its ranking.
var rankings = map[string]groups.Ranking{
	"recent": groups.RankingByLastRun, "runs": groups.RankingByRuns, "flips": groups.RankingByFlips, "stability": groups.RankingByStability,
}

func parseGroups(p Parameters) (q GroupsQuery, err error) {
	q.GroupBy = p["by"]
	if err := checkGrouping(q.GroupBy); err != nil {
		return q, err
	}
	if q.MinRuns, _, err = p.ParseUint("min_runs"); err != nil {
		return q, err
	}
	if q.MinOutputs, _, err = p.ParseUint("min_outputs"); err != nil {
		return q, err
	}
	if q.TimeRange, err = p.bounds(); err != nil {
		return q, err
	}
	sort := cmp.Or(p["sort"], impliedSort(p))
	if sort == "" {
		return q, nil
	}
	ranking, known := rankings[sort]
	if !known {
		return q, invalid("sort", `must be "recent", "runs", "flips", or "stability"`)
	}
	if p["state"] == "any" {
		return q, invalid("state", `must be "live" if the parameter "sort" is given, because only live runs are ranked`)
	}
	q.Ranking = &ranking
	return q, nil
}

// checkGrouping returns an error if runs cannot be grouped by the given name.
func checkGrouping(by string) error {
	if !groups.IsValidGrouping(by) {
		last := len(groupings) - 1
		return invalid("by", "must be %s or %s", strings.Join(groupings[:last], ", "), groupings[last])
	}
	return nil
}

// usesRanking reports whether the groups are listed in the order of a ranking, either because the request asks for
// one or because its other parameters imply one.
func usesRanking(p Parameters) bool { return p["sort"] != "" || impliedSort(p) != "" }

// impliedSort returns the sort order whose ranking finds the requested groups without reading all the others, or ""
// if there is none. Rankings exist only for the head, so impliedSort also returns "" for a request or a cursor at
// another size.
func impliedSort(p Parameters) string {
	size, _, _ := decodeCursor(p["cursor"])
	several := func(name string) bool {
		n, _, err := p.ParseUint(name)
		return err == nil && n > 1
	}
	switch {
	case p.Has("sort") || p.Has("as_of") || p["state"] == "any" || size != headSize:
		return ""
	case p["since"] != "" || p["until"] != "":
		return "recent"
	case several("min_outputs"):
		return "stability"
	case several("min_runs"):
		return "runs"
	}
	return ""
}

// Groups lists the groups of runs that a query selects.
func Groups(v *View, q GroupsQuery) (*wire.RunPage[wire.RunGroup], error) {
	q.AnyState = v.AnyState
	list := groups.List
	if q.Ranking != nil {
		list = func(ctx context.Context, view *index.View, of groups.Query, p index.PageRequest) ([]groups.Group, []byte, error) {
			return groups.ListRanked(ctx, view, *q.Ranking, of, p)
		}
	}
	found, next, err := list(v.Context, v.View, q.Query, v.Page)
	if err != nil {
		return nil, err
	}
	return runPage(v, found, next, func(v *View, g *groups.Group) wire.RunGroup { return groupRow(v, q.GroupBy, g) })
}

func groupRow(v *View, by string, g *groups.Group) wire.RunGroup {
	return wire.RunGroup{
		RowMembers: v.row(g.LastRun.Seq), By: by, Value: g.Value, Name: v.groupName(by, g.FirstRun.Seq, g.LastRun.Seq), Runs: g.Runs, DistinctOutputs: g.Outputs,
		Stability: wire.Decimal(float64(g.MostCommonOutputRuns) / float64(g.Runs)), EntropyBits: wire.Decimal(g.Entropy), Flips: g.Flips,
		FirstRunSeq: g.FirstRun.Seq, FirstRunTime: timeOf(g.FirstRun.Time), LastRunSeq: g.LastRun.Seq, LastRunTime: timeOf(g.LastRun.Time),
	}
}

func groupInPath(p Parameters) (records.Value, error) {
	return records.Value{Name: p["by"], Text: p["value"]}, checkGrouping(p["by"])
}

// GroupDetail returns one group with a page of its outputs and a page of its runs.
func GroupDetail(v *View, value records.Value) (*wire.GroupAnswer, error) {
	q := groups.RunQuery{Value: value, AnyState: v.AnyState, SeededOnly: v.SeededOnly}
	group, ok, err := groups.Get(v.Context, v.View, q)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, noRuns(v, q)
	}
	outputs, outputsNext, err := groups.ListOutputs(v.Context, v.View, q, v.SecondPage)
	if err != nil {
		return nil, err
	}
	found, next, err := runs.List(v.Context, v.View, q, v.Page)
	if err != nil {
		return nil, err
	}
	answer := &wire.GroupAnswer{
		Group: groupRow(v, q.Name, &group),
		Outputs: rowsOf(v, outputs, func(v *View, o *groups.Output) wire.GroupOutput {
			return wire.GroupOutput{RowMembers: v.row(o.Seq), OutputHash: o.Hash, Name: v.textName(o.Seq, records.NameOutputHash), Runs: o.Runs, Share: wire.Decimal(float64(o.Runs) / float64(group.Runs))}
		}),
		OutputsNext: v.next(outputsNext),
	}
	members, err := page(v, found, next, func(v *View, r *runs.Run) wire.GroupMember {
		return wire.GroupMember{Generation: generation(v, &r.IPCRecord), State: wire.State(r.State)}
	})
	answer.Page = *members
	return answer, err
}

// noRuns returns the error for a group that has no runs in the requested states. The error says whether the group has
// runs in other states.
func noRuns(v *View, q groups.RunQuery) error {
	q.AnyState = true
	if _, found, err := groups.Get(v.Context, v.View, q); err != nil {
		return err
	} else if found {
		return missing("no live runs have the given value; use state=any to include runs that are not live")
	}
	if q.Name == records.NameIPCID {
		return missing("no runs have the given value; a record without a system prompt, an output, a temperature, max_tokens or a seed " +
			"has no ipc_id unless it claims one (/records?incomplete=seed lists the records without a seed)")
	}
	return missing("no runs have the given value; a run is an IPC record with an input and an output (/records also lists IPC records that are not runs)")
}
