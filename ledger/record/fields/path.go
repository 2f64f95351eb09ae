package fields

import (
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// PathFingerprint holds the fields of a path_fingerprint event (spec: Path fingerprints). Fields that are
// null or missing are nil.
type PathFingerprint struct {
	Project, Build, Branch, Base                      []byte
	PathID, ContentFingerprint, RawContentFingerprint []byte
	HashVersion                                       []byte   // version of the rules under which the fingerprints were computed
	Passages                                          [][]byte // passages of the route
}

// Check implements Fields.
func (f *PathFingerprint) Check() error {
	var c forms
	c.required("project", f.Project, MaxName)
	c.text("build", f.Build, MaxName)
	c.text("branch", f.Branch, MaxName)
	c.text("base", f.Base, MaxName)
	for _, passage := range f.Passages {
		c.text("route", passage, MaxName)
	}
	if !rules.IsPathID(f.PathID) {
		c.fail("path_id", f.PathID, "is not a valid path_id")
	}
	c.filled("hash_version", f.HashVersion, MaxShortText)
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
	w.Text("base", f.Base)
	w.Text("branch", f.Branch)
	w.Text("build", f.Build)
	c.appendContents(w)
	w.Digest("digest", c.Digest)
	w.Text("hash_version", f.HashVersion)
	c.appendHashes(w, f)
	c.appendKey(w)
	w.Value("labels", c.Labels)
	c.Producer.append(w)
	w.Text("project", f.Project)
	w.Texts("route", f.Passages)
	w.Text("run_id", c.RunID)
	w.Text("timestamp", c.Timestamp)
	w.EndObject()
}

// AppendHashes implements HashedFields.
func (f *PathFingerprint) AppendHashes(w *pyjson.Builder) {
	w.NullableText("content_fingerprint", f.ContentFingerprint)
	w.NullableText("path_id", f.PathID)
	w.NullableText("raw_content_fingerprint", f.RawContentFingerprint)
}
