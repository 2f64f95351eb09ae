package record

import (
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// decodePath reads a path fingerprint and checks its identifiers (spec: Path fingerprint).
func (r *Record) decodePath(d *decoder, v pyjson.Value, pointer string) {
	o := d.object(v, pointer, "run_id", "project", "build", "route", "content", "path_id", "content_fingerprint",
		"raw_content_fingerprint", "hash_version", "timestamp", "labels", "producer")
	r.decodeCommon(o)
	p := &PathFields{Project: o.requiredText("project", maxName), Build: o.text("build", maxName)}
	r.fields, r.implied = p, "hash_version"
	o.constant("hash_version", rules.FingerprintVersion)
	p.Passages = o.route("route")
	claimed, digits := o.pathID("path_id")
	p.PathID = r.check("path_id", claimed, rules.RouteID(p.Passages)[:digits])

	var content, raw []byte
	if text, given := o.strict("content"); given {
		r.addContent("content", text)
		content, r.scratch = rules.ContentFingerprint(r.scratch, text)
		raw, r.scratch = rules.RawFingerprint(r.scratch, text)
	}
	p.ContentFingerprint = r.check("content_fingerprint", o.digits("content_fingerprint", "", rules.FingerprintDigits), content)
	p.RawContentFingerprint = r.check("raw_content_fingerprint", o.digits("raw_content_fingerprint", "", rules.FingerprintDigits), raw)
}

// route is a required list of strict names, each of at most maxName bytes.
func (o object) route(name string) [][]byte {
	if !o.member(name).Given() {
		o.missing(name)
	}
	list := o.array(name)
	if !o.fits(name, list, len(`"",`), "split the route") {
		return nil
	}
	var route [][]byte
	for e := range list.Elements() {
		if o.d.full() {
			return nil
		}
		at := o.element(name, len(route))
		switch {
		case e.Kind() != pyjson.String:
			o.d.invalid(at, "must be a string")
		case pyjson.HasLoneSurrogate(e.Text()):
			o.d.invalid(at, loneSurrogate)
		case len(e.Text()) > maxName:
			o.d.invalid(at, "is %d bytes long, at most %d are allowed", len(e.Text()), maxName)
		}
		route = append(route, e.Text())
	}
	return route
}

// pathID is a claimed path_id and its number of digits: eight, or sixteen for a
// route that met another under its eight (spec: Path id collisions).
func (o object) pathID(name string) (claimed []byte, digits int) {
	text, given := o.wtf(name)
	switch {
	case !given:
		return nil, rules.PathIDDigits
	case rules.IsPathID(text):
		return text, len(text)
	}
	o.d.invalid(o.at(name), "must be exactly 8 or 16 lower-case hexadecimal digits")
	return nil, rules.PathIDDigits
}
