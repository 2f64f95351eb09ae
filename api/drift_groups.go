package api

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"colophon/ledger/index"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/runs"
	"colophon/ledger/record"
)

// decimals is a number that JSON shows with six decimals.
type decimals float64

// MarshalJSON implements json.Marshaler.
func (d decimals) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(d), 'f', 6, 64), nil
}

// groupRow is a group of runs. Its seq is that of its last run.
type groupRow struct {
	provenSeq
	By              string   `json:"by"`
	Value           string   `json:"value"`
	Runs            uint64   `json:"runs"`
	DistinctOutputs uint64   `json:"distinct_outputs"`
	Stability       decimals `json:"stability"` // the share of runs that have the most frequent output
	Entropy         decimals `json:"entropy_bits"`
	Flips           uint64   `json:"flips"`
	FirstSeq        uint64   `json:"first_seq"`
	FirstTime       string   `json:"first_time"`
	LastSeq         uint64   `json:"last_seq"`
	LastTime        string   `json:"last_time"`
}

func groupRowOf(by string, g *groups.Group) groupRow {
	return groupRow{
		provenSeq: provenSeq{Seq: g.Last.Seq}, By: by, Value: g.Value, Runs: g.Runs, DistinctOutputs: g.Outputs,
		Stability: decimals(float64(g.Commonest) / float64(g.Runs)), Entropy: decimals(g.Entropy), Flips: g.Flips,
		FirstSeq: g.First.Seq, FirstTime: g.First.Time.Format(record.TimeLayout),
		LastSeq: g.Last.Seq, LastTime: g.Last.Time.Format(record.TimeLayout),
	}
}

// rankingNames maps the values of the parameter sort.
var rankingNames = map[string]groups.Ranking{
	"recent": groups.RankedRecent, "runs": groups.RankedRuns, "flips": groups.RankedFlips, "stability": groups.RankedStability,
}

// groups answers the groups of runs that share one value.
func (s *Server) groups(c echo.Context) error {
	var g groups.Query
	var since, until, sort string
	own := []parameter{text("by", &g.By), text("since", &since), text("until", &until), text("sort", &sort),
		count("min_runs", &g.MinRuns, nil), count("min_outputs", &g.MinOutputs, nil)}
	open, implied := s.openQuery, impliedSort(c)
	if c.QueryParam("sort") != "" || implied != "" {
		open = s.openQueryAtHead
	}
	q, err := open(c, withPages|withState|withProofs, own...)
	if err != nil {
		return err
	}
	defer q.close()
	if err := checkGrouping("by", g.By); err != nil {
		return err
	}
	if g.Bounds, err = parseBounds(since, until); err != nil {
		return err
	}
	g.Any = q.any
	found, next, err := listGroups(q, g, cmp.Or(sort, implied))
	if err != nil {
		return err
	}
	rows := make([]groupRow, len(found))
	for i := range found {
		rows[i] = groupRowOf(g.By, &found[i])
	}
	return answerRows(q, rows, next)
}

// impliedSort returns the ranking that finds the requested groups without a walk over all
// other groups. It returns "" if no ranking does. Rankings exist for the head only, so it also
// returns "" for a request or a cursor of another size.
func impliedSort(c echo.Context) string {
	parameters := c.QueryParams()
	size, _, _ := decodeCursor(parameters.Get("cursor"))
	several := func(name string) bool {
		n, err := parseCount(name, parameters.Get(name))
		return err == nil && n > 1
	}
	switch {
	case parameters.Has("sort") || parameters.Has("as_of") || parameters.Get("state") == "any" || size != headSize:
		return ""
	case parameters.Get("since") != "" || parameters.Get("until") != "":
		return "recent"
	case several("min_outputs"):
		return "stability"
	case several("min_runs"):
		return "runs"
	}
	return ""
}

func listGroups(q *indexQuery, g groups.Query, sort string) ([]groups.Group, []byte, error) {
	if sort == "" {
		return groups.List(q.ctx, q.view, g, q.page)
	}
	ranking, known := rankingNames[sort]
	if !known {
		return nil, nil, invalid("sort", "must be recent, runs, flips or stability")
	}
	if q.any {
		return nil, nil, invalid("state", "must be live with sort: only live runs are ranked")
	}
	return groups.ListRanked(q.ctx, q.view, ranking, g, q.page)
}

// checkGrouping returns an error unless runs are grouped by that name.
func checkGrouping(name, by string) error {
	if !groups.Grouped(by) {
		return invalid(name, "must be ipc_id, input_hash, system_prompt_hash, output_hash, model or label:<name>")
	}
	return nil
}

// outputRow is one of the outputs of a group. Its seq is that of the first run with this
// output, in any state.
type outputRow struct {
	provenSeq
	OutputHash string   `json:"output_hash"`
	Runs       uint64   `json:"runs"`
	Share      decimals `json:"share"` // of the group's runs
}

type groupMember struct {
	generationRow
	State string `json:"state"`
}

// groupAnswer is one group with a page of its outputs and a page of its runs.
type groupAnswer struct {
	list[groupMember]
	Group       groupRow    `json:"group"`
	Outputs     []outputRow `json:"outputs"`
	OutputsNext string      `json:"outputs_next,omitempty"`
}

// group answers one group: the outputs with their counts, and the runs.
func (s *Server) group(c echo.Context) error {
	var outputs index.Page
	q, err := s.openQueryWithSecondList(c, withPages|withState|withProofs, "outputs_cursor", &outputs.After)
	if err != nil {
		return err
	}
	defer q.close()
	group, err := groupInPath(c)
	if err != nil {
		return err
	}
	group.Any, outputs.Limit = q.any, q.page.Limit
	found, ok, err := groups.Get(q.ctx, q.view, group)
	if err != nil {
		return err
	}
	if !ok {
		return noRuns(q, group)
	}
	answer := &groupAnswer{Group: groupRowOf(group.Name, &found)}
	if err := errors.Join(answer.outputs(q, group, outputs), answer.runs(q, group), answer.Group.proveIn(q)); err != nil {
		return err
	}
	return answerOne(q, answer)
}

// noRuns returns the 404 for a group, and says whether the group has runs in another state.
func noRuns(q *indexQuery, group groups.RunQuery) error {
	group.Any = true
	if _, found, err := groups.Get(q.ctx, q.view, group); err != nil {
		return err
	} else if found {
		return fault(http.StatusNotFound, "no live runs have that value; state=any includes runs that are not live")
	}
	return fault(http.StatusNotFound, "no runs have that value; a run is an IPC record with input, system prompt, output, "+
		"model, temperature, max_tokens and seed, and /records lists others too")
}

func groupInPath(c echo.Context) (group groups.RunQuery, err error) {
	if group.Name, err = element(c, "by"); err != nil {
		return group, err
	}
	if group.Text, err = element(c, "value"); err != nil {
		return group, err
	}
	return group, checkGrouping("by", group.Name)
}

func (a *groupAnswer) outputs(q *indexQuery, group groups.RunQuery, page index.Page) error {
	found, next, err := groups.Outputs(q.ctx, q.view, group, page)
	if err != nil {
		return err
	}
	a.Outputs = make([]outputRow, len(found))
	for i, o := range found {
		a.Outputs[i] = outputRow{provenSeq{Seq: o.Seq}, o.Hash, o.Runs, decimals(float64(o.Runs) / float64(a.Group.Runs))}
		if err := a.Outputs[i].proveIn(q); err != nil {
			return err
		}
	}
	a.OutputsNext = q.next(next)
	return nil
}

func (a *groupAnswer) runs(q *indexQuery, group groups.RunQuery) error {
	found, next, err := runs.List(q.ctx, q.view, group, q.page)
	if err != nil {
		return err
	}
	a.Rows, a.Next = make([]groupMember, len(found)), q.next(next)
	for i := range found {
		a.Rows[i] = groupMember{generationRowOf(&found[i].IPCRecord), string(found[i].State)}
		if err := a.Rows[i].proveIn(q); err != nil {
			return err
		}
	}
	return nil
}
