package formats

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"colophon/ledger/record"
	"colophon/ledger/record/fields"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// draft builds a record from a native value and notes the outcome for each member of that value.
type draft struct {
	conversion Conversion
	options    Options
	w          pyjson.Builder
	names      map[string]bool // names of the members that were written to the record
	labels     map[string]string
	// prefix is the JSON pointer to the native value that becomes the record. pattern is prefix
	// with * in place of the parts that vary.
	prefix, pattern string
	// imported contains the members that an IPC record keeps as content in usage/imported. Records
	// of other kinds have no member "usage".
	imported []member
	kept     map[string]bool // names of the members in imported
	usage    pyjson.Value
	zoned    bool // whether Options.DefaultZone was applied to a time that had no zone
	noted    int  // total length of the pointers and patterns noted so far, in bytes
	tooMany  bool // whether a limit set by options.MaxMembers was exceeded
}

type member struct {
	name  string
	value pyjson.Value
}

func newDraft(kind record.Kind, key string, o Options) *draft {
	d := &draft{conversion: Conversion{Kind: kind, Key: key}, options: o, names: make(map[string]bool), labels: make(map[string]string),
		kept: make(map[string]bool)}
	d.w.BeginObject()
	return d
}

// note records what happened to the member at pointer in the native value. format and args describe
// the outcome. If pattern is empty, note uses pointer as the pattern.
func (d *draft) note(pointer, pattern string, outcome Outcome, format string, args ...any) {
	if pattern == "" {
		pattern = pointer
	}
	d.noted += len(d.prefix) + len(pointer) + len(d.pattern) + len(pattern)
	if most := d.options.MaxMembers; most > 0 && (len(d.conversion.MemberOutcomes) >= most || d.noted > most*meanNote) {
		d.tooMany = true
		return
	}
	d.conversion.MemberOutcomes = append(d.conversion.MemberOutcomes, MemberOutcome{d.prefix + pointer, d.pattern + pattern, outcome, fmt.Sprintf(format, args...)})
}

// meanNote limits the memory for notes. The total length of all pointers and patterns, in bytes,
// must not exceed meanNote times Options.MaxMembers.
const meanNote = 256

func pointerTo(name string) string { return string(pyjson.AppendPointerToken(nil, []byte(name))) }

// raw adds a field to the record with the given JSON as its value.
func (d *draft) raw(field string, json []byte) {
	d.w.BeginMember(field)
	d.w.Buf = append(d.w.Buf, json...)
	d.names[field] = true
}

func (d *draft) text(field string, text []byte) {
	d.raw(field, pyjson.AppendString(nil, text))
}

// take copies a member to a field of the record if form accepts the member's value and the field is
// not set yet. Otherwise it keeps the member by calling keep.
func (d *draft) take(m member, field string, form func(pyjson.Value) bool) {
	if m.value.IsGiven() && form(m.value) && !d.names[field] {
		d.raw(field, m.value.Raw())
		d.note(pointerTo(m.name), "", OutcomeField, "%s", field)
		return
	}
	d.keep(m)
}

// keep keeps a member for which this kind of record has no field. A short member becomes a label. A
// longer one becomes content in an IPC record; other records split it into labels or leave it out.
func (d *draft) keep(m member) { d.keepAt(pointerTo(m.name), "", m) }

// keepAt is like keep, but for a nested member. If the member becomes a label, the label is named
// m.name.
func (d *draft) keepAt(pointer, pattern string, m member) {
	if m.value.Kind() == pyjson.Null {
		d.note(pointer, pattern, OutcomeLeftOut, DetailNull)
		return
	}
	deep := strings.TrimPrefix(pointer, "/")
	switch { // if m.name is already used, the pointer becomes the label's name
	case d.label(m.name, m.value):
		as := m.name
		if as == deep && pattern != "" {
			as = strings.TrimPrefix(pattern, "/")
		}
		d.note(pointer, pattern, OutcomeLabel, "%s", as)
		return
	case d.label(deep, m.value):
		d.note(pointer, pattern, OutcomeLabel, "%s", deep)
		return
	}
	_, surrogate := m.value.FindLoneSurrogate()
	parts := d.parts(m.value)
	switch {
	case parts.Len() > 0:
		d.keepParts(pointer, pattern, parts)
	case surrogate || pyjson.HasLoneSurrogate([]byte(m.name)):
		d.note(pointer, pattern, OutcomeLeftOut, "the name or the value contains a lone surrogate")
	case d.conversion.Kind == record.KindIPCRecord:
		if d.kept[m.name] {
			m.name = pointer // another member with the same name has already been kept
		}
		d.imported, d.kept[m.name] = append(d.imported, m), true
		d.note(pointer, pattern, OutcomeContent, "usage/imported%s", pointerTo(m.name))
	default:
		// Only IPC records can have arbitrary content. An import counts the members that are left
		// out (importer.Tally.LeftOutMemberCount).
		d.note(pointer, pattern, OutcomeLeftOut, "the value does not fit in a label (a record can have at most %d labels of %d bytes each), and a record of kind %s cannot keep it as content",
			d.options.Limits.MaxLabels, d.options.Limits.MaxLabelBytes, d.conversion.Kind)
	}
}

// keepParts keeps the elements or members of an array or object that is too long for one label.
// Each of them becomes a label whose name is its JSON pointer without the leading slash.
func (d *draft) keepParts(pointer, pattern string, v pyjson.Value) {
	if pattern == "" {
		pattern = pointer
	}
	i := 0
	for part := range v.Elements() {
		at := pointer + "/" + strconv.Itoa(i)
		d.keepAt(at, pattern+"/*", member{at[1:], part})
		i++
	}
	for name, part := range v.Members() {
		below := pointerTo(string(name.Text()))
		d.keepAt(pointer+below, pattern+below, member{(pointer + below)[1:], part})
	}
}

// maxParts is the maximum length, in bytes of JSON, of an array or object that is split into
// labels.
const maxParts = 16 << 10

// parts returns the array or object to split into labels: v itself or, if v is a string that
// contains JSON, the parsed JSON. It returns the absent Value if there is no array or object, if v
// is longer than maxParts, or if the record is an IPC record, which keeps v as content.
func (d *draft) parts(v pyjson.Value) pyjson.Value {
	if d.conversion.Kind == record.KindIPCRecord || len(v.Raw()) > maxParts {
		return pyjson.Value{}
	}
	if text := v.Text(); v.Kind() == pyjson.String && !bytes.HasPrefix(text, []byte("[")) && !bytes.HasPrefix(text, []byte("{")) {
		return pyjson.Value{}
	}
	if inner, _ := jsonOf(v); inner.Kind() >= pyjson.Array {
		return inner
	}
	return pyjson.Value{}
}

// label tries to keep a short value as a label and reports whether it succeeded. An array or object
// is kept as its JSON.
func (d *draft) label(name string, v pyjson.Value) bool {
	text := string(v.Raw())
	parts := d.parts(v)
	switch {
	case parts.Kind() != pyjson.Absent:
		text = canonical(parts)
	case v.Kind() == pyjson.String:
		text = string(v.Text())
	case v.Kind() >= pyjson.Array:
		return false
	}
	return d.addLabel(name, text)
}

func (d *draft) addLabel(name, text string) bool {
	l := d.options.Limits
	if before, used := d.labels[name]; used {
		return before == text
	}
	if len(name) == 0 || len(name) > l.MaxLabelBytes || len(text) > l.MaxLabelBytes || len(d.labels) >= l.MaxLabels-reservedLabels ||
		pyjson.HasLoneSurrogate([]byte(name)) || pyjson.HasLoneSurrogate([]byte(text)) {
		return false
	}
	d.labels[name] = text
	return true
}

// reservedLabels is the number of labels that are reserved for zoneLabel.
const reservedLabels = 1

// zoneLabel is the name of the label that is added to a record if its time had no zone. The label's
// value is Options.DefaultZone.
const zoneLabel = "imported_zone"

// time uses a member as the record's timestamp. If the member is not a time or the record already
// has a timestamp, time keeps the member instead.
func (d *draft) time(m member) {
	text, zoned, ok := parseTime(m.value, d.options.DefaultZone)
	switch {
	case !ok || d.names["timestamp"]:
		d.keep(m)
		d.hintZone(m)
	default:
		d.text("timestamp", []byte(text))
		as := "timestamp"
		if zoned {
			d.zoned = true
			as += " in the stated zone"
		}
		d.note(pointerTo(m.name), "", OutcomeField, "%s", as)
	}
}

// hintZone adds a hint to the last note, which must describe m, if m could have been the timestamp
// but has no time zone.
func (d *draft) hintZone(m member) {
	if (m.name == "timestamp" || m.name == "created_at" || m.name == "first_seen") && isNaive(m.value) && d.options.DefaultZone == nil {
		d.conversion.MemberOutcomes[len(d.conversion.MemberOutcomes)-1].Detail += ": the value has no time zone; specify a zone to use the value as the timestamp"
	}
}

// labelsOf keeps each member of the object m as a label. If m is not an object, labelsOf keeps m as
// a whole.
func (d *draft) labelsOf(m member) {
	if m.value.Kind() != pyjson.Object {
		d.keep(m)
		return
	}
	for name, value := range m.value.Members() {
		d.keepAt(pointerTo(m.name)+pointerTo(string(name.Text())), "", member{string(name.Text()), value})
	}
}

// changeKey returns the idempotency key for a change that is imported after the record it applies
// to. at and by are the time and the author of the change; either can be absent.
func (d *draft) changeKey(change string, at, by pyjson.Value) string {
	short := d.conversion.Key + ":" + change
	if key := short + ":" + canonical(at) + canonical(by); (at.IsGiven() || by.IsGiven()) && len(key) <= record.MaxIdempotencyKeyBytes {
		return key
	}
	return short
}

// finish completes the record and returns the finished Conversion.
func (d *draft) finish() Conversion {
	if d.tooMany {
		return d.leave("the value has more than %d members; use colophon import", d.options.MaxMembers)
	}
	if d.zoned {
		d.labels[zoneLabel] = d.options.DefaultZone.String()
	}
	if len(d.labels) > 0 {
		d.w.BeginMember("labels")
		d.w.BeginObject()
		for name, text := range d.labels {
			d.w.AddText(name, []byte(text))
		}
		d.w.EndObject()
	}
	d.appendUsage()
	d.w.EndObject()
	d.conversion.Record = d.w.Buf
	return d.conversion
}

// appendUsage writes the member "usage" with its original members and, under "imported", the
// members that are kept as content.
func (d *draft) appendUsage() {
	if len(d.imported) == 0 {
		if d.usage.IsGiven() {
			d.raw("usage", d.usage.Raw())
		}
		return
	}
	d.w.BeginMember("usage")
	d.w.BeginObject()
	for name, value := range d.usage.Members() {
		d.w.BeginMember(string(name.Text()))
		d.w.Buf = append(d.w.Buf, value.Raw()...)
	}
	d.w.BeginMember("imported")
	d.w.BeginObject()
	for _, m := range d.imported {
		d.w.BeginMember(m.name)
		d.w.Buf = append(d.w.Buf, m.value.Raw()...)
	}
	d.w.EndObject()
	d.w.EndObject()
}

// leave returns a Conversion without a record. format and args give the reason why the native value
// does not become a record.
func (d *draft) leave(format string, args ...any) Conversion {
	d.conversion.FailureReason = fmt.Sprintf(format, args...)
	return d.conversion
}

// The functions below report whether a value has a given form.

func isText(v pyjson.Value) bool {
	return v.Kind() == pyjson.String && !pyjson.HasLoneSurrogate(v.Text())
}

func isName(v pyjson.Value) bool { return isText(v) && len(v.Text()) <= fields.MaxNameBytes }

func isID(v pyjson.Value) bool { return isName(v) && len(v.Text()) > 0 }

func isDigest(v pyjson.Value) bool { return v.Kind() == pyjson.String && rules.IsDigest(v.Text()) }

func isObject(v pyjson.Value) bool { return v.Kind() == pyjson.Object }

func isArray(v pyjson.Value) bool { return v.Kind() == pyjson.Array }

func isInteger(v pyjson.Value) bool { return v.Kind() == pyjson.Integer }

func isCount(v pyjson.Value) bool {
	return isInteger(v) && !strings.HasPrefix(strings.TrimPrefix(string(v.Raw()), "-0"), "-")
}

func isNumber(v pyjson.Value) bool {
	_, ok := v.Float()
	return ok
}

func isWTF(v pyjson.Value) bool { return v.Kind() == pyjson.String }

func isStrict(v pyjson.Value) bool {
	_, surrogate := v.FindLoneSurrogate()
	return isObject(v) && !surrogate
}
