package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"colophon/ledger/event"
	"colophon/ledger/record"
)

// useCheck collects the events' uses of idempotency keys, sources, and states, and checks at the
// end of the walk that these uses are consistent.
type useCheck struct {
	past   History
	report *Report
	tally  *Tally
}

// event records how an event uses its idempotency key, if it has one (spec: Idempotency).
func (c *useCheck) event(e *event.Body) error {
	key, runID := e.Common.IdempotencyKeyDigest, e.Common.RunID
	if key == nil {
		if e.Kind.IsRecord() && runID != nil {
			return damaged(DamageKindEvent, e.Seq, "the event has a run_id, but no idempotency key")
		}
		return nil
	}
	u := KeyUse{Key: *key, Digest: e.Common.Digest, Kind: e.Kind, Seq: e.Seq}
	switch {
	case e.Kind == record.KindRecordRefused:
		u.Kind, u.Role, u.ReferencedSeq = e.Refusal.Kind, KeyUseRefusal, e.Refusal.FirstSeq
		if u.ReferencedSeq >= e.Seq {
			return damaged(DamageKindEvent, e.Seq, "the event refuses a record because of an idempotency key that no earlier event claims")
		}
	case e.Kind.IsRecord() && runID != nil && *key != record.RunIdempotencyKeyDigest(e.Kind, runID):
		c.tally.ChosenKeyCount++
	}
	if err := c.past.AddKeyUse(u); err != nil {
		return err
	}
	c.report.KeyUses++
	if u.Role == KeyUseClaim {
		c.report.KeyClaims++
	}
	return nil
}

// source records that an event registers or revokes a source.
func (c *useCheck) source(e *event.Body) error {
	role := KeyUseSourceRegistration
	if e.Kind == record.KindSourceRevoked {
		role = KeyUseSourceRevocation
	}
	return c.past.AddKeyUse(KeyUse{Key: sha256.Sum256(e.Source.ID), Kind: e.Kind, Seq: e.Seq, Role: role})
}

// state records that an event changes the state of a record.
func (c *useCheck) state(e *event.Body) error {
	seq := e.StateChange.RecordSeq
	u := KeyUse{Key: sha256.Sum256(binary.BigEndian.AppendUint64([]byte("state"), seq)), Kind: e.Kind, Seq: e.Seq, ReferencedSeq: seq, Role: KeyUseStateChange}
	u.Digest[0] = byte(slices.Index(record.States[:], record.State(e.StateChange.State)))
	return c.past.AddKeyUse(u)
}

// finish is called after a walk over size entries. Each idempotency key must be claimed by exactly
// one event, the first that uses it. All other events with the key must refuse a record because of
// it. Each revoked source must have been registered before. finish also counts the records in each
// state.
func (c *useCheck) finish(size uint64) error {
	var first *Damage
	for uses, err := range c.past.KeyUses() {
		if err != nil {
			return err
		}
		c.tally.countState(uses)
		if d := misuse(uses); d != nil && (first == nil || d.Seq < first.Seq) {
			first = d
		}
	}
	if first != nil {
		return first
	}
	c.tally.StatesAsOfSize = size
	return nil
}

// misuse returns the first damage among all uses of one key or source, or nil.
func misuse(uses []KeyUse) *Damage {
	var holder *KeyUse
	registered := false
	for i := range uses {
		u := &uses[i]
		wrong := ""
		switch {
		case u.Role == KeyUseStateChange:
		case u.Role == KeyUseSourceRegistration:
			registered = true
		case u.Role == KeyUseSourceRevocation && !registered:
			return u.notRegistered()
		case u.Role == KeyUseSourceRevocation:
		case u.Role == KeyUseClaim && holder != nil:
			wrong = fmt.Sprintf("the event claims the idempotency key %x, which event %d already claims", u.Key, holder.Seq)
		case u.Role == KeyUseClaim:
			holder = u
		case holder == nil || u.ReferencedSeq != holder.Seq:
			wrong = fmt.Sprintf("the event refuses a record because event %d claims the idempotency key %x, but that event does not claim this key", u.ReferencedSeq, u.Key)
		case u.sameRecord(holder):
			wrong = fmt.Sprintf("the event refuses a record because event %d claims the idempotency key %x, but both events have the same record", u.ReferencedSeq, u.Key)
		}
		if wrong != "" {
			return &Damage{Kind: DamageKindKey, Seq: u.Seq, Message: wrong}
		}
	}
	return nil
}

// notRegistered returns the damage to report for the revocation of an unregistered source.
func (u *KeyUse) notRegistered() *Damage {
	return &Damage{Kind: DamageKindEvent, Seq: u.Seq, Message: fmt.Sprintf("the event revokes the source whose id has the SHA-256 %x, but no earlier event registers that source", u.Key)}
}
