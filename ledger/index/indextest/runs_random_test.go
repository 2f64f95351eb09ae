package indextest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/record"
	"colophon/ledger/record/members"
)

// generations generates a random log of IPC records. Values come from small sets, so that they
// repeat.
type generations struct {
	*rapid.T
	log   *journal
	naive naiveGenerations
	// narrow means that most records differ only in model, temperature, labels, and output.
	narrow bool
	claims []string // ipc_ids of earlier records, and one that no record has
}

func newGenerations(t *rapid.T) *generations {
	g := &generations{T: t, log: newJournal(t, "default"), narrow: rapid.Bool().Draw(t, "narrow"), claims: []string{strings.Repeat("0", 64)}}
	g.log.append(string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil)))
	return g
}

// few returns one of the given texts at random. If narrow is set, it usually returns the first one.
func (g *generations) few(name string, texts ...string) string {
	if g.narrow && rapid.IntRange(0, 9).Draw(g.T, "wide "+name) > 0 {
		return texts[0]
	}
	return few(g.T, name, texts...)
}

// generation returns a random IPC record. Some records are incomplete, and some claim another
// record's ipc_id.
func (g *generations) generation() string {
	seed := g.few("seed", `"seed":0,`, `"seed":1,`, "", `"seed":null,`)
	if g.few("claims", "no", "no", "yes") == "yes" {
		seed = fmt.Sprintf(`"ipc_id":%q,`, rapid.SampledFrom(g.claims).Draw(g.T, "claim"))
	}
	return "{" + seed +
		few(g.T, "labels", `"labels":{"step":"a","where":"here"},`, `"labels":{"step":"b"},`, "") +
		few(g.T, "run_id", "", `"run_id":"r1",`, `"run_id":"r2",`, `"run_id":"r3",`) +
		g.few("prompt", `"system_prompt":"kind",`, `"system_prompt":"brief",`, "") +
		few(g.T, "output", `"output":"yes",`, `"output":"yes",`, `"output":"no",`, `"output":"well",`, "") +
		g.few("environment", "", `"environment":{"model_digest":"d1"},`, `"environment":{"model_digest":"d2","host_platform":"h1"},`,
			`"environment":{"model_digest":"d1","host_platform":"h2","ollama_build_hash":"o"},`,
			`"environment":{"ollama_build_hash":"o"},`, `"environment":{"ollama_build_hash":"p"},`, `"environment":{"model_digest":"d1","ollama_build_hash":"p"},`) +
		g.few("input", inputs(g.T)...) +
		few(g.T, "temperature", `"temperature":0,`, `"temperature":0.7,`, "") +
		g.few("max_tokens", `"max_tokens":8,`, `"max_tokens":9,`, "", `"max_tokens":null,`) +
		few(g.T, "model", `"model":"m1"}`, `"model":"m2"}`, `"model":"a model with quite a long name"}`)
}

// payload returns a payload as a JSON member followed by a comma. If t is a *rapid.T, the payload
// has a few random members.
func payload(t tester) string {
	r, ok := t.(*rapid.T)
	if !ok {
		return `"payload":{"q":"why?"},`
	}
	return `"payload":{"q":"why?"` + few(r, "member a", "", `,"a":1`, `,"a":1`, `,"a":2`) + few(r, "member b", "", `,"b/~":[1]`, `,"b/~":{"c":1}`) +
		few(r, "member seed", "", `,"seed":0`, `,"seed":1`) + `},`
}

// inputs returns inputs in all the forms that a record can have: payloads with and without a seed,
// and hashes of such payloads.
func inputs(t tester) []string {
	const seeded = `{"q": "why?", "seed": 0}`
	many := `"payload":{"q":"why?","a":1`
	for i := range members.MaxMembers - 1 {
		many += fmt.Sprintf(`,"m%d":0`, i)
	}
	return []string{payload(t), payload(t), payload(t), many + "},", `"payload":{},`, `"payload":{"q":"why?"},`, `"payload":{"q":"how?"},`, `"payload":` + seeded + `,`, `"payload":{"seed":1,"q":"why?"},`,
		fmt.Sprintf(`"input_hash":%q,`, sha256Hex(t, `{"q": "why?"}`)), fmt.Sprintf(`"input_hash":%q,`, sha256Hex(t, seeded))}
}

// citationSet returns a random citation set that cites a few chunks, usually with a run_id.
func (g *generations) citationSet() string {
	var citations []string
	for range rapid.IntRange(0, 2).Draw(g.T, "citations") {
		citations = append(citations, citation(few(g.T, "source", "s", "t"), few(g.T, "chunk", someChunks[:2]...), "null"))
	}
	return fmt.Sprintf(`{%s"subject":"s","citations":[%s],"labels":{"step":%q}}`, few(g.T, "run", `"run_id":"r1",`, `"run_id":"r2",`, `"run_id":"r3",`, ""),
		strings.Join(citations, ","), few(g.T, "step", "a", "b", "c"))
}

// append appends up to most random events: IPC records, state changes, and citation sets with the
// same labels as the records.
func (g *generations) append(most int) {
	for range rapid.IntRange(1, most).Draw(g.T, "events") {
		switch what := rapid.IntRange(0, 11).Draw(g.T, "event"); {
		case what == 0 || what > 9:
			g.log.append(posted(g.T, record.KindCitationSet, g.citationSet()))
		case what < 4 && len(g.naive.records) > 0:
			target := rapid.SampledFrom(g.naive.records).Draw(g.T, "target").seq
			change, err := record.ParseStateChange(target, []byte(fmt.Sprintf(`{"state":%q,"reason":"r"}`,
				few(g.T, "state", "live", "live", "failed", "stale", "quarantined"))))
			require.NoError(g.T, err)
			g.log.append(string(change.AppendBodyPrefix(nil, poster)))
		default:
			g.log.append(posted(g.T, record.KindIPCRecord, g.generation()))
		}
		g.naive.read(g.T, g.log.entries[len(g.log.entries)-1])
		if last := len(g.naive.records) - 1; last >= 0 && g.naive.records[last].hashes["ipc_id"] != "" {
			g.claims = append(g.claims, g.naive.records[last].hashes["ipc_id"])
		}
	}
}

// naiveGenerations contains the IPC records, state changes, and citation sets of a log, in log
// order.
type naiveGenerations struct {
	records []naiveGeneration
	changes []naiveStateChange
	sets    []naiveSet
}

// naiveSet is a citation set of a run. cited holds the chunks and sources that it cites, sorted.
type naiveSet struct {
	seq   uint64
	run   string
	cited []string
}

type naiveGeneration struct {
	seq    uint64
	run    string // run_id; empty if the record has none
	time   time.Time
	hashes map[string]string // hashes that are not null
	labels map[string]string
	// known values of the variables, input_hash, labels, and payload members, keyed by name
	values     map[string]string
	hasPayload bool
	members    map[string]string // digests of the payload's members, keyed by JSON pointer; nil if they are unknown
}

type naiveStateChange struct {
	seq, target uint64
	state       string
}

func (n *naiveGenerations) read(t tester, entry []byte) {
	var body struct {
		Kind   string
		Seq    uint64
		Time   time.Time
		Record struct {
			Hashes            map[string]*string
			Labels            map[string]string
			Content           map[string]any
			Members           map[string]string `json:"payload_members"`
			Environment       map[string]string
			Model             string
			Temperature, Seed json.RawMessage
			MaxTokens         json.RawMessage `json:"max_tokens"`
			State             string
			RecordSeq         uint64 `json:"record_seq"`
			RunID             string `json:"run_id"`
			Citations         []struct {
				ChunkHash string `json:"chunk_hash"`
				SourceID  string `json:"source_id"`
			}
		}
	}
	require.NoError(t, json.Unmarshal(entry[32:], &body))
	switch body.Kind {
	case "record_state_changed":
		n.changes = append(n.changes, naiveStateChange{body.Seq, body.Record.RecordSeq, body.Record.State})
	case "citation_set":
		set := naiveSet{seq: body.Seq, run: body.Record.RunID}
		for _, c := range body.Record.Citations {
			set.cited = append(set.cited, c.ChunkHash+" "+c.SourceID)
		}
		slices.Sort(set.cited)
		set.cited = slices.Compact(set.cited)
		n.sets = append(n.sets, set)
	case "ipc_record":
		r := naiveGeneration{body.Seq, body.Record.RunID, body.Time, make(map[string]string), body.Record.Labels, make(map[string]string), body.Record.Content["payload"] != nil, body.Record.Members}
		for name, value := range body.Record.Hashes {
			if value != nil {
				r.hashes[name] = *value
			}
		}
		for pointer, digest := range r.members {
			r.values[pointer] = digest
		}
		r.values["input_hash"] = r.hashes["input_hash"]
		r.values["input"] = cmp.Or(r.hashes["seedless_input_hash"], r.hashes["input_hash"])
		if prompt, ok := r.hashes["system_prompt_hash"]; ok {
			r.values["system_prompt"] = prompt
		}
		for name, value := range body.Record.Labels {
			r.values["label:"+name] = value
		}
		for name, value := range body.Record.Environment {
			r.values[name] = value
		}
		r.values["model"] = body.Record.Model
		for name, number := range map[string]json.RawMessage{
			"temperature": body.Record.Temperature, "max_tokens": body.Record.MaxTokens, "seed": body.Record.Seed,
		} {
			if number != nil {
				r.values[name] = string(number)
			}
		}
		n.records = append(n.records, r)
	}
}

// evidence returns the chunks and sources that the latest citation set for r's run cites. It
// considers only the first size events. It returns false if they contain no such set.
func (n *naiveGenerations) evidence(r *naiveGeneration, size uint64) ([]string, bool) {
	for _, set := range slices.Backward(n.sets) {
		if set.seq < size && set.run == r.run && r.run != "" {
			return set.cited, true
		}
	}
	return nil, false
}

// isRun reports whether a record is a run (spec: Runs): it has an input and an output.
func (r *naiveGeneration) isRun() bool {
	return r.hashes["input_hash"] != "" && r.hashes["output_hash"] != ""
}

// value returns the value of the given variable, hash, or label in the record. It reports whether
// the record has such a value.
func (r *naiveGeneration) value(by string) (string, bool) {
	if by == "model" || by == "input" {
		return r.values[by], true
	}
	if name, ok := strings.CutPrefix(by, "label:"); ok {
		value, ok := r.labels[name]
		return value, ok
	}
	if by == "ollama_build_hash" {
		value, ok := r.values[by]
		return value, ok
	}
	value, ok := r.hashes[by]
	return value, ok
}

// stateAt returns the state of a record as of the given size.
func (n *naiveGenerations) stateAt(seq, size uint64) string {
	state := "live"
	for _, c := range n.changes {
		if c.target == seq && c.seq < size {
			state = c.state
		}
	}
	return state
}

// runs returns the runs among the first size events, oldest first. Unless anyState is true, it
// leaves out runs that are not live as of that size.
func (n *naiveGenerations) runs(anyState bool, size uint64) []naiveGeneration {
	var runs []naiveGeneration
	for _, r := range n.records {
		if r.seq < size && r.isRun() && (anyState || n.stateAt(r.seq, size) == "live") {
			runs = append(runs, r)
		}
	}
	return runs
}

// group is like runs, but returns only the runs of one group.
func (n *naiveGenerations) group(by, value string, anyState bool, size uint64) []naiveGeneration {
	return slices.DeleteFunc(n.runs(anyState, size), func(r naiveGeneration) bool {
		of, ok := r.value(by)
		return !ok || of != value
	})
}

// groupsBy returns the distinct values by which runs in any state are grouped. Values that first
// occur in later runs come first.
func (n *naiveGenerations) groupsBy(by string, size uint64) []string {
	var values []string
	seen := make(map[string]bool)
	for _, r := range n.records {
		if value, ok := r.value(by); ok && r.seq < size && r.isRun() && !seen[value] {
			seen[value] = true
			values = append([]string{value}, values...)
		}
	}
	return values
}

func drawSize(t *rapid.T, j *journal) uint64 {
	if rapid.Bool().Draw(t, "at the head") {
		return j.head.Size
	}
	return rapid.Uint64Range(1, j.head.Size).Draw(t, "size")
}

func drawMoment(t *rapid.T, j *journal, name string) *time.Time {
	if rapid.Bool().Draw(t, "has no "+name) {
		return nil
	}
	return new(time.UnixMicro(rapid.Int64Range(0, int64(j.head.Size)).Draw(t, name)))
}
