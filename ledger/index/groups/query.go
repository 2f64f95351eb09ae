package groups

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"colophon/ledger/index"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
)

// Group describes the runs that share one value (spec: Groups).
type Group struct {
	Value   string // value that the runs share
	Runs    uint64 // number of runs; all counts leave out runs that are not live, unless the query sets AnyState
	Outputs uint64 // number of distinct outputs
	// MostCommonOutputRuns is the number of runs with the most common output.
	MostCommonOutputRuns uint64
	Flips                uint64     // number of runs whose output differs from that of the previous run
	Entropy              float64    // entropy of the outputs, in bits
	FirstRun, LastRun    TimedEvent // seq and time of the first and the last run
}

// TimedEvent identifies an event by its seq, and has the time at which the event was recorded.
type TimedEvent struct {
	Seq  uint64
	Time time.Time // time at which the event was recorded
}

// Query selects groups of runs.
type Query struct {
	GroupBy  string // the name by which runs are grouped
	AnyState bool   // count runs in any state, not only live ones
	// MinRuns and MinOutputs are the minimum counts that a group must have.
	MinRuns, MinOutputs uint64
	index.TimeRange     // selects groups by the time of their last run
}

// IsValidGrouping reports whether by is a valid Query.GroupBy. It accepts ipc_id, input, input_hash,
// system_prompt_hash, output_hash, model, ollama_build_hash, and "label:" followed by the name of a
// label.
func IsValidGrouping(by string) bool { return records.FormsRunGroups(by) && by != records.LabelPrefix }

// resolvedQuery is a Query whose time range is resolved to seqs. The seq of a group's last run must
// be at least from, and less than below.
type resolvedQuery struct {
	Query
	from, below uint64
}

func resolve(v *index.View, q Query) (resolvedQuery, error) {
	from, below, err := v.SeqRange(q.TimeRange)
	return resolvedQuery{q, from, below}, err
}

// of returns the tally that the query uses for a group: the live runs, or the runs in any state. It
// returns nil if the query does not select the group.
func (c *resolvedQuery) of(g *Version) *Tally {
	t := &g.LiveTally
	if c.AnyState {
		t = &g.AllTally
	}
	if t.Runs == 0 || t.Runs < c.MinRuns || t.outputs < c.MinOutputs || t.LastSeq < c.from || t.LastSeq >= c.below {
		return nil
	}
	return t
}

// NewestVersion returns the newest version of a group that the view sees, or the zero Version if
// there is none.
func NewestVersion(v *index.View, id rowstore.Identity) (Version, error) {
	return NewestVersionBelow(v, id, v.Size())
}

// NewestVersionBelow is like NewestVersion, but as of a smaller size. The version's facts and deferred
// combinations are valid until the view reads another row.
func NewestVersionBelow(v *index.View, id rowstore.Identity, size uint64) (Version, error) {
	seq, value, found, err := v.NewestVersionBelow(records.PostingsDimension, id[:], size)
	if err != nil || !found {
		return Version{}, err
	}
	return DecodeVersion(seq, value)
}

// Get returns one group. found is false if the group has no runs. It reads three keys.
func Get(_ context.Context, v *index.View, q RunQuery) (row Group, found bool, err error) {
	g, err := NewestVersion(v, q.ID())
	if err != nil {
		return Group{}, false, err
	}
	c := resolvedQuery{Query{AnyState: q.AnyState}, 0, v.Size()}
	t := c.of(&g)
	if t == nil {
		return Group{}, false, nil
	}
	row, err = describe(v, t, q.Text)
	return row, err == nil, err
}

// describe returns a Group with the given value and the counts in t.
func describe(v *index.View, t *Tally, value string) (Group, error) {
	row := Group{
		Value: value, Runs: t.Runs, Outputs: t.outputs, MostCommonOutputRuns: t.mostCommon, Flips: t.flips,
		Entropy: t.entropy(), FirstRun: TimedEvent{Seq: t.first}, LastRun: TimedEvent{Seq: t.LastSeq},
	}
	var err error
	if row.FirstRun.Time, err = v.RecordedAt(t.first); err != nil {
		return Group{}, err
	}
	row.LastRun.Time, err = v.RecordedAt(t.LastSeq)
	return row, err
}

// appendGroup appends a group to rows if the query selects it. It reads at most four keys, one of
// them in the log.
func appendGroup(ctx context.Context, v *index.View, rows []Group, id rowstore.Identity, q *resolvedQuery) ([]Group, error) {
	g, err := NewestVersion(v, id)
	if err != nil {
		return nil, err
	}
	return appendKnown(ctx, v, rows, &g, q)
}

// appendKnown is like appendGroup, but for a version that has already been read.
func appendKnown(ctx context.Context, v *index.View, rows []Group, g *Version, q *resolvedQuery) ([]Group, error) {
	t := q.of(g)
	if t == nil {
		return rows, nil
	}
	value, err := ValueOf(ctx, v, t.LastSeq, q.GroupBy)
	if err != nil {
		return nil, err
	}
	row, err := describe(v, t, value)
	return append(rows, row), err
}

// ValueOf returns the value by which the run at seq is grouped. by is the name of the value (see
// Query.GroupBy).
func ValueOf(ctx context.Context, v *index.View, seq uint64, by string) (string, error) {
	if label, ok := strings.CutPrefix(by, records.LabelPrefix); ok {
		return labelOf(ctx, v, seq, label)
	}
	r, err := records.ReadIPCRecordUncached(ctx, v, seq) // not cached, because few groups have the same last run
	switch by {
	case records.NameIPCID:
		return string(r.IPCID), err
	case records.NameInput:
		return string(r.InputIdentity()), err
	case records.NameInputHash:
		return string(r.InputHash), err
	case records.NameSystemPromptHash:
		return string(r.SystemPromptHash), err
	case records.NameOutputHash:
		return string(r.OutputHash), err
	case records.NameOllamaBuildHash:
		return string(r.OllamaBuildHash), err
	default:
		return string(r.Model), err
	}
}

// labelOf returns the value of the named label of the record at seq, or "" if the record has no
// such label.
func labelOf(ctx context.Context, v *index.View, seq uint64, name string) (string, error) {
	e, err := v.Event(ctx, seq)
	if err != nil {
		return "", err
	}
	for known, value := range e.Labels() {
		if string(known) == name {
			return string(value), nil
		}
	}
	return "", nil
}

// List returns groups ordered by their first run in any state, newest first. A page can have fewer
// rows than its limit, or none, if few groups match the query.
func List(ctx context.Context, v *index.View, q Query, p index.PageRequest) (rows []Group, next []byte, err error) {
	below := v.Size()
	if p.After != nil {
		if below, err = rowstore.DecodeSeq(p.After); err != nil || below > v.Size() {
			return nil, nil, index.ErrInvalidPosition
		}
	}
	c, err := resolve(v, q)
	if err != nil {
		return nil, nil, err
	}
	b := v.Budget(p)
	family := rowstore.IdentityOf([]byte(q.GroupBy))
	for member, err := range v.VersionsNewestFirst(families, family[:], below) {
		if err != nil {
			return nil, nil, err
		}
		if b.IsSpent(len(rows)) {
			return rows, rowstore.AppendSeq(nil, below), nil
		}
		below = member.Seq
		id, err := memberOf(member.Value)
		if err != nil {
			return nil, nil, err
		}
		if rows, err = appendGroup(ctx, v, rows, id, &c); err != nil {
			return nil, nil, err
		}
	}
	return rows, nil, nil
}

// FirstRunSeqs yields the seq of the first run, in any state, of each group that is formed by the
// given name, newest first.
func FirstRunSeqs(v *index.View, by string) iter.Seq2[uint64, error] {
	family := rowstore.IdentityOf([]byte(by))
	return rowstore.VersionSeqs(v.VersionsNewestFirst(families, family[:], v.Size()))
}

// memberAt returns the group of a family that has the given first run.
func memberAt(v *index.View, family rowstore.Identity, first uint64) (rowstore.Identity, error) {
	at, value, found, err := v.NewestVersionBelow(families, family[:], first+1)
	if err == nil && (!found || at != first) {
		err = fmt.Errorf("%w: a group of runs is in a ranking, but missing from the list of groups", rowstore.ErrDamaged)
	}
	if err != nil {
		return rowstore.Identity{}, err
	}
	return memberOf(value)
}

// memberOf decodes a group in the list of a family.
func memberOf(value []byte) (rowstore.Identity, error) {
	if len(value) != len(rowstore.Identity{}) {
		return rowstore.Identity{}, fmt.Errorf("%w: cannot decode the ID of a group of runs from %x", rowstore.ErrDamaged, value)
	}
	return rowstore.Identity(value), nil
}

// RunQuery selects the runs of one group.
type RunQuery struct {
	records.Value
	AnyState   bool // include runs in any state, not only live ones
	SeededOnly bool // make runs.List and runs.Timeline leave out runs without a seed; does not affect a group's counts
}

// ID returns the identity of the group.
func (q *RunQuery) ID() rowstore.Identity { return rowstore.IdentityOf([]byte(q.Name), []byte(q.Text)) }
