package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"colophon/ledger/record"
)

// Tally counts what the events up to a position say.
type Tally struct {
	First      string `json:"first"`      // time of the first event
	Records    uint64 `json:"records"`    // events that bring a record
	Stateful   uint64 `json:"stateful"`   // records that have a state
	Mismatched uint64 `json:"mismatched"` // records of which a claim fails
	Refused    uint64 `json:"refused"`    // what was refused
	// ChosenKeys is the number of records with a run_id and another idempotency key than the one
	// that follows from it: their writers chose it, or the server lies.
	ChosenKeys uint64 `json:"chosen_keys"`
	// Counted is the number of events whose changes of state are in the numbers after it.
	Counted     uint64 `json:"counted"`
	Failed      uint64 `json:"failed"`
	Stale       uint64 `json:"stale"`
	Quarantined uint64 `json:"quarantined"`
}

// Live is the number of records whose state is live.
func (t *Tally) Live() uint64 { return t.Stateful - t.Failed - t.Stale - t.Quarantined }

// add counts an event.
func (t *Tally) add(e *decoded, at []byte) {
	if e.seq == 0 {
		t.First = string(at)
	}
	switch {
	case e.Kind == record.RecordRefused:
		t.Refused++
	case e.Kind.IsRecord():
		t.Records++
		if e.Kind.HasState() {
			t.Stateful++
		}
		if e.failed {
			t.Mismatched++
		}
	}
}

// useState notes a change of state, whose last one of each record checkUses counts.
func (w *walk) useState(e *decoded, seq uint64) error {
	u := KeyUse{Key: sha256.Sum256(binary.BigEndian.AppendUint64([]byte("state"), seq)), Kind: e.Kind, Seq: e.seq, First: seq, Role: ChangesState}
	u.Digest[0] = byte(slices.Index(record.States[:], record.State(e.State.State)))
	return w.past.Use(u)
}

// countKey counts the idempotency key of a record with a run_id, which use has just read.
func (w *walk) countKey(kind record.Kind, runID []byte) {
	w.joined = append(append(append(w.joined[:0], "run_id\x00"...), kind...), 0) // as record.RunKey
	if w.joined = append(w.joined, runID...); w.key != sha256.Sum256(w.joined) {
		w.tally.ChosenKeys++
	}
}

// count counts the state of a record, of which uses has all changes.
func (t *Tally) count(uses []KeyUse) {
	before, now := record.Live, record.Live
	for _, u := range uses {
		if u.Role != ChangesState || int(u.Digest[0]) >= len(record.States) {
			continue
		}
		now = record.States[u.Digest[0]]
		if u.Seq < t.Counted {
			before = now
		}
	}
	if number := t.of(before); number != nil {
		*number--
	}
	if number := t.of(now); number != nil {
		*number++
	}
}

// of is the number of records of a state; nil of live.
func (t *Tally) of(s record.State) *uint64 {
	switch s {
	case record.Failed:
		return &t.Failed
	case record.Stale:
		return &t.Stale
	case record.Quarantined:
		return &t.Quarantined
	}
	return nil
}
