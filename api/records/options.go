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
	RejectMismatches bool // refuse a record whose claimed hashes are wrong (spec: Refusals)
	MinimizeReceipt  bool // omit proofs from receipts (spec: Requests)
	// IncludeDerivedMembers adds to the receipt the members that the server derives from earlier
	// events (spec: Derived members).
	IncludeDerivedMembers bool
	IdempotencyKey        string // value of the Idempotency-Key header; may be empty
	Actor                 string // actor named in the events
}

// ReadOptions reads the options of a request that writes to l.
func (h *Handlers) ReadOptions(c *call.Call, l *ledger.Ledger) (Options, error) {
	o := Options{IdempotencyKey: c.Request().Header.Get("Idempotency-Key"), Actor: c.Actor(), RejectMismatches: l.MismatchPolicy() == ledger.MismatchPolicyReject}
	if len(o.IdempotencyKey) > record.MaxIdempotencyKeyBytes || !utf8.ValidString(o.IdempotencyKey) {
		return o, problem.New(http.StatusBadRequest, "Idempotency-Key: must be valid UTF-8 of at most %d bytes", record.MaxIdempotencyKeyBytes)
	}
	o.MinimizeReceipt = c.ReturnPreference() == "minimal"
	if c.Request().URL.RawQuery == "" {
		return o, nil
	}
	return o.withQuery(c)
}

// withQuery returns the options with the query parameters applied.
func (o Options) withQuery(c *call.Call) (Options, error) {
	mode, derive := ledger.MismatchPolicyAccept, ""
	if o.RejectMismatches {
		mode = ledger.MismatchPolicyReject
	}
	if err := c.ParseParameters(call.TextParameter("on_mismatch", &mode), call.TextParameter("derive", &derive)); err != nil {
		return o, err
	}
	var err error
	if o.IncludeDerivedMembers, err = query.ParseChoice("derive", derive, "false", "true"); err != nil {
		return o, err
	}
	if o.IncludeDerivedMembers {
		// Derived members reveal other records.
		if err := c.RequireScope(access.ScopeRead); err != nil {
			return o, err
		}
	}
	if mode != ledger.MismatchPolicyAccept && mode != ledger.MismatchPolicyReject {
		return o, problem.InvalidParameter("on_mismatch", `must be "accept" or "reject"`)
	}
	o.RejectMismatches = mode == ledger.MismatchPolicyReject
	return o, nil
}
