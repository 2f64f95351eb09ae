package audit

import (
	"fmt"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
)

// use checks what an event has to do with its idempotency key (2.7) and notes it.
// digest is that of what it is about, of that kind.
func (w *walk) use(e *event, key, digest pyjson.Value, kind record.Kind) error {
	d, ok := parseDigest(digest.Text())
	if !ok {
		return e.damaged("its record's digest is %.100q", digest.Text())
	}
	if key.Kind() == pyjson.Absent {
		return nil
	}
	u := KeyUse{Digest: d, Kind: kind, Seq: e.seq}
	if u.Key, ok = parseDigest(key.Text()); !ok {
		return e.damaged("its idempotency key is %.100q", key.Text())
	}
	if e.kind == record.RecordRefused {
		first, ok := count(e.record.Member("first_seq"))
		if !ok || first >= e.seq {
			return e.damaged("it refuses a record for a key that no event before it holds")
		}
		u.Refused, u.First = true, first
	}
	if w.stored != nil {
		return w.checkKey(u)
	}
	w.report.Keys++
	return w.past.Use(u)
}

// checkKey checks that an idempotency key leads to the event that claims it, or, for
// the refusal of a second record under one key, to the event that holds it.
func (w *walk) checkKey(u KeyUse) error {
	holder := u.Seq
	if u.Refused {
		holder = u.First
	}
	got, err := w.stored.Key(w.ctx, u.Key)
	if err != nil {
		return unread(err, damaged(KindKey, u.Seq, "key %x is missing: %v", u.Key, err))
	}
	stands := record.KeyedDigest(u.Kind, u.Digest)
	switch {
	case got.Seq != holder:
		return damaged(KindKey, u.Seq, "key %x leads to event %d, not to %d", u.Key, got.Seq, holder)
	case !u.Refused && got.Record != stands:
		return damaged(KindKey, u.Seq, "key %x stands for the record %x, the event is about %x", u.Key, got.Record, stands)
	case u.Refused && got.Record == stands:
		return damaged(KindKey, u.Seq, "key %x is said to be held by another record, but event %d brings the one that is refused", u.Key, u.First)
	}
	w.report.Keys++
	if !u.Refused {
		w.report.Claims++
	}
	return nil
}

// checkUses checks that every idempotency key is claimed by one event, which comes
// first, and that all others were refused for it.
func (w *walk) checkUses() error {
	var first *Damage
	for uses, err := range w.past.Uses() {
		if err != nil {
			return err
		}
		if d := misused(uses); d != nil && (first == nil || d.Seq < first.Seq) {
			first = d
		}
	}
	if first != nil {
		return first
	}
	return nil
}

// misused is the first damage among the uses of one key.
func misused(uses []KeyUse) *Damage {
	holder := uses[0]
	for i, u := range uses {
		wrong := ""
		switch {
		case !u.Refused && i > 0:
			wrong = fmt.Sprintf("it claims the key %x, which event %d holds", u.Key, holder.Seq)
		case u.Refused && (i == 0 || u.First != holder.Seq):
			wrong = fmt.Sprintf("it refuses a record because event %d holds the key %x, which that does not", u.First, u.Key)
		case u.Refused && u.sameRecord(&holder):
			wrong = fmt.Sprintf("it refuses a record because event %d holds the key %x, and that brings the same record", u.First, u.Key)
		}
		if wrong != "" {
			return &Damage{Kind: KindKey, Seq: u.Seq, Message: wrong}
		}
	}
	return nil
}
