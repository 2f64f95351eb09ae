package questions

import (
	"net/http"

	"colophon/api/call"
	"colophon/ledger/index/counters"
)

// statsAnswer holds the counters of a ledger's first as_of events.
type statsAnswer struct {
	AsOf       uint64            `json:"as_of"`      // number of events that are counted, from the first
	TreeSize   uint64            `json:"tree_size"`  // number of events in the log
	Records    map[string]uint64 `json:"records"`    // number of records, by kind
	Refusals   map[string]uint64 `json:"refusals"`   // number of refusals, by reason
	Incomplete map[string]uint64 `json:"incomplete"` // number of IPC records, by the part that they lack
	Checks     []checkCount      `json:"checks"`     // number of hash checks, by kind, field, and result
}

type checkCount struct {
	Kind   string `json:"kind"`   // kind of the records
	Field  string `json:"field"`  // name of the checked hash
	Result string `json:"result"` // "match", "mismatch", "computed", or "claimed"
	Count  uint64 `json:"count"`  // number of checks with this result
}

// ServeStats sends the ledger's counters at the current head. If the index lags far behind, it
// sends them at the index's size.
func (h *Handlers) ServeStats(c *call.Call) error {
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	if err := c.ParseParameters(); err != nil {
		return err
	}
	c.EndHeavyWork() // let other requests work while this one waits for the index
	follower, _, err := h.WaitForIndexAllowingLag(c.Request().Context(), l, l.Head().Size)
	if err != nil {
		return err
	}
	t := counters.TallyOf(follower) // read before the head, so that as_of never exceeds tree_size
	answer := statsAnswer{AsOf: t.Size, TreeSize: l.Head().Size, Records: t.RecordsByKind, Refusals: t.RefusalsByReason, Incomplete: t.IncompleteByPart, Checks: []checkCount{}}
	for _, n := range t.CheckCounts {
		answer.Checks = append(answer.Checks, checkCount(n))
	}
	return c.AnswerJSON(http.StatusOK, answer)
}
