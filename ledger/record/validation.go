package record

import (
	"strconv"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/strict"
)

// ValidationFields are the fields of a path_validated event. It says whether a fingerprint of
// a path in a build is valid (spec: Path validation).
type ValidationFields struct {
	Project, PathID    []byte
	Build              []byte // of the record; nil if the record has none
	ContentFingerprint []byte // of the record; nil for null
	RecordSeq          uint64 // of the path's latest record in that build
	Validated          bool
	Reason             []byte // nil if there is none
	Origin
	// Names says which of build and content_fingerprint the request names. The digest covers
	// those.
	Names ValidationNames
}

// ValidationNames says which of these members a request for a validation names.
type ValidationNames struct{ Build, ContentFingerprint bool }

// CurrentPath is a path with the fingerprint of its latest record, or of its latest record in
// a build (spec: Path validation).
type CurrentPath struct {
	Project, PathID    string  // valid UTF-8
	Build              *string // nil if the record has none
	ContentFingerprint string  // "" means null
	RecordSeq          uint64
}

// ValidationRequest is the request for the validation of one path or of many.
type ValidationRequest struct {
	Validated                         bool
	Reason, Build, ContentFingerprint []byte // nil if they are not given
	Origin
}

// ParseValidation decodes `{"validated", "reason"?, "build"?, "content_fingerprint"?,
// "original_actor"?, "timestamp"?}`. The error is a *strict.Error.
func ParseValidation(body []byte) (*ValidationRequest, error) {
	r := new(ValidationRequest)
	return r, parseRequest(body, "", r.read, validationNames...)
}

var validationNames = append([]string{"validated", "reason", "build", "content_fingerprint"}, originNames...)

func (r *ValidationRequest) read(o strict.Object) {
	r.Validated, r.Reason, r.Build = o.RequiredFlag("validated"), o.Text("reason", maxReason), o.Text("build", maxName)
	r.ContentFingerprint, r.Origin = o.Fingerprint("content_fingerprint"), ReadOrigin(o)
}

// PathValidation is a line of a batch that asks for the validation of one path.
type PathValidation struct {
	Project, PathID string
	ValidationRequest
}

func parseValidationLine(line []byte) (*PathValidation, error) {
	v := new(PathValidation)
	return v, parseRequest(line, "record", func(o strict.Object) {
		v.Project, v.PathID = string(o.RequiredText("project", maxName)), string(o.RequiredText("path_id", maxName))
		v.read(o)
	}, append([]string{"project", "path_id"}, validationNames...)...)
}

// Of returns the verb that validates one path. It takes the fingerprint and the build from
// path, unless the request names them.
func (r *ValidationRequest) Of(path CurrentPath) *Verb {
	f := &ValidationFields{Project: []byte(path.Project), PathID: []byte(path.PathID), RecordSeq: path.RecordSeq,
		Validated: r.Validated, Reason: r.Reason, Origin: r.Origin,
		Names: ValidationNames{Build: r.Build != nil, ContentFingerprint: r.ContentFingerprint != nil}}
	if path.Build != nil {
		f.Build = []byte(*path.Build)
	}
	if path.ContentFingerprint != "" {
		f.ContentFingerprint = []byte(path.ContentFingerprint)
	}
	if f.Names.Build {
		f.Build = r.Build
	}
	if f.Names.ContentFingerprint {
		f.ContentFingerprint = r.ContentFingerprint
	}
	return newVerb(PathValidated, f)
}

// Check implements Fields.
func (f *ValidationFields) Check() error {
	var c forms
	c.required("path_id", f.PathID, maxName)
	c.required("project", f.Project, maxName)
	c.text("build", f.Build, maxName)
	c.text("reason", f.Reason, MaxReason)
	f.Origin.check(&c)
	return c.err
}

func (f *ValidationFields) appendRequest(w *pyjson.Builder) {
	if f.Names.Build {
		w.Text("build", f.Build)
	}
	if f.Names.ContentFingerprint {
		w.Text("content_fingerprint", f.ContentFingerprint)
	}
	f.appendChange(w)
}

func (f *ValidationFields) appendChange(w *pyjson.Builder) {
	f.Origin.append(w)
	w.Text("path_id", f.PathID)
	w.Text("project", f.Project)
	w.Text("reason", f.Reason)
	w.Raw("validated", strconv.AppendBool(nil, f.Validated))
}

// append writes all fields. The digest does not cover what the ledger adds: the record, and
// its build and its fingerprint unless the request names them.
func (f *ValidationFields) append(w *pyjson.Builder, c *CommonFields) {
	w.Open()
	c.appendIdentity(w)
	f.appendChange(w)
	w.Text("build", f.Build)
	w.Nullable("content_fingerprint", f.ContentFingerprint)
	if names := f.Names.list(); len(names) > 0 {
		w.Texts("names", names)
	}
	appendNumber(w, "record_seq", f.RecordSeq)
	w.Close()
}

// list returns the named members in the order of the event.
func (n ValidationNames) list() (names [][]byte) {
	if n.Build {
		names = append(names, []byte("build"))
	}
	if n.ContentFingerprint {
		names = append(names, []byte("content_fingerprint"))
	}
	return names
}
