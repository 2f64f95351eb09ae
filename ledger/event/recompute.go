package event

import (
	"bytes"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
)

// RecomputeBody returns the body of the event that the ledger would write for r. If e is a
// record_refused event, it returns the body of the refusal. It copies from e what r does not
// determine: the actor, ledger, idempotency key, seq, and time.
func (e *Event) RecomputeBody(r *record.Record) []byte {
	frame := record.EventContext{Actor: string(e.Actor), Ledger: string(e.Ledger), IdempotencyKeyDigest: e.IdempotencyKey()}
	var body []byte
	if e.Kind == record.KindRecordRefused {
		refusal := e.Refusal()
		body = r.AppendRefusal(nil, frame, refusal.Reason, refusal.FirstSeq)
	} else {
		body = r.AppendBodyPrefix(nil, frame)
	}
	return record.AppendBodySuffixWithTime(body, e.Seq, e.TimeText)
}

// FirstDifference returns the first place where two events in canonical form differ, as a JSON
// pointer, and the value at that place in each event. The kind of a missing value is Absent. Places
// for which skip returns true are ignored. skip can be nil.
func FirstDifference(a, b pyjson.Value, skip func(pointer string, a, b pyjson.Value) bool) (pointer string, inA, inB pyjson.Value, found bool) {
	return difference("", a, b, skip)
}

func difference(pointer string, a, b pyjson.Value, skip func(pointer string, a, b pyjson.Value) bool) (at string, inA, inB pyjson.Value, found bool) {
	if a.Kind() != pyjson.Object || b.Kind() != pyjson.Object {
		return pointer, a, b, true
	}
	for _, side := range [...]pyjson.Value{a, b} {
		for name := range side.Members() {
			next := string(pyjson.AppendPointerToken([]byte(pointer), name.Text()))
			x, y := a.Member(string(name.Text())), b.Member(string(name.Text()))
			if bytes.Equal(x.Raw(), y.Raw()) || skip != nil && skip(next, x, y) {
				continue
			}
			if at, inA, inB, found = difference(next, x, y, skip); found {
				return at, inA, inB, true
			}
		}
	}
	return "", pyjson.Value{}, pyjson.Value{}, false
}

// FormatValue formats a value for a message. It returns the JSON source of the value, or
// "nothing" if the value is absent.
func FormatValue(v pyjson.Value) []byte {
	if v.Kind() == pyjson.Absent {
		return []byte("nothing")
	}
	return v.Raw()
}
