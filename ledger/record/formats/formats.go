// Package formats converts files from other systems into records (docs/users.md, "Files of other
// systems"). It supports run logs and saves of Axis Descriptor Lab, the citations of a run, a
// story's validation cache, and the providence cache of question-answering engines. It also
// supports exports from the observability tools Langfuse, MLflow, and Phoenix. The package accounts
// for every member that it reads. It does no I/O and reads no clock.
package formats

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
)

// Format is the name of a file format used by another system.
type Format string

// These are the formats of files. A native value is the unit that is converted to one or more
// records; the comment on each format says what that unit is.
const (
	AxisLabLog      Format = "axis-log"         // a line of run_log.jsonl
	AxisLabSave     Format = "axis-save"        // an object with the files in a folder, keyed by name
	CitationsFile   Format = "citations"        // content of a run's citations.json
	ValidationCache Format = "validation-cache" // an object with the entries for paths, keyed by path ID
	ProvidenceCache Format = "providence"       // a row of providence_cache, as an object
)

// These are the formats of exports from observability tools. A native value can contain any number
// of generations.
const (
	Langfuse Format = "langfuse" // an observation, or a page or trace of observations
	MLflow   Format = "mlflow"   // a trace, or a row of mlflow.search_traces
	Phoenix  Format = "phoenix"  // a row of a dataframe, or a span or page of spans from the API
)

// BatchFormats contains the formats that a line of a batch can have, and ImportFormats contains those that an
// import accepts.
var (
	BatchFormats  = []Format{AxisLabLog, AxisLabSave, CitationsFile, ValidationCache, ProvidenceCache}
	ImportFormats = append(slices.Clone(BatchFormats), Langfuse, MLflow, Phoenix)
)

// Parse returns the format with the given name, or an error if it is not in list.
func Parse(name string, list []Format) (Format, error) {
	if f := Format(name); slices.Contains(list, f) {
		return f, nil
	}
	return "", fmt.Errorf("%q is not a supported format; use %s", name, JoinNames(list))
}

// IsExport reports whether f is the format of an export from an observability tool.
func (f Format) IsExport() bool { return !slices.Contains(BatchFormats, f) }

// JoinNames joins the names in list with commas and a final "or", for use in messages. list must have
// at least two elements.
func JoinNames(list []Format) string {
	text := ""
	for i, f := range list {
		switch {
		case i == len(list)-1:
			text += " or "
		case i > 0:
			text += ", "
		}
		text += string(f)
	}
	return text
}

// Options contains everything that a conversion needs apart from the value to convert.
type Options struct {
	// DefaultZone is the time zone that is assumed for times without one. If DefaultZone is nil,
	// such a time is kept as a label.
	DefaultZone *time.Location
	// Project, Subject, and RunID are defaults for members that the native value lacks: Project is
	// the project of the paths in a validation cache, and Subject and RunID are the subject and the
	// run_id of a citation set.
	Project, Subject, RunID string
	// MaxMembers is the maximum number of members of a native value that a Conversion accounts for,
	// including the members of JSON inside strings. It also limits the total length of their
	// pointers and patterns to 256 bytes times MaxMembers. A Conversion that exceeds either limit
	// has no record. If MaxMembers is 0, there is no limit.
	MaxMembers int
	Limits     record.Limits // limits on each record
}

// Conversion is one record made from a value in the format of another system, or the reason why no
// record was made.
type Conversion struct {
	// Name distinguishes the Conversions of one native value. It is empty if there can be only one.
	Name string
	Kind record.Kind // kind of the record
	// Record is the JSON body of the POST request for the record. If there is no record, Record is
	// nil and FailureReason says why.
	Record        []byte
	FailureReason string
	// Key is the record's idempotency key. It depends only on the format, the native value, the
	// project, the subject, and the run, so importing the value again yields the same key.
	Key string
	// Change is the change to make after the record has been posted; nil if there is none.
	Change         *RecordChange
	MemberOutcomes []MemberOutcome // what was done with the members of the native value
}

// RecordChange is a change to a record's state, or a validation of a record's path.
type RecordChange struct {
	State  record.State // new state of the record; empty if the change is a validation
	PathID string       // ID of the path to validate; empty if the change is to the state
	Reason string
	Key    string // idempotency key of the change
	// OriginalActor names the actor of the change in the other system, and Timestamp is the time of
	// the change. Each is empty if unknown.
	OriginalActor, Timestamp string
}

// Kind returns the kind of the event that makes the change.
func (c *RecordChange) Kind() record.Kind {
	if c.State == "" {
		return record.KindPathValidated
	}
	return record.KindRecordStateChanged
}

// Project returns the project of the record, which is needed to validate the record's path. It
// returns "" if there is no record or the record has no project.
func (e *Conversion) Project() string {
	var d pyjson.Document
	if d.Parse(e.Record) != nil {
		return ""
	}
	return string(d.Root().Member("project").Text())
}

// Outcome says what a conversion did with a member of a native value.
type Outcome string

// These are the values of Outcome. A message consists of an Outcome followed by
// MemberOutcome.Detail.
const (
	OutcomeField   Outcome = "taken as"        // the member became a field of the record, or part of one
	OutcomeLabel   Outcome = "kept as label"   // the member became a label of the record
	OutcomeContent Outcome = "kept as content" // the member became a part of the record that is stored as content
	OutcomeLeftOut Outcome = "left"            // the record does not contain the member
)

// DetailNull is the MemberOutcome.Detail of a member that is left out because it is null.
const DetailNull = "the value is null"

// MemberOutcome says what a conversion did with one member of a native value.
type MemberOutcome struct {
	// Pointer and Pattern locate the member: Pointer is a JSON pointer into the native value, and
	// Pattern is Pointer with * in place of indexes and of the names of entries.
	Pointer, Pattern string
	Outcome          Outcome
	// Detail says where the member is in the record, or why it was left out.
	Detail string
}

// Convert converts a JSON object in format f to any number of Conversions. It returns an error only
// if native is not a JSON object, exceeds o.Limits.MaxJSONValues, or f is unknown. All other
// problems are reported in the Conversions.
func (f Format) Convert(native []byte, o Options) ([]Conversion, error) {
	var d pyjson.Document
	if err := d.ParseLimited(native, o.Limits.MaxJSONValues); err != nil {
		return nil, err
	}
	return f.ConvertValue(d.Root(), o)
}

// ConvertValue is like Convert, but for a value that has already been parsed. The Conversions do
// not share memory with v.
func (f Format) ConvertValue(v pyjson.Value, o Options) ([]Conversion, error) {
	if v.Kind() != pyjson.Object {
		return nil, errors.New("must be a JSON object")
	}
	switch f {
	case AxisLabLog:
		return []Conversion{axisLog(v, o)}, nil
	case AxisLabSave:
		return []Conversion{axisSave(v, o)}, nil
	case CitationsFile:
		return []Conversion{citations(v, o)}, nil
	case ValidationCache:
		return validationCache(v, o), nil
	case ProvidenceCache:
		return []Conversion{providence(v, o)}, nil
	case Langfuse:
		return langfuse(v, o), nil
	case MLflow:
		return mlflow(v, o), nil
	case Phoenix:
		return phoenix(v, o), nil
	}
	return nil, fmt.Errorf("unsupported format %q; use %s", f, JoinNames(ImportFormats))
}

// Check parses the record as the ledger would and returns the error, if any, that would make the
// ledger refuse the record. If there is no record, it returns an error with the text of
// FailureReason.
func (e *Conversion) Check(l record.Limits) error {
	if e.Record == nil {
		return errors.New(e.FailureReason)
	}
	r, err := l.ParseRecord(e.Kind, e.Record)
	if err != nil {
		return err
	}
	r.Release()
	return nil
}

// AppendBatchLine appends the record to dst as a line of a POST /batch request, without the line
// feed.
func (e *Conversion) AppendBatchLine(dst []byte) []byte {
	dst = append(append(append(dst, `{"kind":"`...), e.Kind...), `","record":`...)
	dst = append(append(dst, e.Record...), `,"idempotency_key":`...)
	return append(pyjson.AppendString(dst, []byte(e.Key)), '}')
}

// key returns the idempotency key for a native value. parts contains the other values that the
// record depends on, such as its project. key ignores null members and members named in skip,
// because these do not become part of the record and can change later. It treats a string that
// contains JSON like the JSON itself, so a database row and its export have the same key.
func key(f Format, v pyjson.Value, skip map[string]bool, parts ...string) string {
	text := append([]byte(f), 0)
	for _, part := range parts {
		text = append(strconv.AppendInt(text, int64(len(part)), 10), ':')
		text = append(text, part...)
	}
	w := pyjson.Builder{Buf: append(text, 0)}
	w.BeginObject()
	for name, value := range v.Members() {
		if value.IsGiven() && !skip[string(name.Text())] {
			w.BeginMember(string(name.Text()))
			w.Buf = appendUnwrapped(w.Buf, value, 0)
		}
	}
	w.EndObject()
	sum := sha256.Sum256(w.Buf)
	return "import:" + string(f) + ":" + hex.EncodeToString(sum[:])
}

// appendUnwrapped appends v in a canonical form in which each string that contains a JSON array or
// object is replaced by that array or object.
func appendUnwrapped(dst []byte, v pyjson.Value, depth int) []byte {
	const deepest = 16 // maximum nesting depth, counting JSON inside strings
	inner, ok := jsonOf(v)
	if !ok || inner.Kind() < pyjson.Array || depth == deepest {
		return v.AppendCanonical(dst, pyjson.CompactForm)
	}
	if isArray(inner) {
		dst = append(dst, '[')
		for e := range inner.Elements() {
			dst = append(appendUnwrapped(dst, e, depth+1), ',')
		}
		return append(dst, ']')
	}
	dst = append(dst, '{')
	for name, value := range inner.SortedMembers() {
		dst = append(pyjson.AppendString(dst, name.Text()), ':')
		dst = append(appendUnwrapped(dst, value, depth+1), ',')
	}
	return append(dst, '}')
}
