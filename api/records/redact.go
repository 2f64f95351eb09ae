package records

import (
	"context"
	"errors"
	"net/http"

	"colophon/api/call"
	"colophon/api/problem"
	"colophon/ledger"
	"colophon/ledger/query"
	"colophon/ledger/record"
	"colophon/proofs"
	"colophon/storage"
)

// Redact erases the content of one record (spec: Redactions). For a record that is already
// redacted, it sends the receipt of the event that redacted it.
func (h *Handlers) Redact(c *call.Call) error {
	l, o, err := h.beginAction(c)
	if err != nil {
		return err
	}
	seq, err := query.ParseUint("seq", c.Param("seq"))
	if err != nil {
		return err
	}
	body, err := c.ReadBody()
	if err != nil {
		return err
	}
	if err := c.BeginDecoding(body); err != nil {
		body.Release()
		return err
	}
	v, err := record.ParseRedaction(seq, body.Bytes())
	body.Release()
	c.EndHeavyWork()
	if err != nil {
		return err
	}
	refusal := problem.New(http.StatusNotFound, "event %d is not a record with content, so nothing can be erased; correct the seq", seq)
	if seq >= l.Head().Size {
		return refusal
	}
	ctx := c.Request().Context()
	switch by, err := query.FindRedaction(ctx, l.Reader().RedactingSeq, seq); {
	case err != nil:
		return err
	case by != nil:
		held, err := HasIdempotencyKey(ctx, l, o.IdempotencyKey)
		if err != nil {
			return err
		}
		if !held {
			return h.answer(c, l, &Outcome{MinimizeReceipt: o.MinimizeReceipt, Ack: ledger.Ack{Outcome: ledger.OutcomeReplayed, KeyHolderSeq: *by, Head: l.Head()}})
		}
	}
	withdrawn, err := l.PrepareRedaction(ctx, seq)
	if err != nil {
		return err
	}
	if len(withdrawn.Digests) == 0 {
		return refusal
	}
	sub, err := l.PrepareAction(v, o.Actor, o.IdempotencyKey)
	if err != nil {
		return err
	}
	sub.Redactions = []storage.Redaction{withdrawn}
	return h.submitPrepared(c, l, o, sub)
}

// HasIdempotencyKey reports whether an event already has the client's idempotency key. It returns false for
// an empty key.
func HasIdempotencyKey(ctx context.Context, l *ledger.Ledger, key string) (bool, error) {
	if key == "" {
		return false, nil
	}
	return hasKeyDigest(ctx, l, ledger.IdempotencyKeyDigest(key))
}

// hasKeyDigest is like HasIdempotencyKey, but accepts the digest of an idempotency key.
func hasKeyDigest(ctx context.Context, l *ledger.Ledger, key proofs.Hash) (bool, error) {
	_, err := l.Reader().KeyClaim(ctx, key)
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
