package ledger

import (
	"colophon/ledger/record"
	"colophon/proofs"
)

// PrepareRecord returns the submission that appends a record (spec: Event body; Idempotency). key
// is the client's idempotency key. If it is empty and the record has a run_id, the kind and the
// run_id together act as the key. The error is a *strict.Error if the entry would be too large. The
// submission shares memory with r.
func (l *Ledger) PrepareRecord(r *record.Record, actor, key string) (Submission, error) {
	e := record.EventContext{Actor: actor, Ledger: l.info.Name, IdempotencyKeyDigest: keyDigest(r, key)}
	body := r.BodyPrefix(e)
	if err := record.CheckEntrySize(body); err != nil {
		return Submission{}, err
	}
	s := keyed(r, e)
	s.Body, s.Contents = body, r.Contents
	return s, nil
}

// PrepareRefusal returns the submission that logs the refusal of a record whose claims do not match
// (spec: Refusals). If the log already contains the record under key, the outcome of the submission
// is OutcomeReplayed instead.
func (l *Ledger) PrepareRefusal(r *record.Record, actor, key string) Submission {
	e := record.EventContext{Actor: actor, Ledger: l.info.Name, IdempotencyKeyDigest: keyDigest(r, key)}
	s := keyed(r, e)
	s.Body, s.IsRefusal = r.AppendRefusal(nil, e, record.RefusalMismatch, 0), true
	return s
}

// PrepareAction returns the submission that appends an action (spec: States; Path validation;
// Sources; Redactions). key is the client's idempotency key. Without a key, every request appends
// an event. The error is a *strict.Error if the entry would be too large.
func (l *Ledger) PrepareAction(action *record.Action, actor, key string) (Submission, error) {
	e := record.EventContext{Actor: actor, Ledger: l.info.Name}
	if key != "" {
		digest := IdempotencyKeyDigest(key)
		e.IdempotencyKeyDigest = &digest
	}
	body := action.AppendBodyPrefix(nil, e)
	if err := action.CheckEntrySize(body); err != nil {
		return Submission{}, err
	}
	return Submission{
		Body:         body,
		KeyDigest:    e.IdempotencyKeyDigest,
		RecordDigest: record.DigestWithKind(action.Kind, action.Digest),
		RefusalBody:  func(first uint64) []byte { return action.AppendRefusal(nil, e, first) },
	}, nil
}

// keyed returns a submission that has only the fields that depend on the idempotency key.
func keyed(r *record.Record, e record.EventContext) Submission {
	return Submission{
		KeyDigest:    e.IdempotencyKeyDigest,
		RecordDigest: record.DigestWithKind(r.Kind, r.Digest),
		RefusalBody: func(first uint64) []byte {
			return r.AppendRefusal(nil, e, record.RefusalKeyConflict, first)
		},
	}
}

func keyDigest(r *record.Record, key string) *proofs.Hash {
	var digest proofs.Hash
	switch {
	case key != "":
		digest = IdempotencyKeyDigest(key)
	case r.RunID != "":
		digest = record.RunIdempotencyKeyDigest(r.Kind, r.RunID)
	default:
		return nil
	}
	return &digest
}
