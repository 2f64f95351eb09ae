package indextest

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger/index/records"
	"colophon/ledger/record"
	"colophon/storage"
)

// listedEvent is an event as encoding/json decodes it.
type listedEvent struct {
	seq    uint64
	hash   storage.Hash
	Kind   record.Kind
	Time   time.Time
	Checks map[string]struct{ Result string }
	Record struct {
		RunID     *string `json:"run_id"`
		Timestamp *string
		Labels    map[string]string
		Hashes    map[string]*string
		Producer  *struct {
			ID  string
			Seq uint64
		}
		Model     *string
		Subject   *string
		Project   *string
		Citations []struct {
			ChunkHash string `json:"chunk_hash"`
			SourceID  string `json:"source_id"`
		}
		Nodes          []struct{ Stage, Hash string }
		Shape          *string
		FailureStage   *string  `json:"failure_stage"`
		AuditMode      *string  `json:"audit_mode"`
		VerifierMethod *string  `json:"verifier_method"`
		Quotes         *int     `json:"n_quotes"`
		DocumentRoots  []string `json:"document_roots"`
		EvidenceIDs    []string `json:"evidence_ids"`
		RecordSeq      *uint64  `json:"record_seq"`
		State          string
		Topic          *string
	}
}

// listedEvents returns the first size events of a log.
func (j *journal) listedEvents(size uint64) []listedEvent {
	j.t.Helper()
	var events []listedEvent
	for seq, entry := range j.entries[:size] {
		e := listedEvent{seq: uint64(seq), hash: sha256.Sum256(entry)}
		require.NoError(j.t, json.Unmarshal(entry[32:], &e))
		events = append(events, e)
	}
	return events
}

func (e *listedEvent) isRecord() bool { return slices.Contains(record.RecordKinds[:], e.Kind) }

// values returns the values by which the record can be found, sorted.
func (e *listedEvent) values() []records.Value {
	var values []records.Value
	add := func(name string, text *string) {
		if text != nil {
			values = append(values, records.Value{Name: name, Text: *text})
		}
	}
	r := &e.Record
	if e.Kind == record.KindNote {
		add("record_seq", new(fmt.Sprint(*r.RecordSeq)))
		add("topic", r.Topic)
		return values
	}
	add("run_id", r.RunID)
	for name, text := range r.Labels {
		add("label:"+name, &text)
	}
	for name, hash := range r.Hashes {
		if name != "seedless_input_hash" {
			add(name, hash)
		}
	}
	add("input", cmp.Or(r.Hashes["seedless_input_hash"], r.Hashes["input_hash"]))
	add("subject", r.Subject)
	add("project", r.Project)
	add("model", r.Model)
	for _, c := range r.Citations {
		add("source_id", &c.SourceID)
		add("chunk_hash", &c.ChunkHash)
	}
	for _, n := range r.Nodes {
		add("stage:"+n.Stage, &n.Hash)
	}
	if e.Kind == record.KindRunDAG {
		failed := r.FailureStage
		if failed == nil && r.Quotes == nil && (r.Shape == nil || *r.Shape != "reject") {
			failed = new("unknown")
		} else if failed == nil {
			failed = new("none")
		}
		add("failure_stage", failed)
		add("audit_mode", r.AuditMode)
		add("shape", r.Shape)
		add("verifier_method", r.VerifierMethod)
		for _, root := range r.DocumentRoots {
			add("document_root", &root)
		}
		for _, id := range r.EvidenceIDs {
			add("evidence_id", &id)
		}
	}
	if r.Producer != nil {
		add("producer", &r.Producer.ID)
		values = append(values, records.ProducerSeqValue(r.Producer.ID, r.Producer.Seq))
	}
	for field, check := range e.Checks {
		if check.Result == string(record.ResultMismatch) {
			values = append(values, records.Value{Name: "flag", Text: "mismatch"}, records.Value{Name: "mismatch", Text: record.Check{Field: field}.MetricLabel()})
		}
		if rule, is := strings.CutPrefix(field, "verdict:"); is {
			values = append(values, records.Value{Name: "flag", Text: "inconsistent"}, records.Value{Name: "inconsistent", Text: rule})
		}
	}
	slices.SortFunc(values, func(a, b records.Value) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Text, b.Text)) })
	return values
}

// naiveStates returns the state of each record, keyed by the record's seq.
func naiveStates(events []listedEvent) map[uint64]record.State {
	states := make(map[uint64]record.State)
	for _, e := range events {
		if e.isRecord() && e.Kind.HasState() {
			states[e.seq] = record.StateLive
		}
		if e.Kind != record.KindRecordStateChanged || e.Record.RecordSeq == nil {
			continue
		}
		if _, known := states[*e.Record.RecordSeq]; known && slices.Contains(record.States[:], record.State(e.Record.State)) {
			states[*e.Record.RecordSeq] = record.State(e.Record.State)
		}
	}
	return states
}

// naiveRecords returns the seqs of the records, or of the notes, that match a filter, newest first.
func naiveRecords(events []listedEvent, q records.Filter, byOccurrence bool) []uint64 {
	states := naiveStates(events)
	var kept []listedEvent
	for _, e := range events {
		at, occurred := e.Time, true
		if byOccurrence {
			at, occurred = e.occurred()
		}
		listed := e.isRecord() || e.Kind == record.KindNote && q.Kind == record.KindNote && !byOccurrence
		wanted := listed && occurred &&
			(q.Kind == "" || e.Kind == q.Kind) && (q.State == "" || states[e.seq] == q.State) &&
			(q.Since == nil || !at.Before(*q.Since)) && (q.Until == nil || at.Before(*q.Until))
		for _, value := range q.Values {
			wanted = wanted && slices.Contains(e.values(), value)
		}
		if wanted {
			kept = append(kept, e)
		}
	}
	slices.SortFunc(kept, func(a, b listedEvent) int {
		if byOccurrence {
			atA, _ := a.occurred()
			atB, _ := b.occurred()
			return cmp.Or(atB.Compare(atA), cmp.Compare(b.seq, a.seq))
		}
		return cmp.Compare(b.seq, a.seq)
	})
	var seqs []uint64
	for _, e := range kept {
		seqs = append(seqs, e.seq)
	}
	return seqs
}

func (e *listedEvent) occurred() (time.Time, bool) {
	if e.Record.Timestamp == nil {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339Nano, *e.Record.Timestamp)
	return at, err == nil
}

// requireRow fails unless a row agrees with the event.
func (e *listedEvent) requireRow(t tester, states map[uint64]record.State, q *records.Filter, row records.Record) {
	t.Helper()
	require.Equal(t, e.hash, row.EventHash)
	require.Equal(t, e.seq, row.Seq)
	require.Equal(t, e.Kind, row.Kind)
	require.True(t, e.Time.Equal(row.Time))
	require.Equal(t, states[e.seq], row.State)
	require.Equal(t, e.Record.RunID, row.RunID)
	require.Equal(t, e.Record.Timestamp, row.Timestamp)
	var hashes map[string]*string
	require.NoError(t, json.Unmarshal(row.Hashes, &hashes))
	require.Equal(t, len(e.Record.Hashes), len(hashes))
	for name, hash := range e.Record.Hashes {
		require.Equal(t, hash, hashes[name])
	}
	var labels map[string]string
	require.NoError(t, json.Unmarshal(row.Labels, &labels))
	require.Equal(t, fmt.Sprint(e.Record.Labels), fmt.Sprint(labels))
	var mismatches []string
	for name, check := range e.Checks {
		if check.Result == "mismatch" {
			mismatches = append(mismatches, name)
		}
	}
	require.ElementsMatch(t, mismatches, row.Mismatches)
	var broken []string
	for name := range e.Checks {
		if rule, is := strings.CutPrefix(name, "verdict:"); is {
			broken = append(broken, rule)
		}
	}
	require.ElementsMatch(t, broken, row.BrokenRules)
	if !q.IncludeBodies {
		require.Nil(t, row.Body)
		return
	}
	require.Contains(t, string(row.Body), `"seq":`+strconv.FormatUint(e.seq, 10)+`,"time":`)
}
