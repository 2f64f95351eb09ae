package indextest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/drift"
	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/rundags"
)

// dagEvent is an event about run-DAGs, as encoding/json decodes it.
type dagEvent struct {
	seq    uint64
	Kind   string
	Time   time.Time
	Record struct {
		Hashes struct {
			QuestionHash *string `json:"question_hash"`
			CacheKey     *string `json:"cache_key"`
			Model        *string `json:"model_profile_hash"`
			Policy       *string `json:"governance_policy_hash"`
			Verifier     *string `json:"verifier_policy_hash"`
		}
		Nodes      []struct{ Stage, Hash string }
		Dimensions map[string]*string `json:"cache_dimensions"`

		Shape        *string
		FailureStage *string `json:"failure_stage"`
		Quotes       *int    `json:"n_quotes"`
		AuditMode    *string `json:"audit_mode"`

		RecordSeq uint64 `json:"record_seq"`
		State     string
	}
}

func (j *journal) ranEvents(size uint64) []dagEvent {
	j.t.Helper()
	var events []dagEvent
	for seq, entry := range j.entries[:size] {
		e := dagEvent{seq: uint64(seq)}
		require.NoError(j.t, json.Unmarshal(entry[32:], &e))
		events = append(events, e)
	}
	return events
}

func (e *dagEvent) stages() []event.NamedHash {
	var list []event.NamedHash
	for _, n := range e.Record.Nodes {
		list = append(list, event.NamedHash{Name: []byte(n.Stage), Hash: []byte(n.Hash)})
	}
	return list
}

// naiveRunStates returns the state of each run-DAG whose state has changed, keyed by its seq.
func naiveRunStates(events []dagEvent) map[uint64]string {
	states := make(map[uint64]string)
	for _, e := range events {
		known := slices.Contains([]string{"live", "failed", "stale", "quarantined"}, e.Record.State)
		if target := e.Record.RecordSeq; e.Kind == "record_state_changed" && known && target < e.seq && events[target].Kind == "run_dag" {
			states[target] = e.Record.State
		}
	}
	return states
}

func stateIn(states map[uint64]string, seq uint64) string {
	if s, changed := states[seq]; changed {
		return s
	}
	return "live"
}

// naiveRun is a row of ListByQuestion, without the contents of its event.
type naiveRun struct {
	seq        uint64
	state      string
	comparison rundags.Comparison
}

func isText(text *string, want string) bool { return text != nil && *text == want }

func naiveQuestionRuns(events []dagEvent, question string, any bool) []naiveRun {
	states := naiveRunStates(events)
	var list []naiveRun
	var before *dagEvent
	for i := range events {
		e := &events[i]
		if e.Kind != "run_dag" || !isText(e.Record.Hashes.QuestionHash, question) {
			continue
		}
		state := stateIn(states, e.seq)
		if state != "live" && !any {
			continue
		}
		r := naiveRun{seq: e.seq, state: state}
		if before != nil {
			r.comparison = naiveComparison(before, e)
		}
		list = append(list, r)
		if state == "live" {
			before = e
		}
	}
	return list
}

func naiveComparison(before, after *dagEvent) (c rundags.Comparison) {
	c.OtherSeq = before.seq
	change := drift.CompareStages(before.stages(), after.stages())
	if c.DimensionsKnown = len(before.Record.Dimensions) > 0 && len(after.Record.Dimensions) > 0; c.DimensionsKnown {
		for _, name := range someDimensions {
			if !sameText(before.Record.Dimensions[name], after.Record.Dimensions[name]) {
				c.Dimensions = append(c.Dimensions, name)
			}
		}
	}
	switch n := len(c.Dimensions); {
	case len(change.DifferingStages) == 0:
		c.DivergenceCause.Cause = "identical"
		return c
	case !c.DimensionsKnown:
		c.DivergenceCause.Cause = "unknown"
	case n == 0:
		c.DivergenceCause.Cause = "no_dimension"
	case n == 1:
		c.DivergenceCause.Cause = c.Dimensions[0]
	default:
		c.DivergenceCause.Cause = "confounded"
	}
	c.Stage = new(change.FirstDivergence())
	return c
}

func sameText(a, b *string) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }

// naiveRunGroups groups the run-DAGs by one of their hashes. The groups are sorted by their first
// run-DAG, newest first.
func naiveRunGroups(events []dagEvent, q rundags.GroupQuery) (list []rundags.Group) {
	states := naiveRunStates(events)
	members := make(map[string][]*dagEvent)
	var values []string
	for i := range events {
		e := &events[i]
		if value := e.hash(q.Field); e.Kind == "run_dag" && value != nil {
			if members[*value] = append(members[*value], e); len(members[*value]) == 1 {
				values = append(values, *value)
			}
		}
	}
	slices.Reverse(values)
	for _, value := range values {
		counted := slices.DeleteFunc(members[value], func(e *dagEvent) bool { return !q.AnyState && stateIn(states, e.seq) != "live" })
		if len(counted) == 0 || uint64(len(counted)) < q.MinRuns {
			continue
		}
		first, last := counted[0], counted[len(counted)-1]
		if q.Since != nil && last.Time.Before(*q.Since) || q.Until != nil && !last.Time.Before(*q.Until) {
			continue
		}
		g := rundags.Group{Value: value, Runs: uint64(len(counted)), FirstRunSeq: first.seq, FirstRunTime: first.Time, LastRunSeq: last.seq, LastRunTime: last.Time}
		answers := make(map[string]bool)
		var alone []dagEvent // the run-DAGs without the events that change their state
		for _, e := range counted {
			alone = append(alone, *e)
			if answer := e.answer(); answer != "" {
				answers[answer] = true
			}
		}
		g.DistinctAnswers, g.OutcomeCounts = uint64(len(answers)), naiveFailures(alone, index.TimeRange{}, true)
		list = append(list, g)
	}
	return list
}

// answer returns the hash of the answer stage or, if there is none, of the render stage. It returns
// "" if the run-DAG has neither.
func (e *dagEvent) answer() string {
	for _, stage := range []string{"answer", "render"} {
		for _, n := range e.Record.Nodes {
			if n.Stage == stage {
				return n.Hash
			}
		}
	}
	return ""
}

func (e *dagEvent) hash(name string) *string {
	return map[string]*string{"question_hash": e.Record.Hashes.QuestionHash, "cache_key": e.Record.Hashes.CacheKey, "model_profile_hash": e.Record.Hashes.Model,
		"governance_policy_hash": e.Record.Hashes.Policy, "verifier_policy_hash": e.Record.Hashes.Verifier}[name]
}

// naiveCached returns the seq of the latest live run-DAG with the given cache key, and the number
// of other live run-DAGs with that key. The seq is 0 if there is no such run-DAG or if their
// dimensions differ.
func naiveCached(events []dagEvent, key string) (seq, others uint64) {
	states := naiveRunStates(events)
	var runs []*dagEvent
	for i := range events {
		e := &events[i]
		if e.Kind == "run_dag" && isText(e.Record.Hashes.CacheKey, key) && e.Record.Dimensions != nil && stateIn(states, e.seq) == "live" {
			runs = append(runs, e)
		}
	}
	if len(runs) == 0 {
		return 0, 0
	}
	last := runs[len(runs)-1]
	for _, r := range runs {
		if !sameDimensions(r.Record.Dimensions, last.Record.Dimensions) {
			return 0, 0
		}
	}
	return last.seq, uint64(len(runs) - 1)
}

func sameDimensions(a, b map[string]*string) bool {
	for _, name := range someDimensions {
		x, y := a[name], b[name]
		if (x == nil) != (y == nil) || x != nil && *x != *y {
			return false
		}
	}
	return true
}

func naiveFailures(events []dagEvent, b index.TimeRange, any bool) []rundags.OutcomeCount {
	states := naiveRunStates(events)
	stages := []string{"", "retrieval", "context", "answer", "unknown", "other"}
	modes := []string{"", "STRICT", "HYBRID", "UNGROUNDED", "other"}
	shapes := []string{"", "quote", "pointer", "reject", "unrecognised", "other"}
	counts := make(map[[3]byte]uint64) // keyed by the positions of shape, audit mode, and stage in the lists above
	for _, e := range events {
		if e.Kind != "run_dag" || b.Since != nil && e.Time.Before(*b.Since) || b.Until != nil && !e.Time.Before(*b.Until) || !any && stateIn(states, e.seq) != "live" {
			continue
		}
		number := func(text *string, list []string) byte {
			if text == nil {
				return 0
			}
			if i := slices.Index(list[1:], *text); i >= 0 {
				return byte(1 + i)
			}
			return byte(len(list) - 1)
		}
		failed := e.Record.FailureStage
		if failed == nil && e.Record.Quotes == nil && !isText(e.Record.Shape, "reject") {
			failed = new("unknown")
		}
		counts[[3]byte{number(e.Record.Shape, shapes), number(e.Record.AuditMode, modes), number(failed, stages)}]++
	}
	var list []rundags.OutcomeCount
	for _, o := range slices.SortedFunc(maps.Keys(counts), func(a, b [3]byte) int { return bytes.Compare(a[:], b[:]) }) {
		list = append(list, rundags.OutcomeCount{FailureStage: stages[o[2]], AuditMode: modes[o[1]], Shape: shapes[o[0]], Count: counts[o]})
	}
	return list
}

var (
	someQuestions  = []string{"why", "how"}
	someKeys       = []string{"k1", "k2"}
	someDimensions = []string{"schema_version", "chunking_version"}
)

// drawDAGEvent returns the body of a random event for a log that already has size events.
func drawDAGEvent(t *rapid.T, size uint64) string {
	switch few(t, "event", "run", "run", "run", "state", "other") {
	case "run":
		return drawRun(t)
	case "state":
		return stateOf(rapid.Uint64Range(0, size+1).Draw(t, "target"), few(t, "state", "live", "live", "failed", "stale", "quarantined", "lost"))
	}
	return rawBody("citation_set", "{}", `{}`)
}

func orNull(t *rapid.T, name string, texts ...string) string {
	if rapid.IntRange(0, 3).Draw(t, "null "+name) == 0 {
		return "null"
	}
	return fmt.Sprintf("%q", few(t, name, texts...))
}

// longStage is a stage name that is too long for the row of a question's latest run. The stages
// must then be read from the log.
var longStage = strings.Repeat("s", 1<<10)

func drawRun(t *rapid.T) string {
	var nodes []string
	for _, stage := range []string{"question", few(t, "second", "preflight", "retrieval", "mine", longStage), "render", "answer", "answer"} {
		if rapid.IntRange(0, 4).Draw(t, "has "+stage) > 0 {
			nodes = append(nodes, node(stage, few(t, "hash", "0", "1")))
		}
	}
	if known := few(t, "known shape", "", "", "question preflight final_label", "question preflight retrieval context prompt answer verify final_label",
		"question retrieval context prompt answer verify final_label"); known != "" {
		nodes = nil
		for _, stage := range strings.Fields(known) {
			nodes = append(nodes, node(stage, few(t, "hash", "0", "0", "0", "1")))
		}
	}
	dimensions := ""
	if rapid.Bool().Draw(t, "has dimensions") {
		dimensions = fmt.Sprintf(`"cache_dimensions":{"schema_version":%s,"chunking_version":%s},`, orNull(t, "schema", "1", "1", "2"), orNull(t, "chunking", "1", "1", "1", "2"))
	}
	return rawBody("run_dag", "{}", fmt.Sprintf(`{"hashes":{"question_hash":%s,"cache_key":%s,"model_profile_hash":%s,"governance_policy_hash":%s},%s%s"nodes":[%s],"shape":%s,"failure_stage":%s,"audit_mode":%s}`,
		orNull(t, "question", someQuestions...), orNull(t, "key", someKeys...), orNull(t, "model", "m1", "m2", "m3", "m4", "m5"), orNull(t, "policy", "p1"), dimensions, few(t, "quotes", "", `"n_quotes":0,`), strings.Join(nodes, ","),
		orNull(t, "shape", "quote", "reject", "new"), orNull(t, "failure", "retrieval", "answer", "none"), orNull(t, "mode", "STRICT", "HYBRID", "LAX")))
}

// node returns a node of a run-DAG as JSON.
func node(stage, hash string) string { return fmt.Sprintf(`{"stage":%q,"hash":%q}`, stage, hash) }

// dagBody returns the body of a run-DAG event with the given question hash and nodes.
func dagBody(question string, nodes ...string) string {
	return rawBody("run_dag", "{}", fmt.Sprintf(`{"hashes":{"question_hash":%q},"nodes":[%s]}`, question, strings.Join(nodes, ",")))
}

func stateOf(target uint64, state string) string {
	return rawBody("record_state_changed", "{}", fmt.Sprintf(`{"record_seq":%d,"state":%q,"reason":"so"}`, target, state))
}
