package record

import (
	"bytes"
	"crypto/md5" // #nosec G501 -- path ids are MD5 by definition (1.6)
	"encoding/hex"
	"slices"

	"colophon/ledger/record/pyjson"
)

// hashVersion names the fingerprint rules of part 1.6.
const hashVersion = "adr-004"

// routeSeparator joins the passage names of a route.
const routeSeparator = " → "

// pathFingerprint is what a path fingerprint puts into its event.
type pathFingerprint struct {
	r              *Record
	project, build []byte
	route          [][]byte
}

func (p *pathFingerprint) appendMembers(w *builder) {
	p.r.hashesMember(w)
	w.text("hash_version", []byte(hashVersion))
	w.text("project", p.project)
	w.text("build", p.build)
	w.name("route")
	w.b = append(w.b, '[')
	for i, passage := range p.route {
		w.comma(i)
		w.b = pyjson.AppendString(w.b, passage)
	}
	w.b = append(w.b, ']')
}

// decodePath reads a path fingerprint and checks its identifiers (1.6).
func (r *Record) decodePath(d *decoder, v pyjson.Value, pointer string) {
	o := d.object(v, pointer, "run_id", "project", "build", "route", "content", "path_id", "content_fingerprint",
		"raw_content_fingerprint", "hash_version", "timestamp", "labels", "producer")
	r.common(o)
	p := &pathFingerprint{r: r, project: o.requiredText("project", maxName), build: o.text("build", maxName)}
	r.detail = p
	o.constant("hash_version", hashVersion)
	p.route = o.route("route")
	sum := md5.Sum(bytes.Join(p.route, []byte(routeSeparator))) // #nosec G401 -- by definition (1.6)
	claimed, digits := o.pathID("path_id")
	r.setHash("path_id", r.check("path_id", claimed, r.keep(hex.AppendEncode(nil, sum[:])[:digits])))

	var content, raw []byte
	if text, given := o.strict("content"); given {
		r.addContent("content", text)
		content = r.fingerprint(appendWithoutLinks(slices.Grow(r.scratch[:0], len(text)), text))
		raw = r.fingerprint(append(r.scratch[:0], text...))
	}
	r.setHash("content_fingerprint", r.check("content_fingerprint", o.digits("content_fingerprint", "", 8), content))
	r.setHash("raw_content_fingerprint",
		r.check("raw_content_fingerprint", o.digits("raw_content_fingerprint", "", 8), raw))
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
		return nil, 8
	case isDigits(text, "", 8) || isDigits(text, "", 16):
		return text, len(text)
	}
	o.d.invalid(o.at(name), "must be exactly 8 or 16 lower-case hexadecimal digits")
	return nil, 8
}

// fingerprint is the first eight digits of MD5 over a text by rule W. The text becomes
// r.scratch, and changes.
func (r *Record) fingerprint(text []byte) []byte {
	r.scratch = text
	sum := md5.Sum(appendWhitespaceRule(text[:0], text)) // #nosec G401 -- by definition (1.6)
	return r.keep(hex.AppendEncode(nil, sum[:4]))
}

// appendWhitespaceRule is rule W (1.6): runs of U+0020 made one, runs of two or
// more line feeds made two, the whole stripped. dst may be text[:0].
func appendWhitespaceRule(dst, text []byte) []byte {
	start := len(dst)
	dst = appendShortened(dst, text, " ")
	dst = appendShortened(dst[:start], dst[start:], "\n\n")
	return append(dst[:start], pyjson.Strip(dst[start:])...)
}

// appendWithoutLinks is rule L (1.6): wiki links deleted, then Markdown links.
// Neither reaches over a line feed.
func appendWithoutLinks(dst, text []byte) []byte {
	for more := true; more; {
		var line []byte
		line, text, more = bytes.Cut(text, []byte("\n"))
		start := len(dst)
		dst = appendWithout(dst, line, "[[", "]]", "")
		dst = appendWithout(dst[:start], dst[start:], "[", "](", ")")
		if more {
			dst = append(dst, '\n')
		}
	}
	return dst
}

// appendWithout deletes, leftmost first, each shortest stretch of a line from
// begin over middle to end (no end: to middle). Once one of them is not found
// no later start can match either, so the work is linear. What is appended is never
// ahead of what is read: dst may be line[:0].
func appendWithout(dst, line []byte, begin, middle, end string) []byte {
	for {
		start := bytes.Index(line, []byte(begin))
		if start < 0 {
			return append(dst, line...)
		}
		stop := start + len(begin)
		for _, part := range [...]string{middle, end} {
			i := bytes.Index(line[stop:], []byte(part))
			if i < 0 {
				return append(dst, line...)
			}
			stop += i + len(part)
		}
		dst = append(dst, line[:start]...)
		line = line[stop:]
	}
}
