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

// dagEvent is what events about run-DAGs say, as encoding/json reads it.
type dagEvent struct {
	seq    uint64
	Kind   string
	Time   time.Time
	Record struct {
		Hashes struct {
			QuestionHash *string `json:"question_hash"`
			CacheKey     *string `json:"cache_key"`
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

func (e *dagEvent) stages() []event.Stage {
	var list []event.Stage
	for _, n := range e.Record.Nodes {
		list = append(list, event.Stage{Name: []byte(n.Stage), Hash: []byte(n.Hash)})
	}
	return list
}

// naiveRunStates returns the states of run-DAGs.
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

// naiveRun is a row of OfQuestion, without what its event says.
type naiveRun struct {
	seq, against uint64
	state        string
	stage        *string
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
			change := drift.CompareStages(before.stages(), e.stages())
			if r.against = before.seq; len(change.Differing) > 0 {
				r.stage = new(change.First())
			}
		}
		list = append(list, r)
		if state == "live" {
			before = e
		}
	}
	return list
}

// naiveCached returns the run-DAG for a cache key; 0 if there is none.
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

func naiveFailures(events []dagEvent, b index.Bounds, any bool) []rundags.Failures {
	states := naiveRunStates(events)
	stages := []string{"", "retrieval", "context", "answer", "unknown", "other"}
	modes := []string{"", "STRICT", "HYBRID", "UNGROUNDED", "other"}
	shapes := []string{"", "quote", "pointer", "reject", "unrecognised", "other"}
	counts := make(map[[3]byte]uint64) // by shape, mode and stage
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
	var list []rundags.Failures
	for _, o := range slices.SortedFunc(maps.Keys(counts), func(a, b [3]byte) int { return bytes.Compare(a[:], b[:]) }) {
		list = append(list, rundags.Failures{FailureStage: stages[o[2]], AuditMode: modes[o[1]], Shape: shapes[o[0]], Count: counts[o]})
	}
	return list
}

var (
	someQuestions  = []string{"why", "how"}
	someKeys       = []string{"k1", "k2"}
	someDimensions = []string{"schema_version", "chunking_version"}
)

// drawDAGEvent draws the body of an event that can follow size others.
func drawDAGEvent(t *rapid.T, size uint64) string {
	switch few(t, "event", "run", "run", "run", "state", "other") {
	case "run":
		return drawRun(t)
	case "state":
		return stateOf(rapid.Uint64Range(0, size+1).Draw(t, "target"), few(t, "state", "live", "live", "failed", "stale", "quarantined", "lost"))
	}
	return foreign("citation_set", "{}", `{}`)
}

func orNull(t *rapid.T, name string, texts ...string) string {
	if rapid.IntRange(0, 3).Draw(t, "null "+name) == 0 {
		return "null"
	}
	return fmt.Sprintf("%q", few(t, name, texts...))
}

// longStage is a name so long that the row of a question's latest run leaves its stages to the
// log.
var longStage = strings.Repeat("s", 1<<10)

func drawRun(t *rapid.T) string {
	var nodes []string
	for _, stage := range []string{"question", few(t, "second", "preflight", "retrieval", "mine", longStage), "answer", "answer"} {
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
		dimensions = fmt.Sprintf(`"cache_dimensions":{"schema_version":%s,"chunking_version":"1"},`, orNull(t, "schema", "1", "1", "2"))
	}
	return foreign("run_dag", "{}", fmt.Sprintf(`{"hashes":{"question_hash":%s,"cache_key":%s},%s%s"nodes":[%s],"shape":%s,"failure_stage":%s,"audit_mode":%s}`,
		orNull(t, "question", someQuestions...), orNull(t, "key", someKeys...), dimensions, few(t, "quotes", "", `"n_quotes":0,`), strings.Join(nodes, ","),
		orNull(t, "shape", "quote", "reject", "new"), orNull(t, "failure", "retrieval", "answer", "none"), orNull(t, "mode", "STRICT", "HYBRID", "LAX")))
}

// node returns a node of a run-DAG.
func node(stage, hash string) string { return fmt.Sprintf(`{"stage":%q,"hash":%q}`, stage, hash) }

// dagBody returns the body of a run-DAG of a question.
func dagBody(question string, nodes ...string) string {
	return foreign("run_dag", "{}", fmt.Sprintf(`{"hashes":{"question_hash":%q},"nodes":[%s]}`, question, strings.Join(nodes, ",")))
}

func stateOf(target uint64, state string) string {
	return foreign("record_state_changed", "{}", fmt.Sprintf(`{"record_seq":%d,"state":%q,"reason":"so"}`, target, state))
}
