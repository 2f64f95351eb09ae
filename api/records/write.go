package records

import (
	"time"

	"colophon/api/call"
	"colophon/ledger"
	"colophon/ledger/record"
	"colophon/ledger/record/members"
)

// WriteRoutes maps each of the four kinds of records to the route that writes it (spec: Requests).
var WriteRoutes = map[record.Kind]string{
	record.KindIPCRecord:       "/ipc-records",
	record.KindRunDAG:          "/run-dags",
	record.KindCitationSet:     "/citation-sets",
	record.KindPathFingerprint: "/path-fingerprints",
}

// postedRecord is a record with the request body that contains it.
type postedRecord struct {
	*record.Record
	body *call.Body // the record refers to the bytes of this body
}

// release releases the record and its body. Nothing may refer to either afterwards.
func (p postedRecord) release() {
	p.Release()
	p.body.Release()
}

// parseRecord decodes the record in a body. members is the ledger's member secret, or nil if the
// record is not for a ledger. The caller must release the returned record. If parseRecord returns
// an error, it releases the body.
func (h *Handlers) parseRecord(kind record.Kind, body *call.Body, members *members.Secret) (postedRecord, error) {
	r, err := h.RecordLimits.WithPayloadMemberSecret(members).ParseRecord(kind, body.Bytes())
	if err != nil {
		body.Release()
		return postedRecord{}, err
	}
	return postedRecord{r, body}, nil
}

// WriteHandler returns the handler that writes a record of the given kind.
func (h *Handlers) WriteHandler(kind record.Kind) call.Handler {
	return func(c *call.Call) error {
		l, err := c.Ledger()
		if err != nil {
			return err
		}
		o, err := h.ReadOptions(c, l)
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
		r, err := h.parseRecord(kind, body, l.PayloadMemberSecret())
		if err != nil {
			return err
		}
		defer r.release()
		sub, refused, err := PrepareRecord(l, r.Record, o)
		if err != nil {
			return err
		}
		c.EndHeavyWork()
		if kind == record.KindCitationSet && !refused {
			if err := h.checkSources(c.Request().Context(), l, r.Record, &sub); err != nil {
				return err
			}
		}
		begin := time.Now()
		ack, err := l.Submit(sub)
		if err != nil {
			return err
		}
		h.AppendDuration.WithLabelValues(l.Name()).Observe(time.Since(begin).Seconds())
		return h.answer(c, l, &Outcome{Record: r.Record, Refused: refused, MinimizeReceipt: o.MinimizeReceipt, IncludeDerivedMembers: o.IncludeDerivedMembers, IdempotencyKey: o.IdempotencyKey, Ack: ack})
	}
}

// PrepareRecord returns the submission for r. If a claimed hash is wrong and o.RejectMismatches is
// true, it returns the submission for a refusal instead, and refused is true.
func PrepareRecord(l *ledger.Ledger, r *record.Record, o Options) (sub ledger.Submission, refused bool, err error) {
	if o.RejectMismatches && len(r.Mismatches()) > 0 {
		return l.PrepareRefusal(r, o.Actor, o.IdempotencyKey), true, nil
	}
	sub, err = l.PrepareRecord(r, o.Actor, o.IdempotencyKey)
	return sub, false, err
}
