package audit

import (
	"crypto/sha256"
	"fmt"

	"colophon/ledger/record"
)

// use checks what an event has to do with its idempotency key (spec: Idempotency) and notes it.
// What the event is about is of that kind.
func (w *walk) use(e *decoded, kind record.Kind) error {
	if e.Common.Key == nil {
		return nil
	}
	u := KeyUse{Key: *e.Common.Key, Digest: e.Common.Digest, Kind: kind, Seq: e.seq}
	w.key = u.Key
	if e.Kind == record.RecordRefused {
		first := e.Refusal.FirstSeq
		if first >= e.seq {
			return e.damaged("it refuses a record for a key that no event before it holds")
		}
		u.Role, u.First = RefusedForKey, first
	}
	if w.stored != nil {
		return w.checkKey(u)
	}
	w.report.Keys++
	return w.past.Use(u)
}

// useSource notes that an event registers or revokes a source. Whether the sources that
// are revoked were registered before, checkUses finds out.
func (w *walk) useSource(e *decoded) error {
	role := RegistersSource
	if e.Kind == record.SourceRevoked {
		role = RevokesSource
	}
	id := sha256.Sum256(e.Source.ID)
	if w.stored != nil { // whose past notes nothing
		if role == RevokesSource && !w.sources[id] {
			return e.damaged("it revokes the source whose id has the SHA-256 %x, which no event before it registers", id)
		}
		w.sources[id] = true
		return nil
	}
	return w.past.Use(KeyUse{Key: id, Kind: e.Kind, Seq: e.seq, Role: role})
}

// checkKey checks that an idempotency key leads to the event that claims it, or, for
// the refusal of a second record under one key, to the event that holds it.
func (w *walk) checkKey(u KeyUse) error {
	holder := u.Seq
	if u.Role == RefusedForKey {
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
	case u.Role == ClaimsKey && got.Record != stands:
		return damaged(KindKey, u.Seq, "key %x stands for the record %x, the event is about %x", u.Key, got.Record, stands)
	case u.Role == RefusedForKey && got.Record == stands:
		return damaged(KindKey, u.Seq, "key %x is said to be held by another record, but event %d brings the one that is refused", u.Key, u.First)
	}
	w.report.Keys++
	if u.Role == ClaimsKey {
		w.report.Claims++
	}
	return nil
}

// checkUses checks that every idempotency key is claimed by one event, which comes
// first, that all others were refused for it, and that every source which is revoked was
// registered before.
func (w *walk) checkUses() error {
	var first *Damage
	for uses, err := range w.past.Uses() {
		if err != nil {
			return err
		}
		w.tally.count(uses)
		if d := misused(uses); d != nil && (first == nil || d.Seq < first.Seq) {
			first = d
		}
	}
	if first != nil {
		return first
	}
	w.tally.Counted = w.tree.Size()
	return nil
}

// misused is the first damage among the uses of one key, or of one source.
func misused(uses []KeyUse) *Damage {
	var holder *KeyUse
	registered := false
	for i := range uses {
		u := &uses[i]
		kind, wrong := KindKey, ""
		switch {
		case u.Role == ChangesState:
		case u.Role == RegistersSource:
			registered = true
		case u.Role == RevokesSource:
			if !registered {
				kind, wrong = KindEvent, fmt.Sprintf("it revokes the source whose id has the SHA-256 %x, which no event before it registers", u.Key)
			}
		case u.Role == ClaimsKey && holder != nil:
			wrong = fmt.Sprintf("it claims the key %x, which event %d holds", u.Key, holder.Seq)
		case u.Role == ClaimsKey:
			holder = u
		case holder == nil || u.First != holder.Seq:
			wrong = fmt.Sprintf("it refuses a record because event %d holds the key %x, which that does not", u.First, u.Key)
		case u.sameRecord(holder):
			wrong = fmt.Sprintf("it refuses a record because event %d holds the key %x, and that brings the same record", u.First, u.Key)
		}
		if wrong != "" {
			return &Damage{Kind: kind, Seq: u.Seq, Message: wrong}
		}
	}
	return nil
}
