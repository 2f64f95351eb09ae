package records

import (
	"bytes"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/ledger/record/strict"
)

// maxValidations bounds the paths of one request.
const maxValidations = 1000

// maxText bounds the names of builds and paths, in bytes.
const maxText = record.MaxSourceID

// validationsRequest asks to validate many paths of a build, or what that would do (spec: Path
// validation).
type validationsRequest struct {
	record.ValidationRequest // with a build and without a fingerprint
	// Paths are listed. If there are none, all paths of the build are meant, or those of Status.
	Paths  []listedPath
	Status string // new, modified, or unchanged; empty: all
	DryRun bool
	// AsOf is the tree size at which the paths are selected. It is given if DryRun is false.
	AsOf *uint64
}

// listedPath is a path, and the fingerprint that it must have; empty for any.
type listedPath struct{ PathID, ContentFingerprint string }

// parseValidations decodes `{"validated", "build", "reason"?, "paths" | "status"?, "dry_run"?,
// "as_of"?}`. Without dry_run it is a dry run. The error is a *strict.Error.
func parseValidations(body []byte) (*validationsRequest, error) {
	r := new(validationsRequest)
	var document pyjson.Document
	if err := document.ParseWithin(bytes.Clone(body), record.DefaultLimits().Values); err != nil {
		return nil, strict.SyntaxError(err)
	}
	var d strict.Decoder
	o := d.Object(document.Root(), "", "validated", "reason", "build", "paths", "status", "dry_run", "as_of")
	r.Validated, r.Reason = o.RequiredFlag("validated"), o.Text("reason", record.MaxReason)
	r.Build = o.RequiredText("build", maxText)
	r.Paths, r.DryRun, r.AsOf = readPaths(o, "paths"), o.Flag("dry_run", true), o.Seq("as_of")
	switch r.Status = string(o.Text("status", maxText)); r.Status {
	case "", "new", "modified", "unchanged":
	default:
		o.Invalid("status", `must be "new", "modified", or "unchanged"`)
	}
	if o.Member("paths").Given() && o.Member("status").Given() {
		o.Invalid("status", "selects paths, and so does paths; give one of them")
	}
	if !r.DryRun && r.AsOf == nil {
		o.Invalid("as_of", "is required if dry_run is false; give the as_of that the dry run returned")
	}
	return r, d.Err()
}

// readPaths reads a list of paths, each once.
func readPaths(o strict.Object, name string) (list []listedPath) {
	given := o.Array(name)
	if n := given.Len(); given.Given() && (n == 0 || n > maxValidations) {
		o.Invalid(name, "has %d elements; from 1 to %d are allowed", n, maxValidations)
		return nil
	}
	seen := make(map[string]bool)
	for e := range given.Elements() {
		at := o.Element(name, len(list))
		path := o.D.Object(e, at, "path_id", "content_fingerprint")
		if o.D.Full() {
			return nil
		}
		p := listedPath{PathID: string(path.RequiredText("path_id", maxText)),
			ContentFingerprint: string(path.Digits("content_fingerprint", "", rules.FingerprintDigits))}
		if seen[p.PathID] {
			o.D.Invalid(at+"/path_id", "is listed twice")
		}
		seen[p.PathID] = true
		list = append(list, p)
	}
	return list
}
