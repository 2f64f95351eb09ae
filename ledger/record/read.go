package record

import (
	"math"

	"colophon/ledger/record/fields"
	"colophon/ledger/record/moment"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/ledger/record/strict"
)

// readInteger decodes the named member as an integer of any size and returns it in plain decimal.
// It returns nil if the member is not given or not valid. If count is true, the integer must not be
// negative.
func (r *Record) readInteger(o strict.Object, name string, count bool) []byte {
	v := o.Member(name)
	if !v.IsGiven() {
		return nil
	}
	decimal, ok := v.AppendInteger(r.scratch[:0])
	r.scratch = decimal
	switch {
	case !ok:
		o.ReportInvalid(name, "must be an integer without a fraction or an exponent")
	case count && decimal[0] == '-':
		o.ReportInvalid(name, "must not be negative")
	default:
		return r.keep(decimal)
	}
	return nil
}

func (r *Record) readCount(o strict.Object, name string) []byte {
	if !o.Member(name).IsGiven() {
		o.ReportMissing(name)
	}
	return r.readInteger(o, name, true)
}

// readTimestamp decodes the named member as an RFC 3339 time and returns it as it was sent. It
// returns nil if the member is not given or not valid.
func readTimestamp(o strict.Object, name string) []byte {
	text := o.Text(name, fields.MaxTimestampBytes)
	if text == nil {
		return nil
	}
	if _, ok := moment.Parse(text); !ok {
		o.ReportInvalid(name, "must be an RFC 3339 time such as 2025-11-30T12:00:00Z")
		return nil
	}
	return text
}

// fitsEntry reports whether a list is short enough for its event to fit in a log entry. bytes is
// the minimum length of an element in the event. If the list is too long, fitsEntry reports a
// problem that ends with advice on what to do. Call it before decoding the elements, because a
// decoded element can need many times the memory of its text.
func fitsEntry(o strict.Object, name string, list pyjson.Value, bytes int, advice string) bool {
	most := fields.MaxEntryBytes / bytes
	if list.Len() <= most {
		return true
	}
	o.ReportInvalid(name, "has %d elements, but a log entry of %d bytes has room for at most %d; %s", list.Len(), fields.MaxEntryBytes, most, advice)
	return false
}

// These are short names for limits that package fields defines.
const (
	maxName   = fields.MaxNameBytes
	maxStage  = fields.MaxShortTextBytes
	maxReason = fields.MaxReasonBytes
)

// IsDigest reports whether text is a SHA-256 hash in the form that events use: 64 lower-case
// hexadecimal digits.
func IsDigest(text []byte) bool { return rules.IsDigest(text) }

// readProducer decodes a producer, or returns the zero Producer if it is not given. A producer must
// have both an id and a seq.
func (r *Record) readProducer(o strict.Object, name string) fields.Producer {
	v := o.Member(name)
	if !v.IsGiven() {
		return fields.Producer{}
	}
	p := o.Decoder.Object(v, o.MemberPointer(name), "id", "seq")
	if !p.Member("id").IsGiven() {
		p.ReportMissing("id")
	}
	id, seq := p.Identifier("id", fields.MaxProducerIDBytes), r.readCount(p, "seq")
	if seq != nil && !fields.IsProducerSeq(seq) {
		p.ReportInvalid("seq", "must be at most %d", int64(math.MaxInt64))
	}
	return fields.Producer{ID: id, Seq: seq}
}

func readReason(o strict.Object, name string) []byte {
	text := o.RequiredText(name, maxReason)
	if text != nil && len(text) == 0 {
		o.ReportInvalid(name, "must not be empty; give a reason")
	}
	return text
}
