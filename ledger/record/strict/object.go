// Package strict decodes JSON request bodies strictly. It rejects unknown members, and values of
// the wrong type or format. It reports every problem with its position in the body.
package strict

import (
	"bytes"
	"errors"
	"strconv"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// Object is an object in a request body. Its methods treat null as absent (spec: Given values and
// claimed hashes). If a member is not valid, they report a problem to Decoder and return the zero value.
type Object struct {
	Decoder *Decoder     // collects the problems of the request
	Value   pyjson.Value // zero if the value in the body is missing or not an object
	Pointer string       // JSON pointer (RFC 6901) to the object in the request body
}

// Object returns v, the value at pointer in the body, as an Object. It reports a problem if v is
// not an object, and a problem for each member whose name is not in known.
func (d *Decoder) Object(v pyjson.Value, pointer string, known ...string) Object {
	o := Object{d, v, pointer}
	if v.Kind() != pyjson.Object {
		d.ReportInvalid(pointer, "must be an object")
		o.Value = pyjson.Value{}
		return o
	}
	for name := range v.Members() {
		if !contains(known, name.Text()) {
			d.unknown(string(pyjson.AppendPointerToken([]byte(pointer), name.Text())), string(name.Text()))
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

// InnerObject returns v, the value of the named member of o, as an Object. It does not check the
// kind or the members of v.
func (o Object) InnerObject(name string, v pyjson.Value) Object {
	return Object{o.Decoder, v, o.MemberPointer(name)}
}

// MemberPointer returns the JSON pointer to the named member. The name must not contain ~ or /,
// which a JSON pointer must escape.
func (o Object) MemberPointer(name string) string { return o.Pointer + "/" + name }

// ReportInvalid reports a problem with the value of the member with the given name. format and args
// describe the problem.
func (o Object) ReportInvalid(name, format string, args ...any) {
	o.Decoder.ReportInvalid(o.MemberPointer(name), format, args...)
}

// Member returns the value of the member with the given name, or the absent Value if the member is
// null or missing.
func (o Object) Member(name string) pyjson.Value {
	if v := o.Value.Member(name); v.IsGiven() {
		return v
	}
	return pyjson.Value{}
}

// ReportMissing reports that a required member is missing. It reports nothing if o itself is
// missing or is not an object.
func (o Object) ReportMissing(name string) {
	if o.Value.Kind() == pyjson.Object {
		o.ReportInvalid(name, "is required")
	}
}

// WTF8 returns the string in the member with the given name as WTF-8, which may contain lone
// surrogates. given is false if the member is absent or invalid.
func (o Object) WTF8(name string) (text []byte, given bool) {
	v := o.Member(name)
	switch v.Kind() {
	case pyjson.Absent:
		return nil, false
	case pyjson.String:
		if text = v.Text(); text == nil {
			text = []byte{} // not nil: an empty string counts as given (spec: Given values and claimed hashes)
		}
		return text, true
	default:
		o.ReportInvalid(name, "must be a string")
		return nil, false
	}
}

// UTF8 returns the string in the member with the given name as UTF-8. It reports a problem if the
// string contains a lone surrogate. given is false if the member is absent or invalid.
func (o Object) UTF8(name string) (text []byte, given bool) {
	text, given = o.WTF8(name)
	if given && pyjson.HasLoneSurrogate(text) {
		o.ReportInvalid(name, LoneSurrogateDetail)
		return nil, false
	}
	return text, given
}

// LoneSurrogateDetail is the Problem.Detail for a string that contains a lone surrogate.
const LoneSurrogateDetail = "has a lone surrogate (U+D800..U+DFFF); this field must be valid UTF-8"

// Text returns the string in the member with the given name, or nil if the member is absent or
// invalid. The string must be at most limit bytes long and must not contain a lone surrogate.
func (o Object) Text(name string, limit int) []byte {
	text, given := o.UTF8(name)
	if given && len(text) > limit {
		o.ReportInvalid(name, "is %d bytes long, but at most %d are allowed", len(text), limit)
		return nil
	}
	return text
}

// Identifier is like Text, but the string must not be empty, because all clients that sent an empty
// identifier would share it.
func (o Object) Identifier(name string, limit int) []byte {
	text := o.Text(name, limit)
	if text != nil && len(text) == 0 {
		o.ReportInvalid(name, "must not be empty; omit this member")
	}
	return text
}

// RequiredText is like Text, but reports a problem if the member is absent.
func (o Object) RequiredText(name string, limit int) []byte {
	if !o.Member(name).IsGiven() {
		o.ReportMissing(name)
		return nil
	}
	return o.Text(name, limit)
}

// RequiredWTF8 is like WTF8, but reports a problem if the member is absent.
func (o Object) RequiredWTF8(name string) []byte {
	text, given := o.WTF8(name)
	if !given && !o.Member(name).IsGiven() {
		o.ReportMissing(name)
	}
	return text
}

// MemberOfKind returns the member with the given name if its value has the given kind, and the
// absent Value otherwise. It reports a problem if the value has a different kind. want describes
// the required value in the message, for example "an object".
func (o Object) MemberOfKind(name string, kind pyjson.Kind, want string) pyjson.Value {
	v := o.Member(name)
	if v.IsGiven() && v.Kind() != kind {
		o.ReportInvalid(name, "must be %s", want)
		return pyjson.Value{}
	}
	return v
}

// Array returns the array in the member with the given name, or the absent Value if the member is
// absent or invalid.
func (o Object) Array(name string) pyjson.Value {
	return o.MemberOfKind(name, pyjson.Array, "an array")
}

// RequiredObject returns the object in the member with the given name, without checking the object's
// own members. If the member is absent or not an object, RequiredObject reports a problem and returns
// the absent Value.
func (o Object) RequiredObject(name string) pyjson.Value {
	if !o.Member(name).IsGiven() {
		o.ReportMissing(name)
	}
	return o.MemberOfKind(name, pyjson.Object, "an object")
}

// Hash returns the SHA-256 in the member with the given name, or nil if the member is absent or
// invalid. The SHA-256 must be exactly 64 lower-case hexadecimal digits.
func (o Object) Hash(name string) []byte { return o.HexDigits(name, "", 64) }

// HexDigits returns the hexadecimal string in the member with the given name, or nil if the member
// is absent or invalid. The string must consist of prefix and exactly n lower-case hexadecimal
// digits.
func (o Object) HexDigits(name, prefix string, n int) []byte {
	text, given := o.WTF8(name)
	if !given {
		return nil
	}
	if !IsHexDigits(text, prefix, n) {
		o.ReportInvalid(name, "must be %sexactly %d lower-case hexadecimal digits", PrefixPhrase(prefix), n)
		return nil
	}
	return text
}

// Fingerprint returns the path fingerprint in the member with the given name, or nil if the member
// is absent or invalid. It accepts fingerprints from all versions of the rules.
func (o Object) Fingerprint(name string) []byte {
	text, given := o.WTF8(name)
	if given && !rules.IsFingerprint(text) {
		o.ReportInvalid(name, "must be 8 to 64 lower-case hexadecimal digits")
		return nil
	}
	return text
}

// PrefixPhrase returns a phrase for an error message, such as `"sha256:" followed by `. It returns
// "" if prefix is empty.
func PrefixPhrase(prefix string) string {
	if prefix == "" {
		return ""
	}
	return strconv.Quote(prefix) + " followed by "
}

// IsHexDigits reports whether text consists of prefix and exactly n lower-case hexadecimal digits.
func IsHexDigits(text []byte, prefix string, n int) bool {
	digits, ok := bytes.CutPrefix(text, []byte(prefix))
	return ok && rules.IsHexDigits(digits, n)
}

// Float64 returns the double that is nearest to the number in the member with the given name. given
// is false if the member is absent or invalid.
func (o Object) Float64(name string) (value float64, given bool) {
	v := o.Member(name)
	if !v.IsGiven() {
		return 0, false
	}
	value, ok := v.Float()
	if !ok {
		o.ReportInvalid(name, "must be a number in the range of a double")
	}
	return value, ok
}

// Labels returns the labels in the member with the given name, which is an object. The object's
// values must be strings. It may have up to maxLabels members, and each name and each string may be
// up to maxBytes bytes long.
func (o Object) Labels(name string, maxLabels, maxBytes int) pyjson.Value {
	v := o.MemberOfKind(name, pyjson.Object, "an object of strings")
	if !v.IsGiven() {
		return v
	}
	if v.Len() > maxLabels {
		o.ReportInvalid(name, "has %d labels, but at most %d are allowed", v.Len(), maxLabels)
		return pyjson.Value{}
	}
	for label, value := range v.Members() {
		o.label(name, label.Text(), value, maxBytes)
	}
	return v
}

func (o Object) label(name string, label []byte, value pyjson.Value, maxBytes int) {
	pointer := string(pyjson.AppendPointerToken([]byte(o.MemberPointer(name)), label))
	switch {
	case pyjson.HasLoneSurrogate(label):
		o.ReportInvalid(name, "a label's name "+LoneSurrogateDetail)
	case len(label) == 0 || len(label) > maxBytes:
		o.Decoder.ReportInvalid(pointer, "a label's name must be 1 to %d bytes long", maxBytes)
	case value.Kind() != pyjson.String:
		o.Decoder.ReportInvalid(pointer, "must be a string")
	case pyjson.HasLoneSurrogate(value.Text()):
		o.Decoder.ReportInvalid(pointer, LoneSurrogateDetail)
	case len(value.Text()) > maxBytes:
		o.Decoder.ReportInvalid(pointer, "is %d bytes long, but at most %d are allowed", len(value.Text()), maxBytes)
	}
}

// CheckUTF8 reports a problem if v, the value of the member with the given name, contains a lone
// surrogate at any depth.
func (o Object) CheckUTF8(name string, v pyjson.Value) {
	if pointer, found := v.FindLoneSurrogate(); found {
		o.Decoder.ReportInvalid(o.MemberPointer(name)+pointer, LoneSurrogateDetail)
	}
}

// ElementPointer returns the JSON pointer to element i of the array in the member with the given
// name.
func (o Object) ElementPointer(name string, i int) string {
	return o.MemberPointer(name) + "/" + strconv.Itoa(i)
}

// CheckConstant reports a problem if the member with the given name is present but is not a string
// equal to value.
func (o Object) CheckConstant(name, value string) {
	if text, given := o.UTF8(name); given && string(text) != value {
		o.ReportInvalid(name, "must be %q", value)
	}
}

// Uint64 parses the member with the given name as a number from 0 to 2^64-1, such as an event
// number or a number of events. It returns nil if the member is absent or invalid.
func (o Object) Uint64(name string) *uint64 {
	v := o.Member(name)
	if !v.IsGiven() {
		return nil
	}
	seq, err := ParseUint64(v)
	if err != nil {
		o.ReportInvalid(name, "must be a number from 0 to %s in plain decimal", strconv.FormatUint(1<<64-1, 10))
		return nil
	}
	return &seq
}

// Bool returns the Boolean in the member with the given name, or the value of absent if the member
// is absent.
func (o Object) Bool(name string, absent bool) bool {
	if !o.Member(name).IsGiven() {
		return absent
	}
	return o.RequiredBool(name)
}

// RequiredBool returns the Boolean in the member with the given name. It reports a problem if the
// member is absent.
func (o Object) RequiredBool(name string) bool {
	v := o.Member(name)
	switch v.Kind() {
	case pyjson.True, pyjson.False:
	case pyjson.Absent:
		o.ReportMissing(name)
	default:
		o.ReportInvalid(name, "must be true or false")
	}
	return v.Kind() == pyjson.True
}

// ParseUint64 parses a number from 0 to 2^64-1 in plain decimal, such as an event number or a
// number of events.
func ParseUint64(v pyjson.Value) (uint64, error) {
	seq, err := strconv.ParseUint(string(v.Raw()), 10, 64)
	if v.Kind() != pyjson.Integer || err != nil || strconv.FormatUint(seq, 10) != string(v.Raw()) {
		return 0, errors.New("not a number from 0 to 2^64-1 in plain decimal")
	}
	return seq, nil
}
