package record

import (
	"colophon/ledger/record/fields"
	"colophon/ledger/record/strict"
)

// LatestPathRecord is a path and the fingerprint of its latest record. The record is the latest of
// all builds, or the latest of one build (spec: Path validation).
type LatestPathRecord struct {
	Project, PathID    string  // valid UTF-8
	Build              *string // nil if the record has none
	ContentFingerprint string  // "" if the record's fingerprint is null
	RecordSeq          uint64  // seq of that record
}

// ValidationRequest is a request to validate one path or many.
type ValidationRequest struct {
	Validated                         bool   // whether the text along each route is correct
	Reason, Build, ContentFingerprint []byte // each is nil if the request omits it
	fields.ActionOrigin
}

// ParseValidationRequest decodes the body `{"validated", "reason"?, "build"?, "content_fingerprint"?,
// "original_actor"?, "timestamp"?}`. If the body is not valid, the error is a *strict.Error.
func ParseValidationRequest(body []byte) (*ValidationRequest, error) {
	r := new(ValidationRequest)
	return r, parseRequest(body, "", r.read, validationNames...)
}

var validationNames = append([]string{"validated", "reason", "build", "content_fingerprint"}, originNames...)

func (r *ValidationRequest) read(o strict.Object) {
	r.Validated, r.Reason, r.Build = o.RequiredBool("validated"), o.Text("reason", maxReason), o.Text("build", maxName)
	r.ContentFingerprint, r.ActionOrigin = o.Fingerprint("content_fingerprint"), ReadActionOrigin(o)
}

// PathValidationLine is a line of a batch that requests the validation of one path.
type PathValidationLine struct {
	Project, PathID string
	ValidationRequest
}

func parseValidationLine(line []byte) (*PathValidationLine, error) {
	v := new(PathValidationLine)
	return v, parseRequest(line, "record", func(o strict.Object) {
		v.Project, v.PathID = string(o.RequiredText("project", maxName)), string(o.RequiredText("path_id", maxName))
		v.read(o)
	}, append([]string{"project", "path_id"}, validationNames...)...)
}

// ActionFor returns the action that records the validation of path. If the request does not contain
// a build or a fingerprint, ActionFor takes it from path.
func (r *ValidationRequest) ActionFor(path LatestPathRecord) *Action {
	f := &fields.PathValidation{Project: []byte(path.Project), PathID: []byte(path.PathID), RecordSeq: path.RecordSeq,
		Validated: r.Validated, Reason: r.Reason, ActionOrigin: r.ActionOrigin,
		Presence: fields.ValidationPresence{HasBuild: r.Build != nil, HasContentFingerprint: r.ContentFingerprint != nil}}
	if path.Build != nil {
		f.Build = []byte(*path.Build)
	}
	if path.ContentFingerprint != "" {
		f.ContentFingerprint = []byte(path.ContentFingerprint)
	}
	if f.Presence.HasBuild {
		f.Build = r.Build
	}
	if f.Presence.HasContentFingerprint {
		f.ContentFingerprint = r.ContentFingerprint
	}
	return newAction(KindPathValidated, f)
}
