package record

import (
	"bytes"

	"colophon/ledger/record/fields"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/ledger/record/strict"
)

// decodePath decodes a path fingerprint and checks its path id and its fingerprints (spec: Path
// fingerprint). Problems are added to d.
func (r *Record) decodePath(d *strict.Decoder, v pyjson.Value, pointer string) {
	o := d.Object(v, pointer, "run_id", "project", "build", "branch", "base", "route", "content", "path_id", "content_fingerprint",
		"raw_content_fingerprint", "hash_version", "timestamp", "labels", "producer")
	r.decodeCommon(o)
	p := &fields.PathFingerprint{Project: o.RequiredText("project", maxName)}
	readBuild(o, p)
	r.fields, p.HashVersion = p, o.Identifier("hash_version", fields.MaxShortTextBytes)
	computes := p.HashVersion == nil || string(p.HashVersion) == rules.FingerprintVersion
	if computes {
		p.HashVersion, r.implied = fingerprintVersion, "hash_version"
	}
	p.Passages = readRoute(o, "route")
	claimed, digits := readPathID(o, "path_id")
	p.PathID = r.check("path_id", claimed, rules.RouteDigest(p.Passages)[:digits])

	var content, raw []byte
	if text, given := o.UTF8("content"); given {
		r.addContent("content", text)
		if computes {
			content, r.scratch = rules.ContentFingerprint(r.scratch, text)
			raw, r.scratch = rules.RawContentFingerprint(r.scratch, text)
		}
	}
	claim := o.Fingerprint
	if computes {
		claim = func(name string) []byte { return o.HexDigits(name, "", rules.FingerprintDigits) }
	} else if !o.Member("content_fingerprint").IsGiven() {
		o.ReportInvalid("content_fingerprint", "is required for this hash_version; the server computes only %s fingerprints", rules.FingerprintVersion)
	}
	p.ContentFingerprint = r.check("content_fingerprint", claim("content_fingerprint"), content)
	p.RawContentFingerprint = r.check("raw_content_fingerprint", claim("raw_content_fingerprint"), raw)
}

var fingerprintVersion = []byte(rules.FingerprintVersion)

// readBuild decodes the build of a path, the branch of the build, and the base build to compare it
// with (spec: Path fingerprint).
func readBuild(o strict.Object, p *fields.PathFingerprint) {
	p.Build, p.Branch, p.BaseBuild = o.Text("build", maxName), o.Text("branch", maxName), o.Text("base", maxName)
	if p.Build == nil {
		for _, name := range [...]string{"branch", "base"} {
			if o.Member(name).IsGiven() {
				o.ReportInvalid(name, `describes a build, so the member "build" is required`)
			}
		}
	} else if p.BaseBuild != nil && bytes.Equal(p.BaseBuild, p.Build) {
		o.ReportInvalid("base", "must differ from \"build\"; give the build to compare with")
	}
}

// readRoute decodes a route, a required list of texts of at most maxName bytes each.
func readRoute(o strict.Object, name string) [][]byte {
	if !o.Member(name).IsGiven() {
		o.ReportMissing(name)
	}
	list := o.Array(name)
	if !fitsEntry(o, name, list, len(`"",`), "split the route") {
		return nil
	}
	var route [][]byte
	for e := range list.Elements() {
		if o.Decoder.IsFull() {
			return nil
		}
		at := o.ElementPointer(name, len(route))
		switch {
		case e.Kind() != pyjson.String:
			o.Decoder.ReportInvalid(at, "must be a string")
		case pyjson.HasLoneSurrogate(e.Text()):
			o.Decoder.ReportInvalid(at, strict.LoneSurrogateDetail)
		case len(e.Text()) > maxName:
			o.Decoder.ReportInvalid(at, "is %d bytes long, but at most %d are allowed", len(e.Text()), maxName)
		}
		route = append(route, e.Text())
	}
	return route
}

// readPathID decodes a claimed path_id. It also returns the number of digits that the computed
// path_id must have, which is 16 if the claim has 16 digits and 8 otherwise. The longer form
// distinguishes routes that have the same first 8 digits (spec: Path id collisions).
func readPathID(o strict.Object, name string) (claimed []byte, digits int) {
	text, given := o.WTF8(name)
	switch {
	case !given:
		return nil, rules.PathIDDigits
	case rules.IsPathID(text):
		return text, len(text)
	}
	o.ReportInvalid(name, "must be exactly 8 or 16 lower-case hexadecimal digits")
	return nil, rules.PathIDDigits
}
