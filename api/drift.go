package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/labstack/echo/v4"

	"colophon/ledger/drift"
	"colophon/ledger/event"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/records"
	"colophon/ledger/index/runs"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
)

// Queries about IPC records (spec: Runs; Groups; Causes).

// generationRow is what queries say of each IPC record. Hashes are null where the
// record has none.
type generationRow struct {
	proved
	RunID      *string `json:"run_id"`
	Time       string  `json:"time"`
	IPCID      *string `json:"ipc_id"`
	OutputHash *string `json:"output_hash"`
}

func generationRowOf(r *records.IPCRecord) generationRow {
	return generationRow{proved{Seq: r.Seq}, textOrNull(r.RunID), r.Time.Format(record.TimeLayout), textOrNull(r.IPCID), textOrNull(r.OutputHash)}
}

// difference is a variable that two records have different values of.
type difference struct {
	Variable string          `json:"variable"`
	A        json.RawMessage `json:"a"` // null where it is not known
	B        json.RawMessage `json:"b"`
}

func differencesOf(a *drift.Attribution) []difference {
	list := make([]difference, len(a.Differences))
	for i, d := range a.Differences {
		list[i] = difference{d.Variable, valueOf(d.Variable, d.A), valueOf(d.Variable, d.B)}
	}
	return list
}

// valueOf is a value as records have it: the numbers among them are canonical JSON.
func valueOf(variable string, value []byte) json.RawMessage {
	switch drift.Cause(variable) {
	case drift.Temperature, drift.MaxTokens, drift.Seed:
		return value
	}
	if value == nil {
		return nil
	}
	return pyjson.AppendString(nil, value)
}

// attribution says what differs between two records and what that means.
type attribution struct {
	Cause         drift.Cause  `json:"cause"`
	OutputChanged bool         `json:"output_changed"`
	Differences   []difference `json:"differences"`
	Says          string       `json:"says"`
}

func attributionOf(a *drift.Attribution) attribution {
	return attribution{a.Cause, a.OutputChanged, differencesOf(a), a.Sentence()}
}

// attributedRow is one of two records that are compared.
type attributedRow struct {
	generationRow
	State      string   `json:"state"`
	Mismatches []string `json:"mismatches"` // fields whose claim did not hold
}

// read makes the row of a record.
func (r *attributedRow) read(q *question, of *records.IPCRecord) (err error) {
	r.generationRow = generationRowOf(of)
	if r.State, err = records.State(q.view, of.Seq); err != nil {
		return err
	}
	if r.Mismatches, err = mismatchesOf(q, of.Seq); err != nil {
		return err
	}
	return r.proveIn(q)
}

// mismatchesOf are the fields of an event whose checks failed, in the order of their
// names.
func mismatchesOf(q *question, seq uint64) ([]string, error) {
	entry, err := q.ledger.Store().Entry(q.ctx, seq)
	if err != nil {
		return nil, fmt.Errorf("entry %d: %w", seq, err)
	}
	var decoder event.Decoder
	e, err := decoder.Decode(entry)
	if err != nil {
		return nil, fmt.Errorf("reading event %d: %w", seq, err)
	}
	fields := []string{}
	for name, check := range e.Checks.Members() {
		if string(check.Member("result").Text()) == string(record.Mismatch) {
			fields = append(fields, string(name.Text()))
		}
	}
	return fields, nil
}

// doubts says which of the compared hashes are not what was claimed; it begins with a
// space where it says anything.
func (r *attributedRow) doubts() string {
	if sentence := drift.MismatchSentence(r.Seq, r.Mismatches); sentence != "" {
		return " " + sentence
	}
	return ""
}

// attributed is the answer to what caused a change.
type attributed struct {
	taken
	A attributedRow `json:"a"`
	B attributedRow `json:"b"`
	attribution
}

// attribute answers what caused the change from one IPC record to another.
func (s *Server) attribute(c echo.Context) error {
	q, recordA, recordB, err := askedToCompare(s, c, "an", "IPC record", records.ReadIPCRecord)
	if err != nil {
		return err
	}
	defer q.close()
	found := drift.Attribute(&recordA.IPC, &recordB.IPC)
	answer := &attributed{attribution: attributionOf(&found)}
	if err := errors.Join(answer.A.read(q, &recordA), answer.B.read(q, &recordB)); err != nil {
		return err
	}
	answer.Says += answer.A.doubts()
	if recordB.Seq != recordA.Seq {
		answer.Says += answer.B.doubts()
	}
	return answerOne(q, answer)
}

// stepRow is a run against the one before it; there is none before the first.
type stepRow struct {
	generationRow
	State         string       `json:"state"`
	Against       *uint64      `json:"against"`
	Cause         *drift.Cause `json:"cause"`
	OutputChanged *bool        `json:"output_changed"`
	Differences   []difference `json:"differences"`
}

// timeline answers the runs of a group in order, each with its cause against the
// one before.
func (s *Server) timeline(c echo.Context) error {
	var group groups.RunQuery
	q, err := s.asked(c, paged|stated|provable, groupParameters(c, &group)...)
	if err != nil {
		return err
	}
	defer q.close()
	if group.Name == "" {
		return invalid("input_hash", "is required, or ipc_id, system_prompt_hash, output_hash, model or label:<name>: the runs that are wanted")
	}
	group.Any = q.any
	found, next, err := runs.Timeline(q.ctx, q.view, group, q.page)
	if err != nil {
		return err
	}
	rows := make([]stepRow, len(found))
	for i, f := range found {
		rows[i] = stepRow{generationRow: generationRowOf(&f.IPCRecord), State: string(f.State), Against: f.Against,
			Differences: differencesOf(&f.Attribution)}
		if f.Against != nil {
			rows[i].Cause, rows[i].OutputChanged = &found[i].Cause, &found[i].OutputChanged
		}
	}
	return answerRows(q, rows, next)
}

// groupings are the names that runs are grouped by; the last stands for every label.
var groupings = []string{"ipc_id", "input_hash", "system_prompt_hash", "output_hash", "model", "label:<name>"}

// groupParameters are the names that runs are grouped by, as parameters: one of them
// may be given.
func groupParameters(c echo.Context, group *groups.RunQuery) []parameter {
	names := slices.Clone(groupings)
	for name := range c.QueryParams() {
		if groups.Grouped(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	var own []parameter
	for _, name := range names {
		own = append(own, parameter{name, func(value string) error {
			if group.Name != "" {
				return invalid(max(name, group.Name), "is one too many beside %s: give one of them", min(name, group.Name))
			}
			group.Value = records.Value{Name: name, Text: value}
			return valueForm(name).check(name, value)
		}, valueForm(name) == anyForm})
	}
	return own
}
