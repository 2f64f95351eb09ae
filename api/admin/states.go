package admin

import (
	"encoding/json"
	"errors"
	"net/http"

	"colophon/api/call"
	"colophon/ledger"
	"colophon/ledger/index/records"
	"colophon/ledger/record"
	"colophon/ledger/record/seqs"
)

// stateChanges is the answer to a request to change the state of many records. It says what was
// done or, in a dry run, what would be done.
type stateChanges struct {
	AsOf         uint64            `json:"as_of"`              // tree size at which the records were selected
	DryRun       bool              `json:"dry_run"`            // true if nothing was done
	Records      uint64            `json:"records"`            // number of records that change, each by one event
	AlreadySet   uint64            `json:"already"`            // number of records that already had the requested state
	WithoutState uint64            `json:"without_state"`      // number of events of kinds that have no state
	FirstSeqs    []uint64          `json:"first_seqs"`         // first records that change, in ascending order
	Receipts     []json.RawMessage `json:"receipts,omitempty"` // receipts of the first events only
}

// ChangeStates changes the state of all records that a request selects. By default it only
// reports what it would change.
func (h *Handlers) ChangeStates(c *call.Call) error {
	l, request, done, err := readMany(h, c, record.ParseStateChangeRequest)
	if err != nil {
		return err
	}
	defer done()
	wanted, asOf, err := h.selectRecords(c, l, &request.Selection)
	if err != nil {
		return err
	}
	answer := &stateChanges{AsOf: asOf, DryRun: request.DryRun, FirstSeqs: []uint64{}}
	others, err := h.inOtherStates(c, l, wanted, request.State, answer)
	if err != nil {
		return err
	}
	if !request.DryRun {
		c.BeginWrite()
		if err := h.changeStates(c, l, others, request, answer); err != nil {
			return err
		}
		c.MarkCommitted()
	}
	return c.AnswerJSON(http.StatusOK, answer)
}

// inOtherStates returns the wanted records whose state at the ledger's head differs from state. It
// adds the counts for all wanted records to answer.
func (h *Handlers) inOtherStates(c *call.Call, l *ledger.Ledger, wanted *seqs.Set, state record.State, answer *stateChanges) (others *seqs.Set, err error) {
	head, ctx := l.Head(), c.Request().Context()
	c.EndHeavyWork() // release the slot before waiting for the index
	follower, err := h.WaitForIndex(ctx, l, head.Size)
	if err != nil {
		return nil, err
	}
	if err := c.BeginRead(); err != nil {
		return nil, err
	}
	view, err := follower.View(head.Size)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, view.Close()) }()
	others = new(seqs.Set)
	for seq := range wanted.All() {
		if err := c.YieldTurn(); err != nil {
			return nil, err
		}
		one, err := records.Read(ctx, view, &records.Filter{}, seq)
		if err != nil {
			return nil, err
		}
		if !one.Kind.HasState() {
			answer.WithoutState++
			continue
		}
		current, err := records.StateOf(view, seq)
		if err != nil {
			return nil, err
		}
		if current == string(state) {
			answer.AlreadySet++
			continue
		}
		others.Add(seq)
		if len(answer.FirstSeqs) < ledger.MaxListedRecords {
			answer.FirstSeqs = append(answer.FirstSeqs, seq)
		}
	}
	answer.Records = others.Len()
	return others, nil
}

// changeStates changes the state of the given records, writing one event for each, and adds the
// result to answer. If it fails after changing some of the records, the error says how many.
func (h *Handlers) changeStates(c *call.Call, l *ledger.Ledger, targets *seqs.Set, request *record.StateChangeRequest, answer *stateChanges) error {
	changes := func(yield func(*record.Action) bool) {
		for seq := range targets.All() {
			if !yield(request.ActionFor(seq)) {
				return
			}
		}
	}
	answer.Records = 0
	err := l.AppendActions(c.Request().Context(), changes, c.Actor(), func(ack ledger.Ack) error {
		answer.Records++
		return addReceipt(c, l, ack, &answer.Receipts)
	})
	return withProgress(err, answer.Records, "changed", "change")
}
