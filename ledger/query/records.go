package query

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"colophon/client/wire"
	"colophon/ledger/index/paths"
	"colophon/ledger/index/records"
	"colophon/ledger/query/facts"
	"colophon/ledger/record"
	"colophon/proofs"
)

// recordQuestions lists the questions about records of all kinds (spec: Lists of records; Requests).
var recordQuestions = []Question{
	{Path: "/records", SharedParameters: PageParameters | ProofsParameter | NamesParameter, ParameterNames: append(slices.Clone(filterNames), "events"), ValueParameters: filterValues, ParseParameters: askWith(parseRecords, Records)},
	{Path: "/records/:seq", SharedParameters: ProofsParameter, ParameterNames: []string{"derive"}, SeqParameters: []string{"seq"}, ParseParameters: askWith(parseRecord, RecordBySeq)},
	{Path: "/runs/:run_id", SharedParameters: PageParameters | ProofsParameter | NamesParameter, ParameterNames: []string{"state"}, ParseParameters: askWith(parseRun, RecordsOfRun)},
}

// RecordRow is a [wire.ListedRecord] whose hashes and labels are raw JSON copied from the event.
type RecordRow struct {
	wire.RowMembers
	Kind         record.Kind        `json:"kind"`
	Time         wire.Time          `json:"time"`
	EventHash    string             `json:"event_hash"`
	State        record.State       `json:"state,omitempty"`        // empty if records of this kind have no state
	RedactedBy   *uint64            `json:"redacted_by,omitempty"`  // seq of the redaction, even if newer than as_of
	RunID        *string            `json:"run_id,omitempty"`       // nil if there is none
	Timestamp    *string            `json:"timestamp,omitempty"`    // time that the client sent; nil if none
	Hashes       json.RawMessage    `json:"hashes"`                 // effective hashes by name
	Mismatches   []string           `json:"mismatches"`             // fields whose claimed hash differs from the recomputed one
	BrokenRules  []string           `json:"inconsistent,omitempty"` // rules that the run-DAG's verdict breaks
	MissingParts []string           `json:"incomplete,omitempty"`   // parts that the IPC record lacks
	Labels       json.RawMessage    `json:"labels"`                 // values of the labels by name
	Name         *wire.ReadableName `json:"name,omitempty"`         // display name; nil if not requested or unknown
	Links        wire.RecordLinks   `json:"links"`
	Event        json.RawMessage    `json:"event,omitempty"` // event body; nil if not requested
}

// RecordListQuery holds the parameters of a list of records.
type RecordListQuery struct {
	RecordFilter
	IncludeEvents bool // whether each row includes its event
}

func parseRecords(p Parameters) (list RecordListQuery, err error) {
	if list.RecordFilter, err = parseFilter(p); err == nil {
		list.IncludeEvents, err = p.ParseChoice("events", "false", "true")
	}
	return list, err
}

// Records lists the records that a filter selects, newest first.
func Records(v *View, list RecordListQuery) (*wire.Page[RecordRow], error) {
	list.IncludeBodies = list.IncludeEvents
	return recordPage(v, &list.RecordFilter, func(row *RecordRow, r *records.Record) error {
		row.Event = r.Body
		return nil
	})
}

func parseRun(p Parameters) (f RecordFilter, err error) {
	f.Values = []records.Value{{Name: "run_id", Text: p["run_id"]}}
	f.State, err = oneOf("state", p["state"], "any", record.States[:])
	return f, err
}

// RecordsOfRun lists the records with a given run_id, newest first, with links to related queries.
func RecordsOfRun(v *View, f RecordFilter) (*wire.Page[RecordRow], error) {
	f.IncludeBodies = true // addLinks reads the bodies
	return recordPage(v, &f, func(row *RecordRow, r *records.Record) error { return addLinks(v, row, r) })
}

// recordPage returns a page of the records that f selects. It calls add to complete each row.
func recordPage(v *View, f *RecordFilter, add func(*RecordRow, *records.Record) error) (*wire.Page[RecordRow], error) {
	found, next, err := f.List(v.Context, v.View, v.Page)
	if err != nil {
		return nil, err
	}
	rows := make([]RecordRow, len(found))
	for i := range found {
		if rows[i], err = recordRow(v, &found[i]); err != nil {
			return nil, err
		}
		if err := add(&rows[i], &found[i]); err != nil {
			return nil, err
		}
	}
	tree, err := v.tree()
	return &wire.Page[RecordRow]{IndexedTreeSize: tree, Rows: rows, Next: v.next(next)}, err
}

func recordRow(v *View, r *records.Record) (row RecordRow, err error) {
	row = RecordRow{
		RowMembers: v.row(r.Seq), Kind: r.Kind, Time: timeOf(r.Time), EventHash: hex.EncodeToString(r.EventHash[:]), State: r.State,
		RunID: r.RunID, Timestamp: r.Timestamp, Hashes: r.Hashes, Mismatches: orEmpty(r.Mismatches), BrokenRules: r.BrokenRules, MissingParts: r.MissingParts, Labels: r.Labels,
		Name: v.recordName(r.Seq), Links: wire.RecordLinks{Record: fmt.Sprintf("%s/records/%d", v.base(), r.Seq)},
	}
	row.RedactedBy, err = FindRedaction(v.Context, v.Log.RedactingSeq, r.Seq)
	return row, err
}

// base returns the URL path of the ledger.
func (v *View) base() string { return "/v1/ledgers/" + v.Log.Name() }

// linkedEvent is the part of an event from which links are built.
type linkedEvent struct {
	Record struct {
		Content map[string]struct{} `json:"content"`
		Hashes  map[string]*string  `json:"hashes"`
		Subject string              `json:"subject"`
		Project string              `json:"project"`
	} `json:"record"`
}

// addLinks adds the links to a record's receipt, content, and related queries. Erased content gets no link.
func addLinks(v *View, row *RecordRow, r *records.Record) error {
	var e linkedEvent
	l := &row.Links
	if err := json.Unmarshal(r.Body, &e); err != nil {
		return fmt.Errorf("parsing event %d: %w", r.Seq, err)
	}
	l.Receipt = l.Record + "/receipt"
	l.Content = make(map[string]string)
	if row.RedactedBy == nil {
		for name := range maps.Keys(e.Record.Content) {
			l.Content[name] = l.Record + "/content/" + name
		}
		if _, built := e.Record.Content["inputs"]; built { // an answer that is not stored separately is part of the inputs
			l.Content["answer_text"] = l.Record + "/content/answer_text"
		}
	}
	l.Queries = make(map[string]string)
	add := func(name, format string, value *string) {
		if value != nil {
			l.Queries[name] = v.base() + fmt.Sprintf(format, *value)
		}
	}
	hashes, live := e.Record.Hashes, r.State == record.StateLive
	switch r.Kind {
	case record.KindIPCRecord:
		timeline, repetitions := "/drift/timeline?input_hash=%s", "/drift/groups/ipc_id/%s"
		if !live { // by default, these queries leave out records that are not live
			timeline, repetitions = timeline+"&state=any", repetitions+"?state=any"
		}
		add("timeline", timeline, hashes["input_hash"])
		add("repetitions", repetitions, hashes["ipc_id"])
	case record.KindRunDAG:
		add("divergence", "/run-dags/divergence?question_hash=%s", hashes["question_hash"])
		if live { // the cache serves only live run-DAGs
			add("by_cache_key", "/run-dags/by-cache-key/%s", hashes["cache_key"])
		}
	case record.KindCitationSet:
		seq, subject := fmt.Sprint(r.Seq), url.QueryEscape(e.Record.Subject)
		add("document", "/citation-sets/%s/document", &seq)
		add("drift", "/citation-sets/drift?subject=%s", &subject)
	case record.KindPathFingerprint:
		// Look up the path_id: if another route already has it, the index assigns a longer one.
		change, err := paths.StatusOf(v.Context, v.View, r.Seq)
		if err != nil {
			return err
		}
		path := url.PathEscape(e.Record.Project) + "/" + change.PathID
		add("history", "/paths/%s", &path)
	}
	return nil
}

// RecordAnswer is a [wire.RecordAnswer] whose hashes, checks, and event are raw JSON copied from the entry.
type RecordAnswer struct {
	wire.IndexedTreeSize
	wire.RowMembers
	Kind          string          `json:"kind"`
	Time          string          `json:"time"`
	EventHash     string          `json:"event_hash"`
	PrevEventHash string          `json:"prev_event_hash"`       // event_hash of the previous event
	LeafHash      string          `json:"leaf_hash"`             // hash of the event's leaf in the Merkle tree
	Hashes        json.RawMessage `json:"hashes"`                // effective hashes by name
	Checks        json.RawMessage `json:"checks"`                // results of the checks by field
	MissingParts  json.RawMessage `json:"incomplete,omitempty"`  // parts that the IPC record lacks
	State         record.State    `json:"state,omitempty"`       // empty if records of this kind have no state
	RedactedBy    *uint64         `json:"redacted_by,omitempty"` // seq of the redaction, even if newer than as_of
	Event         json.RawMessage `json:"event"`                 // event body
	*wire.DerivedMembers
}

// RecordQuery holds the parameters of a request for one event.
type RecordQuery struct {
	Seq            uint64
	IncludeDerived bool // whether the answer includes the derived members
}

func parseRecord(p Parameters) (one RecordQuery, err error) {
	if one.Seq, err = ParseUint("seq", p["seq"]); err == nil {
		one.IncludeDerived, err = p.ParseChoice("derive", "false", "true")
	}
	return one, err
}

// RecordBySeq returns one event with its place in the chain and in the tree, its checks, and its state.
func RecordBySeq(v *View, one RecordQuery) (*RecordAnswer, error) {
	if one.Seq >= v.Size() {
		return nil, missing("there is no event %d at tree size %d", one.Seq, v.Size())
	}
	entry, err := v.Log.Entry(v.Context, one.Seq)
	if err != nil {
		return nil, fmt.Errorf("reading entry %d: %w", one.Seq, err)
	}
	r, err := proofs.NewReceipt(entry)
	if err != nil {
		return nil, fmt.Errorf("parsing event %d: %w", one.Seq, err)
	}
	answer := &RecordAnswer{RowMembers: v.row(one.Seq), Kind: r.Kind, Time: r.Time,
		EventHash: hex.EncodeToString(r.EventHash[:]), PrevEventHash: hex.EncodeToString(r.PrevEventHash[:]),
		LeafHash: hex.EncodeToString(r.LeafHash[:]), Hashes: r.Hashes, Checks: r.Checks, MissingParts: r.MissingMembers,
		Event: entry[proofs.HashSize:]}
	if record.Kind(r.Kind).HasState() {
		state, err := records.StateOf(v.View, one.Seq)
		if err != nil {
			return nil, err
		}
		answer.State = record.State(state)
	}
	if answer.RedactedBy, err = FindRedaction(v.Context, v.Log.RedactingSeq, one.Seq); err != nil {
		return nil, err
	}
	if one.IncludeDerived {
		found, err := facts.DeriveMembers(v.Context, v.View, one.Seq, record.Kind(r.Kind))
		if err != nil {
			return nil, fmt.Errorf("deriving the members of event %d: %w", one.Seq, err)
		}
		answer.DerivedMembers = &found
	}
	answer.IndexedTreeSize, err = v.tree()
	return answer, err
}
