package verify

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
	"colophon/proofs/audit"
)

// verifyRecord checks that a record is the one that an event is about, and that
// the event is, byte for byte, what this program makes of that record. The event
// must be verified. The error wraps ErrRecord or ErrRecomputed.
func verifyRecord(body, posted []byte) error {
	var document pyjson.Document
	if err := document.Parse(body); err != nil {
		return fmt.Errorf("%w: event: %w", proofs.ErrMalformed, err)
	}
	root := document.Root()
	e := event.Read(root)
	kind, refused := e.Kind, e.Kind == record.RecordRefused
	if refused {
		kind = e.Refusal().Kind
	}
	r, err := parsePosted(kind, posted)
	if err != nil {
		return err
	}
	defer r.Release()
	if want := e.Digest(); r.Digest != want {
		return fmt.Errorf("%w: its digest is %x, the event's is %x", ErrRecord, r.Digest, want)
	}
	if rules := string(e.Rules.Raw()); rules != strconv.Itoa(record.Rules) {
		return fmt.Errorf("%w: it was checked by version %s of the rules, this program knows version %d", ErrRecomputed, rules, record.Rules)
	}
	expected, err := recompute(r, &e)
	if err != nil {
		return err
	}
	if bytes.Equal(expected, body) {
		return nil
	}
	var recomputed pyjson.Document
	if err := recomputed.Parse(expected); err != nil {
		return fmt.Errorf("recomputing the event: %w", err)
	}
	pointer, says, computed, found := audit.Difference(root, recomputed.Root(), func(pointer string, _, _ pyjson.Value) bool { return pointer == contentPointer })
	if !found {
		return nil // the same JSON, posted in another spelling
	}
	return fmt.Errorf("%w: %s: the event says %s, computed %s", ErrRecomputed, pointer, shown(says), shown(computed))
}

// parsePosted reads a record of a kind, or a line with one.
func parsePosted(kind record.Kind, posted []byte) (*record.Record, error) {
	var document pyjson.Document
	if document.Parse(posted) == nil {
		root := document.Root()
		if own := root.Member("kind"); own.Given() && root.Member("record").Given() {
			if string(own.Text()) != string(kind) {
				return nil, fmt.Errorf("%w: it is a %.100q, the event is about a %.100q", ErrRecord, own.Text(), kind)
			}
			posted = root.Member("record").Raw()
		}
	}
	r, err := record.NoLimits().Parse(kind, posted)
	if refused := (*record.Error)(nil); errors.As(err, &refused) {
		return nil, fmt.Errorf("%w: it is no record of kind %.100q: %w", ErrRecord, kind, err)
	}
	return r, err
}

// recompute makes the event of a record: what does not follow from the record is
// taken from the event.
func recompute(r *record.Record, e *event.Event) ([]byte, error) {
	frame := record.Event{Actor: string(e.Actor), Ledger: string(e.Ledger), Key: e.Key()}
	at, err := time.Parse(record.TimeLayout, string(e.TimeText))
	if err != nil {
		return nil, fmt.Errorf("%w: time of the event: %w", proofs.ErrMalformed, err)
	}
	if e.Kind != record.RecordRefused {
		return record.AppendSuffix(r.AppendBody(nil, frame), e.Seq, at), nil
	}
	refusal := e.Refusal()
	if refusal.Reason == record.RefusedKey && frame.Key == nil {
		return nil, fmt.Errorf("%w: a refusal without the key that it is about", proofs.ErrMalformed)
	}
	return record.AppendSuffix(r.AppendRefusal(nil, frame, refusal.Reason, refusal.FirstSeq), e.Seq, at), nil
}

// contentPointer is where an event names the digests of the exact bytes that were
// posted. The record's own digest is over its canonical form, so those of JSON
// that was posted in another spelling may differ though the record is the same.
const contentPointer = "/record/content"

// shown is a value as messages show it.
func shown(v pyjson.Value) []byte {
	const most = 200
	raw := v.Raw()
	switch {
	case raw == nil:
		return []byte("nothing")
	case len(raw) > most:
		return append(raw[:most:most], "…"...)
	}
	return raw
}
