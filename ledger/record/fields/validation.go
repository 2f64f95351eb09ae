package fields

import (
	"strconv"

	"colophon/ledger/record/pyjson"
)

// PathValidation holds the fields of a path_validated event, which states whether the fingerprint of a
// path in a build is valid (spec: Path validation).
type PathValidation struct {
	Project, PathID    []byte
	Build              []byte // build named by the record; nil if it names none
	ContentFingerprint []byte // content_fingerprint of the record; nil if it is null
	RecordSeq          uint64 // seq of the path's latest record in that build
	Validated          bool
	Reason             []byte // nil if there is none
	OriginalAction
	// Names says which of build and content_fingerprint the request contains. The digest covers
	// only those.
	Names ValidationNames
}

// ValidationNames says which of the members build and content_fingerprint a validation request
// contains.
type ValidationNames struct{ Build, ContentFingerprint bool }

// Check implements Fields.
func (f *PathValidation) Check() error {
	var c forms
	c.required("path_id", f.PathID, MaxName)
	c.required("project", f.Project, MaxName)
	c.text("build", f.Build, MaxName)
	c.text("reason", f.Reason, MaxReason)
	f.OriginalAction.check(&c)
	return c.err
}

func (f *PathValidation) appendRequest(w *pyjson.Builder) {
	if f.Names.Build {
		w.Text("build", f.Build)
	}
	if f.Names.ContentFingerprint {
		w.Text("content_fingerprint", f.ContentFingerprint)
	}
	f.appendChange(w)
}

func (f *PathValidation) appendChange(w *pyjson.Builder) {
	f.OriginalAction.append(w)
	w.Text("path_id", f.PathID)
	w.Text("project", f.Project)
	w.Text("reason", f.Reason)
	w.Raw("validated", strconv.AppendBool(nil, f.Validated))
}

// Append implements Fields. It writes all the fields. The digest does not cover the ones that the
// ledger adds: record_seq and, unless the request contained them, build and content_fingerprint.
func (f *PathValidation) Append(w *pyjson.Builder, c *CommonFields) {
	w.Open()
	c.appendIdentity(w)
	f.appendChange(w)
	w.Text("build", f.Build)
	w.NullableText("content_fingerprint", f.ContentFingerprint)
	if names := f.Names.list(); len(names) > 0 {
		w.Texts("names", names)
	}
	w.Uint("record_seq", f.RecordSeq)
	w.Close()
}

// list returns the names of the members that the request contained, in the order in which the event
// lists them.
func (n ValidationNames) list() (names [][]byte) {
	if n.Build {
		names = append(names, []byte("build"))
	}
	if n.ContentFingerprint {
		names = append(names, []byte("content_fingerprint"))
	}
	return names
}
