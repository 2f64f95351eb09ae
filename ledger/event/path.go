package event

import (
	"colophon/ledger/record"
	"colophon/ledger/record/rules"
)

// Path is what a path_fingerprint event says (spec: Path fingerprint).
type Path struct {
	record.PathFields
	// Route is the joined names of the passages: the identity of the route.
	Route []byte
}

// Path reads a path_fingerprint event.
func (e *Event) Path() Path {
	var r Path
	for name, value := range e.Detail.Members() {
		switch string(name.Text()) {
		case "hashes":
			r.PathID = text(value.Member("path_id"))
			r.ContentFingerprint = text(value.Member("content_fingerprint"))
			r.RawContentFingerprint = text(value.Member("raw_content_fingerprint"))
		case "project":
			r.Project = text(value)
		case "build":
			r.Build = text(value)
		case "branch":
			r.Branch = text(value)
		case "base":
			r.Base = text(value)
		case "route":
			for passage := range value.Elements() {
				r.Passages = append(r.Passages, passage.Text())
			}
		}
	}
	r.Route = rules.JoinRoute(r.Passages)
	return r
}
