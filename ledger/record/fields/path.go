package fields

import (
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// PathFingerprint holds the fields of a path_fingerprint event, which describes a route through a
// branching story (spec: Path fingerprints). Fields that are null or missing are nil.
type PathFingerprint struct {
	Project, Build []byte // names of the story and of its version
	// BaseBuild names the build that Build is compared with, and Branch names the branch of Build.
	// Only the first record of a build determines its base and branch (spec: Builds).
	Branch, BaseBuild []byte
	// PathID identifies the route. ContentFingerprint covers the text along the route without its
	// links, and RawContentFingerprint covers it with them. All three are hexadecimal digits.
	PathID, ContentFingerprint, RawContentFingerprint []byte
	// HashVersion is the version of the rules under which the fingerprints were computed.
	HashVersion []byte
	// Passages contains the route, that is, the names of the passages that a path through the story
	// visits, in order, such as "Start", "Cave", and "Lake". A passage is one part of the story.
	Passages [][]byte
}

// Check implements Fields.
func (f *PathFingerprint) Check() error {
	var c forms
	c.required("project", f.Project, MaxNameBytes)
	c.text("build", f.Build, MaxNameBytes)
	c.text("branch", f.Branch, MaxNameBytes)
	c.text("base", f.BaseBuild, MaxNameBytes)
	for _, passage := range f.Passages {
		c.text("route", passage, MaxNameBytes)
	}
	if !rules.IsPathID(f.PathID) {
		c.fail("path_id", f.PathID, "is not a valid path_id")
	}
	c.filled("hash_version", f.HashVersion, MaxShortTextBytes)
	if string(f.HashVersion) != rules.FingerprintVersion {
		c.required("content_fingerprint", f.ContentFingerprint, len(f.ContentFingerprint))
	}
	for _, fingerprint := range [...][]byte{f.ContentFingerprint, f.RawContentFingerprint} {
		if fingerprint != nil && !rules.IsFingerprintForVersion(string(f.HashVersion), fingerprint) {
			c.fail("fingerprint", fingerprint, "is not a valid fingerprint for the hash_version")
		}
	}
	return c.err
}

// Append implements Fields.
func (f *PathFingerprint) Append(w *pyjson.Builder, c *CommonFields) {
	w.BeginSortedObject()
	w.AddText("base", f.BaseBuild)
	w.AddText("branch", f.Branch)
	w.AddText("build", f.Build)
	c.appendContents(w)
	w.AddDigest("digest", c.Digest)
	w.AddText("hash_version", f.HashVersion)
	c.appendHashes(w, f)
	c.appendKey(w)
	w.AddValue("labels", c.Labels)
	c.Producer.append(w)
	w.AddText("project", f.Project)
	w.AddTexts("route", f.Passages)
	w.AddText("run_id", c.RunID)
	w.AddText("timestamp", c.Timestamp)
	w.EndObject()
}

// AppendHashes implements FieldsWithHashes.
func (f *PathFingerprint) AppendHashes(w *pyjson.Builder) {
	w.AddNullableText("content_fingerprint", f.ContentFingerprint)
	w.AddNullableText("path_id", f.PathID)
	w.AddNullableText("raw_content_fingerprint", f.RawContentFingerprint)
}
