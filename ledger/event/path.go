package event

import (
	"crypto/sha256"
	"encoding/hex"

	"colophon/ledger/record/fields"
	"colophon/ledger/record/rules"
)

// PathFingerprint holds the fields of a path_fingerprint event, which describes one route through a
// branching story (spec: Path fingerprint).
type PathFingerprint struct {
	fields.PathFingerprint
	// Route consists of the names of the story's passages along the path, joined with arrows. It
	// identifies the route.
	Route []byte
	// ContentDigest is the SHA-256 of the content, or nil if the record had no content.
	ContentDigest []byte
}

// PathFingerprint reads the fields of a path_fingerprint event.
func (e *Event) PathFingerprint() PathFingerprint {
	var r PathFingerprint
	for name, value := range e.Record.Members() {
		switch string(name.Text()) {
		case "content":
			if sum, err := hex.DecodeString(string(text(value.Member("content").Member("sha256")))); err == nil && len(sum) == sha256.Size {
				r.ContentDigest = sum
			}
		case "hash_version":
			r.HashVersion = text(value)
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
			r.BaseBuild = text(value)
		case "route":
			for passage := range value.Elements() {
				r.Passages = append(r.Passages, passage.Text())
			}
		}
	}
	r.Route = rules.JoinRoute(r.Passages)
	return r
}
