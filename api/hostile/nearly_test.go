package hostile_test

import (
	"bytes"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/getkin/kin-openapi/openapi3"
)

// fault is one way to make a request invalid. make changes the request, and returns false if the
// fault does not apply to it.
type fault struct {
	name string
	make func(d *generator, r *request) bool
}

// nearly returns a random request with one fault. The server need not refuse the request if the
// contract still allows it.
func (d *generator) nearly(op *operation) *request {
	for {
		r := d.valid(op)
		r.class = nearly
		f := pick(d, faults...)
		if op.body != nil && !d.chance(4) {
			f = pick(d, bodyFaults...)
		}
		r.refused = true
		if f.make(d, r) {
			r.trick = f.name
			return r
		}
	}
}

var faults = []fault{
	{"unknown query parameter", func(d *generator, r *request) bool {
		r.query = append(r.query, field{pick(d, "unknown", "Limit", "limit ", "as-of", "", "ledger"), "1"})
		return r.documentsQuery()
	}},
	{"query parameter twice", func(d *generator, r *request) bool {
		if len(r.query) == 0 {
			return false
		}
		r.query = append(r.query, pick(d, r.query...))
		return true
	}},
	{"query parameter left out", func(d *generator, r *request) bool {
		for _, p := range r.op.parameters {
			if p.In == openapi3.ParameterInQuery && p.Required {
				r.query = slices.DeleteFunc(r.query, func(f field) bool { return f.name == p.Name })
				return true
			}
		}
		return false
	}},
	{"bad query parameter", badParameter},
	{"unknown ledger", func(d *generator, r *request) bool {
		before := r.target
		r.target = strings.Replace(r.target, "/v1/ledgers/"+r.ledger, "/v1/ledgers/"+pick(d, "no-such-ledger", "Default", "default%20", "-"), 1)
		return r.target != before
	}},
	{"bad path element", badElement},
	{"unknown Prefer", func(d *generator, r *request) bool {
		if !d.chance(4) {
			return false
		}
		r.header = append(r.header, field{"Prefer", pick(d, "return=everything", "return", ";;;", "return=minimal, return=representation")})
		r.refused = false
		return true
	}},
	{"key that is too long", func(d *generator, r *request) bool {
		if r.op.body == nil || r.op.media == linesType || r.has("Idempotency-Key") {
			return false
		}
		r.header = append(r.header, field{"Idempotency-Key", strings.Repeat("k", 1025)})
		return slices.ContainsFunc(r.op.parameters, func(p *openapi3.Parameter) bool { return p.Name == "Idempotency-Key" })
	}},
}

// documentsQuery reports whether the server must refuse unknown query parameters, as it does under
// /v1.
func (r *request) documentsQuery() bool { return strings.HasPrefix(r.op.route, "/v1") }

// badParameter gives a random query parameter a value that its schema does not allow.
func badParameter(d *generator, r *request) bool {
	p, ok := d.parameterOf(r.op, openapi3.ParameterInQuery)
	if !ok {
		return false
	}
	s := flat(p.Schema.Value)
	wrong := pick(d, outside(s)...)
	if wrong == "" || p.Name == "cursor" || p.Name == "outputs_cursor" {
		return false
	}
	r.query = slices.DeleteFunc(r.query, func(f field) bool { return f.name == p.Name })
	r.query = append(r.query, field{p.Name, wrong})
	return true
}

// badElement gives a random element of the path a value that its schema does not allow.
func badElement(d *generator, r *request) bool {
	p, ok := d.parameterOf(r.op, openapi3.ParameterInPath)
	if !ok || p.Name == "ledger" {
		return false
	}
	wrong := pick(d, outside(flat(p.Schema.Value))...)
	if wrong == "" {
		return false
	}
	r.target = strings.ReplaceAll(strings.ReplaceAll(r.op.route, "{"+p.Name+"}", wrong), "{ledger}", d.ledger)
	for _, q := range r.op.parameters {
		r.target = strings.ReplaceAll(r.target, "{"+q.Name+"}", "1")
	}
	return true
}

// parameterOf returns a random parameter of an operation in the given location, path or query. It
// returns false if there is none.
func (d *generator) parameterOf(op *operation, in string) (*openapi3.Parameter, bool) {
	var list []*openapi3.Parameter
	for _, p := range op.parameters {
		if p.In == in {
			list = append(list, p)
		}
	}
	if len(list) == 0 {
		return nil, false
	}
	return pick(d, list...), true
}

// outside returns texts that are not valid under a schema. If it knows none, it returns only an
// empty text.
func outside(s *openapi3.Schema) []string {
	switch {
	case s.Type.Is("integer"):
		list := []string{"-1", "+1", "01", "1.0", "1e3", "0x10", "1_000", "x", "18446744073709551616", "%20", "NaN"}
		if s.Min != nil && *s.Min >= 1 {
			list = append(list, strconv.Itoa(int(*s.Min)-1))
		}
		if s.Max != nil {
			list = append(list, strconv.FormatFloat(*s.Max+1, 'f', -1, 64))
		}
		return list
	case s.Type.Is("boolean"):
		return []string{"yes", "1", "TRUE", "x"}
	case len(s.Enum) > 0:
		return []string{"other", "x", "LIVE", "null"}
	case s.Format == "date-time":
		return []string{"yesterday", "2026-01-02", "2026-13-02T15:04:05Z", "2026-01-02T15:04:05", "1767366245", "2026-02-30T00:00:00Z"}
	case s.Pattern != "":
		list := []string{"x", strings.Repeat("A", 64), strings.Repeat("a", 63), strings.Repeat("a", 65), "sha256:", "entries"}
		if list = slices.DeleteFunc(list, regexp.MustCompile(s.Pattern).MatchString); len(list) > 0 {
			return list
		}
	}
	return []string{""}
}

var bodyFaults = []fault{
	{"missing member", inTree(hasMembers, func(d *generator, v *value) {
		i := d.IntN(len(v.members))
		v.members = slices.Delete(v.members, i, i+1)
	})},
	{"unknown member", inTree(isObject, func(d *generator, v *value) {
		v.members = append(v.members, member{quote(pick(d, "extra", "Model", "seq", "__proto__", "")), d.free(3)})
	})},
	{"renamed member", inTree(hasMembers, func(d *generator, v *value) {
		m := &v.members[d.IntN(len(v.members))]
		m.name = strings.TrimSuffix(m.name, `"`) + pick(d, ` "`, `s"`, `\u0000"`)
	})},
	{"value of another type", inTree(isDescribed, func(d *generator, v *value) {
		*v = *scalar(v.schema, pick(d, `"text"`, "7", "-1", "1.5", "true", "null", "[]", "{}", `[{}]`, `""`))
	})},
	{"value beyond its bound", inTree(isBounded, exceedLimit)},
	{"bad enumeration or pattern", inTree(isChosen, func(d *generator, v *value) {
		v.text = quote(pick(d, "other", "", strings.Repeat("a", 63), strings.Repeat("a", 65), strings.Repeat("A", 64), " live"))
	})},
	{"member twice", func(d *generator, r *request) bool {
		root := d.root(r)
		if root == nil {
			return false
		}
		v := root.one(d.Rand, func(v *value) bool { return len(v.members) > 0 })
		if v == nil {
			return false
		}
		v.members = append(v.members, pick(d, v.members...))
		r.write()
		return true
	}},
	{"truncated body", func(d *generator, r *request) bool {
		end := len(bytes.TrimRight(r.body, "\n")) - 1
		if r.lines != nil || end < 1 {
			return false
		}
		r.body = r.body[:d.IntN(end)+1]
		return true
	}},
	{"no JSON", func(d *generator, r *request) bool {
		text := string(r.body)
		r.body = []byte(pick(d, text+"{}", text+"x", "\ufeff"+text, strings.Replace(text, "{", "{,", 1), strings.Replace(text, "{", "{/**/", 1),
			strings.Replace(text, `"`, "'", 2), text+"\x00", "null", "[]", "7", `"text"`, "{", "\x00", "{\"a\":NaN}", "\xff\xfe"))
		return string(r.body) != text
	}},
	{"body in UTF-16", func(_ *generator, r *request) bool {
		text := string(r.body)
		r.body = []byte{0xff, 0xfe}
		for _, unit := range utf16.Encode([]rune(text)) {
			r.body = append(r.body, byte(unit), byte(unit>>8))
		}
		return true
	}},
	{"wrong content type", func(d *generator, r *request) bool {
		r.header = slices.DeleteFunc(r.header, func(f field) bool { return f.name == "Content-Type" })
		other := pick(d, "text/plain", "application/xml", "application/json-patch+json", "multipart/form-data; boundary=x",
			"application/x-www-form-urlencoded", ";", "json", "*/*", "application/*", "")
		if other != "" {
			r.header = append(r.header, field{"Content-Type", other})
		}
		return len(r.body) > 0
	}},
	{"wrong content encoding", func(d *generator, r *request) bool {
		r.header = append(r.header, field{"Content-Encoding", pick(d, "gzip", "zstd", "deflate", "br", "gzip, gzip", "x", "compress")})
		return len(r.body) > 0
	}},
}

// root returns the JSON value to which a body fault is applied: a random line of a batch, or the
// whole body. It returns nil if the body is not JSON.
func (d *generator) root(r *request) *value {
	if len(r.lines) > 0 {
		return pick(d, r.lines...)
	}
	return r.tree
}

func isDescribed(v *value) bool { return v.schema != nil }

func isObject(v *value) bool { return v.schema != nil && v.open == '{' }

func hasMembers(v *value) bool { return v.schema != nil && len(v.members) > 0 }

func isChosen(v *value) bool {
	return v.schema != nil && v.open == 0 && (len(v.schema.Enum) > 0 || v.schema.Pattern != "")
}

func isBounded(v *value) bool {
	s := v.schema
	if s == nil || v.text == "null" {
		return false
	}
	switch v.open {
	case '[':
		return s.MinItems > 0 || s.UniqueItems && len(v.items) > 0
	case '{':
		return s.MaxProps != nil
	}
	return s.MaxLength != nil || s.MinLength > 0 || s.Max != nil && *s.Max < math.MaxInt32 || s.Min != nil
}

// exceedLimit changes a value so that it barely violates one of the limits in its schema.
func exceedLimit(_ *generator, v *value) {
	s := v.schema
	switch {
	case v.open == '[' && s.MinItems > 0:
		v.items = v.items[:min(len(v.items), int(s.MinItems)-1)]
	case v.open == '[':
		v.items = append(v.items, v.items[0])
	case v.open == '{':
		for i := range *s.MaxProps + 1 {
			v.set("label"+strconv.FormatUint(i, 10), scalar(nil, `"x"`))
		}
	case s.MaxLength != nil:
		v.text = quote(strings.Repeat("x", int(*s.MaxLength)+1))
	case s.MinLength > 0:
		v.text = quote(strings.Repeat("x", int(s.MinLength)-1))
	case s.Max != nil && *s.Max < math.MaxInt32:
		v.text = strconv.FormatFloat(*s.Max+1, 'f', -1, 64)
	default:
		v.text = strconv.FormatFloat(*s.Min-1, 'f', -1, 64)
	}
}

// inTree returns a fault that picks a value of the body for which fits returns true, and applies
// bend to it. The server must refuse the request if the contract no longer allows the resulting
// body.
func inTree(fits func(*value) bool, bend func(*generator, *value)) func(*generator, *request) bool {
	return func(d *generator, r *request) bool {
		root := d.root(r)
		if root == nil {
			return false
		}
		v := root.one(d.Rand, fits)
		if v == nil {
			return false
		}
		bend(d, v)
		r.write()
		text := r.body
		if r.lines != nil {
			lines := value{open: '[', items: r.lines}
			text = lines.appendTo(nil)
		}
		r.refused = !allows(r.op.body, text)
		return true
	}
}
