package audit

import (
	"colophon/ledger/event"
	"colophon/ledger/record"
)

// Tally counts the events of a log up to a position.
type Tally struct {
	FirstEventTime    string `json:"first"`      // time of the first event
	Records           uint64 `json:"records"`    // events that contain a record
	StatefulRecords   uint64 `json:"stateful"`   // records that have a state
	MismatchedRecords uint64 `json:"mismatched"` // records with a failed check
	Refusals          uint64 `json:"refused"`    // events that refuse a record
	// ChosenKeyCount counts the records whose idempotency key does not follow from their run_id.
	// Either the writers chose those keys, or the server is dishonest.
	ChosenKeyCount uint64 `json:"chosen_keys"`
	// StatesAsOfSize is the number of events, from the first one on, whose state changes the fields
	// below take into account.
	StatesAsOfSize     uint64 `json:"counted"`
	FailedRecords      uint64 `json:"failed"`      // records whose state is failed
	StaleRecords       uint64 `json:"stale"`       // records whose state is stale
	QuarantinedRecords uint64 `json:"quarantined"` // records whose state is quarantined
}

// LiveRecords returns the number of records whose state is live.
func (t *Tally) LiveRecords() uint64 {
	return t.StatefulRecords - t.FailedRecords - t.StaleRecords - t.QuarantinedRecords
}

// add counts an event. State changes are counted by countState instead.
func (t *Tally) add(e *event.Body) {
	if e.Seq == 0 {
		t.FirstEventTime = string(e.TimeText)
	}
	switch {
	case e.Kind == record.KindRecordRefused:
		t.Refusals++
	case e.Kind.IsRecord():
		t.Records++
		if e.Kind.HasState() {
			t.StatefulRecords++
		}
		for i := range e.Checks {
			if e.Checks[i].Result == record.ResultMismatch {
				t.MismatchedRecords++
				break
			}
		}
	}
}

// countState updates the counters for the state of one record. uses must contain all changes of
// that record's state. Uses with other roles are ignored.
func (t *Tally) countState(uses []KeyUse) {
	before, now := record.StateLive, record.StateLive
	for _, u := range uses {
		if u.Role != KeyUseStateChange || int(u.Digest[0]) >= len(record.States) {
			continue
		}
		now = record.States[u.Digest[0]]
		if u.Seq < t.StatesAsOfSize {
			before = now
		}
	}
	if number := t.counter(before); number != nil {
		*number--
	}
	if number := t.counter(now); number != nil {
		*number++
	}
}

// counter returns the counter for a state, or nil for the live state, which has no counter.
func (t *Tally) counter(s record.State) *uint64 {
	switch s {
	case record.StateFailed:
		return &t.FailedRecords
	case record.StateStale:
		return &t.StaleRecords
	case record.StateQuarantined:
		return &t.QuarantinedRecords
	}
	return nil
}
