package records

import (
	"bytes"
	"slices"

	"colophon/ledger/index/paths"
	"colophon/ledger/record"
	"colophon/ledger/record/fields"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/strict"
)

// maxValidations is the maximum number of paths in one request.
const maxValidations = 1000

// maxText is the maximum length of the names of builds and paths, in bytes.
const maxText = fields.MaxSourceIDBytes

// validationsRequest is a request to validate many paths of a build, or to withdraw their
// validations. A dry run only reports the changes (spec: Path validation).
type validationsRequest struct {
	record.ValidationRequest // Build is set, and ContentFingerprint is not
	// Paths lists the paths to select. If it is empty, the request selects all paths of the build,
	// or those with the given Status.
	Paths  []listedPath
	Status string // status of the paths to select; "" selects all
	DryRun bool   // only report the changes
	// AsOf is the tree size at which paths are selected. It can be nil only in a dry run, and then
	// means the current size.
	AsOf *uint64
}

// listedPath is a path and the fingerprint that it must have. An empty fingerprint matches any.
type listedPath struct{ PathID, ContentFingerprint string }

// parseValidations decodes `{"validated", "build", "reason"?, "original_actor"?, "timestamp"?, "paths" |
// "status"?, "dry_run"?, "as_of"?}`. The request is a dry run unless dry_run is false. The error is a
// *strict.Error.
func parseValidations(body []byte) (*validationsRequest, error) {
	r := new(validationsRequest)
	var document pyjson.Document
	if err := document.ParseLimited(bytes.Clone(body), record.DefaultLimits().MaxJSONValues); err != nil {
		return nil, strict.NewSyntaxError(err)
	}
	var d strict.Decoder
	o := d.Object(document.Root(), "", "validated", "reason", "build", "original_actor", "timestamp", "paths", "status", "dry_run", "as_of")
	r.Validated, r.Reason = o.RequiredBool("validated"), o.Text("reason", fields.MaxReasonBytes)
	r.Build, r.ActionOrigin = o.RequiredText("build", maxText), record.ReadActionOrigin(o)
	r.Paths, r.DryRun, r.AsOf = readPaths(o, "paths"), o.Bool("dry_run", true), o.Uint64("as_of")
	r.Status = string(o.Text("status", maxText))
	if o.Member("status").IsGiven() && !slices.Contains(paths.Categories[:], paths.Category(r.Status)) {
		o.ReportInvalid("status", `must be "new", "modified", "unchanged", or "incomparable"`)
	}
	if o.Member("paths").IsGiven() && o.Member("status").IsGiven() {
		o.ReportInvalid("status", `must not be combined with the member "paths"; use only one of the two to select paths`)
	}
	if !r.DryRun && r.AsOf == nil {
		o.ReportInvalid("as_of", "is required if dry_run is false; use the as_of that the dry run returned")
	}
	return r, d.Err()
}

// readPaths decodes the named member, which is a list of distinct paths.
func readPaths(o strict.Object, name string) (list []listedPath) {
	given := o.Array(name)
	if n := given.Len(); given.IsGiven() && (n == 0 || n > maxValidations) {
		o.ReportInvalid(name, "has %d elements, but must have 1 to %d", n, maxValidations)
		return nil
	}
	seen := make(map[string]bool)
	for e := range given.Elements() {
		at := o.ElementPointer(name, len(list))
		path := o.Decoder.Object(e, at, "path_id", "content_fingerprint")
		if o.Decoder.IsFull() {
			return nil
		}
		p := listedPath{PathID: string(path.RequiredText("path_id", maxText)),
			ContentFingerprint: string(path.Fingerprint("content_fingerprint"))}
		if seen[p.PathID] {
			o.Decoder.ReportInvalid(at+"/path_id", "is listed twice")
		}
		seen[p.PathID] = true
		list = append(list, p)
	}
	return list
}
