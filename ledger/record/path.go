package record

import (
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// pathFingerprint is what a path fingerprint puts into its event.
type pathFingerprint struct {
	r              *Record
	project, build []byte
	route          [][]byte
}

func (p *pathFingerprint) appendMembers(w *pyjson.Builder) {
	p.r.hashesMember(w)
	w.Text("hash_version", []byte(rules.FingerprintVersion))
	w.Text("project", p.project)
	w.Text("build", p.build)
	w.Name("route")
	w.B = append(w.B, '[')
	for i, passage := range p.route {
		w.Comma(i)
		w.B = pyjson.AppendString(w.B, passage)
	}
	w.B = append(w.B, ']')
}

// decodePath reads a path fingerprint and checks its identifiers (1.6).
func (r *Record) decodePath(d *decoder, v pyjson.Value, pointer string) {
	o := d.object(v, pointer, "run_id", "project", "build", "route", "content", "path_id", "content_fingerprint",
		"raw_content_fingerprint", "hash_version", "timestamp", "labels", "producer")
	r.common(o)
	p := &pathFingerprint{r: r, project: o.requiredText("project", maxName), build: o.text("build", maxName)}
	r.detail = p
	o.constant("hash_version", rules.FingerprintVersion)
	p.route = o.route("route")
	claimed, digits := o.pathID("path_id")
	r.setHash("path_id", r.check("path_id", claimed, rules.RouteID(p.route)[:digits]))

	var content, raw []byte
	if text, given := o.strict("content"); given {
		r.addContent("content", text)
		content, r.scratch = rules.ContentFingerprint(r.scratch, text)
		raw, r.scratch = rules.RawFingerprint(r.scratch, text)
	}
	r.setHash("content_fingerprint", r.check("content_fingerprint", o.digits("content_fingerprint", "", rules.FingerprintDigits), content))
	r.setHash("raw_content_fingerprint",
		r.check("raw_content_fingerprint", o.digits("raw_content_fingerprint", "", rules.FingerprintDigits), raw))
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
// route that met another under its eight (1.6).
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
