package record

import (
	"bytes"
	"strconv"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// Limits on what goes into the event itself, in bytes. Content has none but that
// of the body; those of labels are settable.
const (
	MaxName  = 1024 // run_id, subject, project, build, model, source_id, section, a passage of a route, …
	MaxShort = 128  // name of a stage, a mode, a producer's id
	// MaxTimestamp bounds a timestamp.
	MaxTimestamp = 64

	maxName  = MaxName
	maxStage = MaxShort
)

// object is one object of a request and the place where it stands. Getters
// treat null as absent (spec: Given values and claimed hashes), report what is wrong to the
// decoder, and return the zero value then.
type object struct {
	d       *decoder
	v       pyjson.Value
	pointer string
}

// object checks that v is an object with no members but the known ones.
func (d *decoder) object(v pyjson.Value, pointer string, known ...string) object {
	o := object{d, v, pointer}
	if v.Kind() != pyjson.Object {
		d.invalid(pointer, "must be an object")
		o.v = pyjson.Value{}
		return o
	}
	for name := range v.Members() {
		if !contains(known, name.Text()) {
			d.unknown(string(pyjson.AppendPointer([]byte(pointer), name.Text())))
		}
	}
	return o
}

func contains(names []string, name []byte) bool {
	for _, n := range names {
		if n == string(name) {
			return true
		}
	}
	return false
}

func (o object) at(name string) string { return o.pointer + "/" + name }

// member is the value of that name, Absent when it is null or not there.
func (o object) member(name string) pyjson.Value {
	if v := o.v.Member(name); v.Given() {
		return v
	}
	return pyjson.Value{}
}

func (o object) missing(name string) {
	if o.v.Kind() == pyjson.Object {
		o.d.invalid(o.at(name), "is required")
	}
}

// wtf is text that may hold lone surrogates; given says whether it is there.
func (o object) wtf(name string) (text []byte, given bool) {
	v := o.member(name)
	switch v.Kind() {
	case pyjson.Absent:
		return nil, false
	case pyjson.String:
		if text = v.Text(); text == nil {
			text = []byte{} // "" is given (spec: Given values and claimed hashes)
		}
		return text, true
	default:
		o.d.invalid(o.at(name), "must be a string")
		return nil, false
	}
}

// strict is text without lone surrogates, of any length.
func (o object) strict(name string) (text []byte, given bool) {
	text, given = o.wtf(name)
	if given && pyjson.HasLoneSurrogate(text) {
		o.d.invalid(o.at(name), loneSurrogate)
		return nil, false
	}
	return text, given
}

const loneSurrogate = "holds a lone surrogate (U+D800..U+DFFF); this field must be valid UTF-8"

// text is strict text of at most limit bytes; nil when not given.
func (o object) text(name string, limit int) []byte {
	text, given := o.strict(name)
	if given && len(text) > limit {
		o.d.invalid(o.at(name), "is %d bytes long, at most %d are allowed", len(text), limit)
		return nil
	}
	return text
}

// identifier is text that is not empty: an empty one would be a key that
// strangers share.
func (o object) identifier(name string, limit int) []byte {
	text := o.text(name, limit)
	if text != nil && len(text) == 0 {
		o.d.invalid(o.at(name), "must not be empty; leave it out")
	}
	return text
}

func (o object) requiredText(name string, limit int) []byte {
	if !o.member(name).Given() {
		o.missing(name)
		return nil
	}
	return o.text(name, limit)
}

func (o object) requiredWTF(name string) []byte {
	text, given := o.wtf(name)
	if !given && !o.member(name).Given() {
		o.missing(name)
	}
	return text
}

// typed is the value of that name if it is of that kind.
func (o object) typed(name string, kind pyjson.Kind, want string) pyjson.Value {
	v := o.member(name)
	if v.Given() && v.Kind() != kind {
		o.d.invalid(o.at(name), "must be %s", want)
		return pyjson.Value{}
	}
	return v
}

func (o object) array(name string) pyjson.Value {
	return o.typed(name, pyjson.Array, "an array")
}

func (o object) requiredObject(name string) pyjson.Value {
	if !o.member(name).Given() {
		o.missing(name)
	}
	return o.typed(name, pyjson.Object, "an object")
}

// hash is a claimed SHA-256: exactly 64 lower-case hexadecimal digits; nil when
// not given.
func (o object) hash(name string) []byte { return o.digits(name, "", 64) }

// digits is a prefix followed by exactly n lower-case hexadecimal digits.
func (o object) digits(name, prefix string, n int) []byte {
	text, given := o.wtf(name)
	if !given {
		return nil
	}
	if !isDigits(text, prefix, n) {
		o.d.invalid(o.at(name), "must be %sexactly %d lower-case hexadecimal digits", followedBy(prefix), n)
		return nil
	}
	return text
}

func followedBy(prefix string) string {
	if prefix == "" {
		return ""
	}
	return strconv.Quote(prefix) + " followed by "
}

// IsDigest reports whether a text is a SHA-256 as events have it: 64 lower-case
// hexadecimal digits.
func IsDigest(text []byte) bool { return rules.IsDigest(text) }

func isDigits(text []byte, prefix string, n int) bool {
	digits, ok := bytes.CutPrefix(text, []byte(prefix))
	return ok && rules.IsDigits(digits, n)
}

// integer is an integer of any size in plain decimal; nil when not given. A
// count may not be negative.
func (o object) integer(r *Record, name string, count bool) []byte {
	v := o.member(name)
	if !v.Given() {
		return nil
	}
	decimal, ok := v.AppendInteger(r.scratch[:0])
	r.scratch = decimal
	switch {
	case !ok:
		o.d.invalid(o.at(name), "must be an integer, written without fraction and exponent")
	case count && decimal[0] == '-':
		o.d.invalid(o.at(name), "must not be negative")
	default:
		return r.keep(decimal)
	}
	return nil
}

func (o object) requiredCount(r *Record, name string) []byte {
	if !o.member(name).Given() {
		o.missing(name)
	}
	return o.integer(r, name, true)
}

// double is a number as the nearest IEEE 754 double.
func (o object) double(name string) (value float64, given bool) {
	v := o.member(name)
	if !v.Given() {
		return 0, false
	}
	value, ok := v.Float()
	if !ok {
		o.d.invalid(o.at(name), "must be a number in the range of a double")
	}
	return value, ok
}

// timestamp is an RFC 3339 time as sent; nil when not given.
func (o object) timestamp(name string) []byte {
	text := o.text(name, MaxTimestamp)
	if text == nil {
		return nil
	}
	if _, ok := ParseTime(text); !ok {
		o.d.invalid(o.at(name), "must be an RFC 3339 time such as 2025-11-30T12:00:00Z")
		return nil
	}
	return text
}

// labels is an object of short strings.
func (o object) labels(name string) pyjson.Value {
	v := o.typed(name, pyjson.Object, "an object of strings")
	if !v.Given() {
		return v
	}
	if most := o.d.limits.Labels; v.Len() > most {
		o.d.invalid(o.at(name), "has %d labels, at most %d are allowed", v.Len(), most)
		return pyjson.Value{}
	}
	for label, value := range v.Members() {
		o.label(name, label.Text(), value)
	}
	return v
}

func (o object) label(name string, label []byte, value pyjson.Value) {
	pointer := string(pyjson.AppendPointer([]byte(o.at(name)), label))
	most := o.d.limits.LabelBytes
	switch {
	case pyjson.HasLoneSurrogate(label):
		o.d.invalid(o.at(name), "a label's name "+loneSurrogate)
	case len(label) == 0 || len(label) > most:
		o.d.invalid(pointer, "a label's name has 1 to %d bytes", most)
	case value.Kind() != pyjson.String:
		o.d.invalid(pointer, "must be a string")
	case pyjson.HasLoneSurrogate(value.Text()):
		o.d.invalid(pointer, loneSurrogate)
	case len(value.Text()) > most:
		o.d.invalid(pointer, "is %d bytes long, at most %d are allowed", len(value.Text()), most)
	}
}

// strictJSON reports the first lone surrogate anywhere below a member.
func (o object) strictJSON(name string, v pyjson.Value) {
	if pointer, found := v.LoneSurrogate(); found {
		o.d.invalid(o.at(name)+pointer, loneSurrogate)
	}
}

// fits refuses a list whose elements cannot stand in one event, since each takes at least
// that many bytes there: what is made of each while it is checked can be many times that.
func (o object) fits(name string, list pyjson.Value, bytes int, advice string) bool {
	most := MaxEntry / bytes
	if list.Len() <= most {
		return true
	}
	o.d.invalid(o.at(name), "has %d elements, and a log entry of %d bytes has room for %d at most; %s", list.Len(), MaxEntry, most, advice)
	return false
}

// element is the pointer of the i-th element of a member.
func (o object) element(name string, i int) string {
	return o.at(name) + "/" + strconv.Itoa(i)
}
