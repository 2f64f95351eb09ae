package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"colophon/client/wire"
	"colophon/ledger/drift"
	"colophon/ledger/event"
	"colophon/ledger/figures"
	"colophon/ledger/index"
	"colophon/ledger/index/citations"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/records"
	"colophon/ledger/index/runs"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/storage"
)

// driftQuestions lists the questions about IPC records (spec: Runs; Causes).
var driftQuestions = []Question{
	{Path: "/drift/attribution", SharedParameters: ProofsParameter | TextParameter | NamesParameter, ParameterNames: []string{"a", "b"}, SeqParameters: []string{"a", "b"}, ParseParameters: askWith(parsePair("an IPC record"), DifferenceCause)},
	{Path: "/drift/timeline", SharedParameters: PageParameters | StateParameter | ProofsParameter | SeededParameter | TextParameter | NamesParameter, ValueParameters: groupings, ParseParameters: askWith(parseTimeline, Timeline)},
}

// generation returns the members that are common to all rows about IPC records.
func generation(v *View, r *records.IPCRecord) wire.Generation {
	return wire.Generation{RowMembers: v.row(r.Seq), RunID: index.StringPointer(r.RunID), Time: timeOf(r.Time),
		IPCID: index.StringPointer(r.IPCID), OutputHash: index.StringPointer(r.OutputHash),
		Names: named(v, func(n *figures.NameFinder) (*wire.RunNames, error) { return n.RunNames(v.Context, r.Seq) })}
}

// differences lists the variables whose values differ between two records.
func differences(a *drift.RunChange) []wire.VariableDifference {
	list := make([]wire.VariableDifference, len(a.Differences))
	for i, d := range a.Differences {
		list[i] = wire.VariableDifference{Variable: d.Variable, A: valueOf(d.Variable, d.ValueA), B: valueOf(d.Variable, d.ValueB)}
		for _, m := range d.Members {
			list[i].Members = append(list[i].Members, wire.MemberDifference{Pointer: m.Pointer, A: index.StringPointer(m.DigestA), B: index.StringPointer(m.DigestB)})
		}
	}
	return list
}

// valueOf returns a value as JSON, in the form that events use. Numbers are already canonical JSON. An unknown value
// is nil, which JSON shows as null.
func valueOf(variable string, value []byte) json.RawMessage {
	switch drift.Cause(variable) {
	case drift.CauseTemperature, drift.CauseMaxTokens, drift.CauseSeed, drift.CauseEvidence:
		return value
	}
	if value == nil {
		return nil
	}
	return pyjson.AppendString(nil, value)
}

// RecordPair holds the seqs of two records to compare.
type RecordPair struct{ A, B uint64 }

// parsePair returns the parse function for the parameters a and b. kind describes the records and includes an
// article, such as "an IPC record".
func parsePair(kind string) func(Parameters) (RecordPair, error) {
	seq := func(p Parameters, name string) (uint64, error) {
		seq, given, err := p.ParseUint(name)
		if err == nil && !given {
			err = invalid(name, "is required: the seq of %s", kind)
		}
		return seq, err
	}
	return func(p Parameters) (pair RecordPair, err error) {
		if pair.A, err = seq(p, "a"); err == nil {
			pair.B, err = seq(p, "b")
		}
		return pair, err
	}
}

// readPair reads two records to compare. kind includes an article, such as "an IPC record".
func readPair[R any](v *View, pair RecordPair, kind string, read func(context.Context, *index.View, uint64) (R, error)) (a, b R, err error) {
	if a, err = readOne(v, "a", pair.A, kind, read); err == nil {
		b, err = readOne(v, "b", pair.B, kind, read)
	}
	return a, b, err
}

func readOne[R any](v *View, name string, seq uint64, kind string, read func(context.Context, *index.View, uint64) (R, error)) (found R, err error) {
	if seq >= v.Size() {
		return found, invalid(name, "there is no event %d at tree size %d", seq, v.Size())
	}
	found, err = read(v.Context, v.View, seq)
	if errors.Is(err, storage.ErrNotFound) {
		_, kind, _ = strings.Cut(kind, " ")
		err = &Error{ReasonWrongKind, name, fmt.Sprintf("event %d is not of kind %s", seq, kind)}
	}
	return found, err
}

// DifferenceCause returns the cause of the difference between two IPC records.
func DifferenceCause(v *View, pair RecordPair) (*wire.DriftAttribution, error) {
	change, err := attribute(v, pair)
	if err != nil {
		return nil, err
	}
	answer := &wire.DriftAttribution{IPCChange: *change}
	if answer.Text, err = v.attributionTexts(pair); err != nil {
		return nil, err
	}
	if v.TextComparer != nil && len(answer.Differences) > 0 {
		if err := v.TextComparer.SetMemberValues(v.Context, pair.A, pair.B, answer.Differences[0].Members); err != nil {
			return nil, err
		}
	}
	answer.IndexedTreeSize, err = v.tree()
	return answer, err
}

// attribute compares two IPC records and the citation sets of their runs.
func attribute(v *View, pair RecordPair) (*wire.IPCChange, error) {
	a, b, err := readPair(v, pair, "an IPC record", records.ReadIPCRecord)
	if err != nil {
		return nil, err
	}
	sets, err := citations.CompareLatestSets(v.View, a.RunID, b.RunID, v.Size())
	if err != nil {
		return nil, err
	}
	found := drift.CompareRuns(&a.IPC, &b.IPC, sets)
	change := &wire.IPCChange{Cause: wire.DriftCause(found.Cause), OutputChanged: found.OutputChanged, Differences: differences(&found)}
	if change.A, err = attributedRecord(v, &a); err != nil {
		return nil, err
	}
	if change.B, err = attributedRecord(v, &b); err != nil {
		return nil, err
	}
	for i := range found.Differences {
		d := &found.Differences[i]
		d.NameA, d.NameB = change.A.Names.NameOf(d.Variable), change.B.Names.NameOf(d.Variable)
	}
	change.Summary = found.Sentence() + mismatchNote(&change.A)
	if a.Seq != b.Seq {
		change.Summary += mismatchNote(&change.B)
	}
	return change, nil
}

// attributedRecord returns one of two compared records with its state and its mismatches.
func attributedRecord(v *View, r *records.IPCRecord) (wire.ComparedRecord, error) {
	row := wire.ComparedRecord{Generation: generation(v, r)}
	state, err := records.StateOf(v.View, r.Seq)
	if err != nil {
		return row, err
	}
	row.State = wire.State(state)
	row.Mismatches, err = mismatches(v, r.Seq)
	return row, err
}

// mismatches returns the fields of an event whose check has the result mismatch, sorted by name.
func mismatches(v *View, seq uint64) ([]string, error) {
	entry, err := v.Log.Entry(v.Context, seq)
	if err != nil {
		return nil, fmt.Errorf("reading entry %d: %w", seq, err)
	}
	var decoder event.Decoder
	e, err := decoder.Decode(entry)
	if err != nil {
		return nil, fmt.Errorf("reading event %d: %w", seq, err)
	}
	fields := []string{}
	for name, check := range e.Checks.Members() {
		if string(check.Member("result").Text()) == string(record.ResultMismatch) {
			fields = append(fields, string(name.Text()))
		}
	}
	return fields, nil
}

// mismatchNote returns a sentence that lists the compared hashes of a record that do not match their claims.
// The result is either empty or begins with a space.
func mismatchNote(r *wire.ComparedRecord) string {
	if sentence := drift.MismatchSentence(r.Seq, r.Mismatches); sentence != "" {
		return " " + sentence
	}
	return ""
}

// groupings lists the names of the values by which runs can be grouped.
var groupings = []string{"ipc_id", "input", "input_hash", "system_prompt_hash", "output_hash", "model", "ollama_build_hash", "label:<name>"}

// parseTimeline parses the parameter that selects the runs. There must be exactly one such parameter.
func parseTimeline(p Parameters) (value records.Value, err error) {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if !groups.IsValidGrouping(name) {
			continue
		}
		if value.Name != "" {
			return value, invalid(name, "cannot be combined with %s; use only one of them", value.Name)
		}
		value = records.Value{Name: name, Text: p[name]}
	}
	if value.Name == "" {
		err = invalid("input", "is required to select the runs, unless input_hash, ipc_id, system_prompt_hash, output_hash, model, ollama_build_hash or label:<name> is given")
	}
	return value, err
}

// Timeline lists the runs of a group in log order, each with the cause of its change from the previous run.
func Timeline(v *View, value records.Value) (*wire.RunPage[wire.TimelineRow], error) {
	found, next, err := runs.Timeline(v.Context, v.View, groups.RunQuery{Value: value, AnyState: v.AnyState, SeededOnly: v.SeededOnly}, v.Page)
	if err != nil {
		return nil, err
	}
	answer, err := runPage(v, found, next, timelineRow)
	if err != nil || v.TextComparer == nil {
		return answer, err
	}
	var work figures.Work
	for i := range answer.Rows {
		if answer.Rows[i].Text, err = v.outputChange(answer.Rows[i].PreviousSeq, answer.Rows[i].Seq, &work); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

func timelineRow(v *View, s *runs.TimelineStep) wire.TimelineRow {
	row := wire.TimelineRow{Generation: generation(v, &s.IPCRecord), State: wire.State(s.State), PreviousSeq: s.PreviousSeq,
		Differences: differences(&s.RunChange)}
	if s.PreviousSeq != nil { // the first run has no previous one
		cause := wire.DriftCause(s.Cause)
		row.Cause, row.OutputChanged = &cause, &s.OutputChanged
	}
	return row
}

// outputChange returns the change of the output from run a to run b. If a is nil, it returns the length of b's output.
func (v *View) outputChange(a *uint64, b uint64, work *figures.Work) (*wire.TextChange, error) {
	if a == nil {
		change, err := v.TextComparer.MeasureContent(v.Context, figures.ContentOutput, b, work)
		return &change, err
	}
	change, err := v.TextComparer.CompareContent(v.Context, figures.ContentOutput, *a, b, work)
	return &change, err
}

// attributionTexts returns figures about the changes between the texts of two records, or nil if the request does not
// ask for figures.
func (v *View) attributionTexts(pair RecordPair) (texts *wire.RunTextChanges, err error) {
	if v.TextComparer == nil {
		return nil, nil
	}
	texts = new(wire.RunTextChanges)
	for name, to := range map[string]*wire.TextChange{figures.ContentOutput: &texts.Output, figures.ContentSystemPrompt: &texts.Prompt, figures.ContentPayload: &texts.Payload} {
		if *to, err = v.TextComparer.CompareContent(v.Context, name, pair.A, pair.B, new(figures.Work)); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// ReproductionQuestion asks whether a re-run reproduced a record (spec: Causes). It has no Path, because its request has a
// body. The path element seq names the record.
var ReproductionQuestion = Question{SharedParameters: ProofsParameter, SeqParameters: []string{"seq"}}

// CheckReproduction compares the IPC record at seq with its re-run. It calls rerun to obtain the re-run.
func CheckReproduction(v *View, seq uint64, rerun func(*records.IPCRecord) (event.IPC, error)) (*wire.Reproduction, error) {
	recorded, err := records.ReadIPCRecord(v.Context, v.View, seq)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, &Error{ReasonWrongKind, "seq", fmt.Sprintf("event %d is not an IPC record, or is not among the first %d events", seq, v.Size())}
	}
	if err != nil {
		return nil, err
	}
	again, err := rerun(&recorded)
	if err != nil {
		return nil, err
	}
	found := drift.CompareRuns(&recorded.IPC, &again, drift.CitationSetPair{})
	answer := &wire.Reproduction{
		Record: generation(v, &recorded), IPCID: hashPair(recorded.IPCID, again.IPCID), OutputHash: hashPair(recorded.OutputHash, again.OutputHash),
		Cause: wire.DriftCause(found.Cause), OutputChanged: found.OutputChanged, Differences: differences(&found),
	}
	answer.Summary = verdict(answer) + found.Sentence()
	answer.IndexedTreeSize, err = v.tree()
	return answer, err
}

func hashPair(recorded, rerun []byte) wire.HashPair {
	return wire.HashPair{Recorded: index.StringPointer(recorded), Rerun: index.StringPointer(rerun), Match: recorded != nil && string(recorded) == string(rerun)}
}

// verdict returns a sentence about the result. The sentence is either empty or ends with a space.
func verdict(r *wire.Reproduction) string {
	same := !slices.ContainsFunc(r.Differences, func(d wire.VariableDifference) bool { return !drift.IsEnvironmentProperty(d.Variable) })
	switch {
	case r.Cause == wire.DriftCauseIncomplete:
		return ""
	case r.OutputHash.Match && same:
		return "Reproduced: the same input and conditions gave the same output. "
	case r.OutputHash.Match:
		return "The output is the same, but it was made under different conditions, which proves little. "
	case same:
		return "Not reproduced: the input and conditions are the same, but the output is not. "
	}
	return "Not a reproduction: the conditions differ, and so does the output. "
}
