package records

import (
	"net/http"
	"unicode/utf8"

	"colophon/api/access"
	"colophon/api/call"
	"colophon/api/problem"
	"colophon/ledger"
	"colophon/ledger/query"
	"colophon/ledger/record"
)

// Options are the parameters and headers of a write.
type Options struct {
	Reject  bool // refuse a record whose claimed hashes are wrong (spec: Refusals)
	Minimal bool // omit proofs from receipts (spec: Requests)
	Derive  bool // add derived members to the receipt (spec: Derived members)
	Key     string
	Actor   string // actor named in the events
}

// ReadOptions reads the options of a request that writes to l.
func (h *Handlers) ReadOptions(c *call.Call, l *ledger.Ledger) (Options, error) {
	o := Options{Key: c.Request().Header.Get("Idempotency-Key"), Actor: c.Actor(), Reject: l.MismatchPolicy() == ledger.RejectMismatch}
	if len(o.Key) > record.MaxKey || !utf8.ValidString(o.Key) {
		return o, problem.New(http.StatusBadRequest, "Idempotency-Key: must be valid UTF-8 of at most %d bytes", record.MaxKey)
	}
	o.Minimal = c.ReturnPreference() == "minimal"
	if c.Request().URL.RawQuery == "" {
		return o, nil
	}
	return o.withQuery(c)
}

// withQuery returns the options with the query parameters applied.
func (o Options) withQuery(c *call.Call) (Options, error) {
	mode, derive := ledger.AcceptMismatch, ""
	if o.Reject {
		mode = ledger.RejectMismatch
	}
	if err := c.ParseParameters(call.TextParameter("on_mismatch", &mode), call.TextParameter("derive", &derive)); err != nil {
		return o, err
	}
	var err error
	if o.Derive, err = query.ParseChoice("derive", derive, "false", "true"); err != nil {
		return o, err
	}
	if o.Derive {
		// Derived members reveal other records.
		if err := c.RequireScope(access.ScopeRead); err != nil {
			return o, err
		}
	}
	if mode != ledger.AcceptMismatch && mode != ledger.RejectMismatch {
		return o, problem.InvalidParameter("on_mismatch", `must be "accept" or "reject"`)
	}
	o.Reject = mode == ledger.RejectMismatch
	return o, nil
}
