package record

import (
	"strconv"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/strict"
)

// ValidationFields are the fields of a path_validated event: which fingerprint of which path
// is valid or not (spec: Path fingerprints).
type ValidationFields struct {
	Project, PathID    []byte
	ContentFingerprint []byte // the current one; nil for null
	RecordSeq          uint64 // of the path's current record
	Validated          bool
	Reason             []byte // nil if there is none
	Origin
}

// CurrentPath is a path with the fingerprint of its latest record (spec: Path validation).
type CurrentPath struct {
	Project, PathID    string // valid UTF-8
	ContentFingerprint string // empty is null
	RecordSeq          uint64
}

// ParseValidation decodes `{"validated", "reason"?, "original_actor"?, "timestamp"?}` for a
// path. It validates the path's current fingerprint. The error is a *strict.Error.
func ParseValidation(path CurrentPath, body []byte) (*Verb, error) {
	f := &ValidationFields{Project: []byte(path.Project), PathID: []byte(path.PathID), RecordSeq: path.RecordSeq}
	if path.ContentFingerprint != "" {
		f.ContentFingerprint = []byte(path.ContentFingerprint)
	}
	return parseVerb(PathValidated, f, body, func(o strict.Object) {
		f.Validated, f.Reason, f.Origin = o.RequiredFlag("validated"), o.Text("reason", maxReason), readOrigin(o)
	}, append([]string{"validated", "reason"}, originNames...)...)
}

// Check implements Fields.
func (f *ValidationFields) Check() error {
	var c forms
	c.required("path_id", f.PathID, maxName)
	c.required("project", f.Project, maxName)
	c.text("reason", f.Reason, MaxReason)
	f.Origin.check(&c)
	return c.err
}

func (f *ValidationFields) appendAsked(w *pyjson.Builder) {
	f.Origin.append(w)
	w.Text("path_id", f.PathID)
	w.Text("project", f.Project)
	w.Text("reason", f.Reason)
	w.Raw("validated", strconv.AppendBool(nil, f.Validated))
}

// append writes all fields. The digest does not cover fingerprint and record, which the ledger
// adds.
func (f *ValidationFields) append(w *pyjson.Builder, c *CommonFields) {
	w.Open()
	c.appendIdentity(w)
	f.appendAsked(w)
	w.Nullable("content_fingerprint", f.ContentFingerprint)
	appendNumber(w, "record_seq", f.RecordSeq)
	w.Close()
}
