package record

import (
	"strconv"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/strict"
)

// ValidationFields is what a path_validated event says: which fingerprint of which path was
// validated or not (spec: Path fingerprints).
type ValidationFields struct {
	Project, PathID    []byte
	ContentFingerprint []byte // the one that was current; nil for null
	RecordSeq          uint64 // of the path's record that was current
	Validated          bool
	Reason             []byte // nil when there is none
}

// CurrentPath is a path as the latest record of it says (spec: Path validation).
type CurrentPath struct {
	Project, PathID    string // valid UTF-8
	ContentFingerprint string // empty is null
	RecordSeq          uint64
}

// ParseValidation decodes `{"validated", "reason"?}` for a path. What is
// validated is the fingerprint that it has now. The error is an *Error.
func ParseValidation(path CurrentPath, body []byte) (*Verb, error) {
	f := &ValidationFields{Project: []byte(path.Project), PathID: []byte(path.PathID), RecordSeq: path.RecordSeq}
	if path.ContentFingerprint != "" {
		f.ContentFingerprint = []byte(path.ContentFingerprint)
	}
	return parseVerb(PathValidated, f, body, func(o strict.Object) {
		f.Validated, f.Reason = o.RequiredFlag("validated"), o.Text("reason", maxReason)
	}, "validated", "reason")
}

// Check implements Fields.
func (f *ValidationFields) Check() error {
	var c forms
	c.required("path_id", f.PathID, maxName)
	c.required("project", f.Project, maxName)
	c.text("reason", f.Reason, MaxReason)
	return c.err
}

func (f *ValidationFields) appendAsked(w *pyjson.Builder) {
	w.Text("path_id", f.PathID)
	w.Text("project", f.Project)
	w.Text("reason", f.Reason)
	w.Raw("validated", strconv.AppendBool(nil, f.Validated))
}

// The fingerprint and the record are what the ledger knew at the time of the request: the
// digest does not cover them.
func (f *ValidationFields) append(w *pyjson.Builder, c *CommonFields) {
	w.Open()
	c.appendIdentity(w)
	f.appendAsked(w)
	w.Nullable("content_fingerprint", f.ContentFingerprint)
	appendNumber(w, "record_seq", f.RecordSeq)
	w.Close()
}
