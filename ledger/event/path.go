package event

import "colophon/ledger/record/rules"

// Path is what a path_fingerprint event says (1.6). What is null is nil.
type Path struct {
	Project, Build                                    []byte
	PathID, ContentFingerprint, RawContentFingerprint []byte
	// Route is the joined string: a route's identity. Passages is its parts.
	Route    []byte
	Passages [][]byte
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
		case "route":
			for passage := range value.Elements() {
				r.Passages = append(r.Passages, passage.Text())
			}
		}
	}
	r.Route = rules.JoinRoute(r.Passages)
	return r
}
