package ledger

import (
	"colophon/ledger/record"
	"colophon/proofs"
)

// Prepare makes the submission of a record (spec: Event body; Idempotency). key is the
// idempotency key that the client chose; empty means none: then kind and run_id are the key
// where there is a run_id. The error is a *record.Error when the record makes
// too large an entry. The submission lives as long as the record.
func (l *Ledger) Prepare(r *record.Record, actor, key string) (Submission, error) {
	e := record.Event{Actor: actor, Ledger: l.info.Name, Key: keyDigest(r, key)}
	body := r.Body(e)
	if err := record.CheckSize(body); err != nil {
		return Submission{}, err
	}
	s := keyed(r, e)
	s.Body, s.Contents = body, r.Contents
	return s, nil
}

// PrepareRefusal makes the submission that logs the refusal of a record whose
// claims do not hold (spec: Refusals), unless the record is in the log already under key.
func (l *Ledger) PrepareRefusal(r *record.Record, actor, key string) Submission {
	e := record.Event{Actor: actor, Ledger: l.info.Name, Key: keyDigest(r, key)}
	s := keyed(r, e)
	s.Body, s.Refused = r.AppendRefusal(nil, e, record.RefusedMismatch, 0), true
	return s
}

// PrepareVerb makes the submission of a verb (spec: States; Path validation; Sources;
// Redactions). key is the idempotency key that the client chose; empty means none, and every
// request is an event of its own. The error is a *record.Error when the verb makes too large an
// entry.
func (l *Ledger) PrepareVerb(v *record.Verb, actor, key string) (Submission, error) {
	e := record.Event{Actor: actor, Ledger: l.info.Name}
	if key != "" {
		digest := HeaderKey(key)
		e.Key = &digest
	}
	body := v.AppendBody(nil, e)
	if err := v.CheckSize(body); err != nil {
		return Submission{}, err
	}
	return Submission{
		Body:    body,
		Key:     e.Key,
		Record:  record.KeyedDigest(v.Kind, v.Digest),
		Refusal: func(first uint64) []byte { return v.AppendRefusal(nil, e, first) },
	}, nil
}

// keyed is the part of a submission that its idempotency key needs.
func keyed(r *record.Record, e record.Event) Submission {
	return Submission{
		Key:    e.Key,
		Record: record.KeyedDigest(r.Kind, r.Digest),
		Refusal: func(first uint64) []byte {
			return r.AppendRefusal(nil, e, record.RefusedKey, first)
		},
	}
}

func keyDigest(r *record.Record, key string) *proofs.Hash {
	var digest proofs.Hash
	switch {
	case key != "":
		digest = HeaderKey(key)
	case r.RunID != "":
		digest = record.RunKey(r.Kind, r.RunID)
	default:
		return nil
	}
	return &digest
}
