package fields

import (
	"strconv"

	"colophon/ledger/record/pyjson"
)

// PathValidation holds the fields of a path_validated event, which states whether the fingerprint of a
// path in a build is valid (spec: Path validation).
type PathValidation struct {
	Project, PathID    []byte
	Build              []byte // build of the validated record; nil if the record has no build
	ContentFingerprint []byte // content_fingerprint of the validated record; nil if it is null
	RecordSeq          uint64 // seq of the path's latest record in Build
	Validated          bool   // true validates the record; false withdraws its validation
	Reason             []byte // nil if there is none
	ActionOrigin
	// Presence says which of build and content_fingerprint the request contains. The digest covers
	// each of these members only if the request contains it.
	Presence ValidationPresence
}

// ValidationPresence says which of the members build and content_fingerprint a validation request
// contains.
type ValidationPresence struct{ HasBuild, HasContentFingerprint bool }

// Check implements Fields.
func (f *PathValidation) Check() error {
	var c forms
	c.required("path_id", f.PathID, MaxNameBytes)
	c.required("project", f.Project, MaxNameBytes)
	c.text("build", f.Build, MaxNameBytes)
	c.text("reason", f.Reason, MaxReasonBytes)
	f.ActionOrigin.check(&c)
	return c.err
}

func (f *PathValidation) appendRequest(w *pyjson.Builder) {
	if f.Presence.HasBuild {
		w.AddText("build", f.Build)
	}
	if f.Presence.HasContentFingerprint {
		w.AddText("content_fingerprint", f.ContentFingerprint)
	}
	f.appendChange(w)
}

func (f *PathValidation) appendChange(w *pyjson.Builder) {
	f.ActionOrigin.append(w)
	w.AddText("path_id", f.PathID)
	w.AddText("project", f.Project)
	w.AddText("reason", f.Reason)
	w.AddRaw("validated", strconv.AppendBool(nil, f.Validated))
}

// Append implements Fields. It also writes the fields that the ledger adds, which the digest does
// not cover. These are record_seq and, unless the request contained them, build and
// content_fingerprint.
func (f *PathValidation) Append(w *pyjson.Builder, c *CommonFields) {
	w.BeginObject()
	c.appendIdentity(w)
	f.appendChange(w)
	w.AddText("build", f.Build)
	w.AddNullableText("content_fingerprint", f.ContentFingerprint)
	if names := f.Presence.list(); len(names) > 0 {
		w.AddTexts("names", names)
	}
	w.AddUint("record_seq", f.RecordSeq)
	w.EndObject()
}

// list returns the names of the members that the request contained, in the same order as in the
// event.
func (n ValidationPresence) list() (names [][]byte) {
	if n.HasBuild {
		names = append(names, []byte("build"))
	}
	if n.HasContentFingerprint {
		names = append(names, []byte("content_fingerprint"))
	}
	return names
}
