package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"colophon/api/call"
	"colophon/api/problem"
	"colophon/api/receipts"
	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/index/records"
	"colophon/ledger/query"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/seqs"
	"colophon/proofs"
)

// readMany reads a request that applies to many records. It then waits until no other such request
// is running on the ledger, because each may read a large part of the ledger. Until the request
// starts to write, it is scheduled like a read. If err is nil, the caller must call done at the end
// of the request.
func readMany[T any](h *Handlers, c *call.Call, parse func([]byte) (*T, error)) (l *ledger.Ledger, request *T, done func(), err error) {
	if l, err = c.Ledger(); err != nil {
		return nil, nil, nil, err
	}
	if err := c.ParseParameters(); err != nil {
		return nil, nil, nil, err
	}
	body, err := c.ReadBody()
	if err != nil {
		return nil, nil, nil, err
	}
	if err := c.BeginDecoding(body); err != nil {
		body.Release()
		return nil, nil, nil, err
	}
	request, err = parse(body.Bytes())
	body.Release()
	c.EndHeavyWork()
	c.EndWrite()
	if err != nil {
		return nil, nil, nil, err
	}
	if l.Info().Frozen {
		return nil, nil, nil, ledger.ErrFrozen
	}
	done, err = h.Limiter.RedactionTurns.Take(c.Request().Context(), l.Name())
	return l, request, done, err
}

// addReceipt adds the receipt of an event to list, unless list already contains ledger.MaxListedRecords
// receipts.
func addReceipt(c *call.Call, l *ledger.Ledger, ack ledger.Ack, list *[]json.RawMessage) error {
	if len(*list) == ledger.MaxListedRecords {
		return nil
	}
	receipt, err := proofs.NewReceipt(ack.Entry)
	if err != nil {
		return fmt.Errorf("making the receipt of event %d: %w", ack.Seq, err)
	}
	receipt, err = receipts.AddProof(c.Request().Context(), l, receipt, ack.Entry, ack.Head, ack.Head.Size, c.ReturnPreference() == "minimal")
	if err == nil {
		*list = append(*list, receipt.AppendJSON(nil))
	}
	return err
}

// withProgress adds the number of changed records to the error of a request that failed after
// changing some of them. what is the participle for the change, such as "redacted", and verb is its
// infinitive. Internal errors are returned unchanged.
func withProgress(err error, records uint64, what, verb string) error {
	if err == nil || records == 0 {
		return err
	}
	p, internal := problem.FromError(err)
	if internal {
		return err
	}
	why, _, _ := strings.Cut(p.Detail, ";") // drop the text after the semicolon, which is true only if nothing was changed
	return problem.New(p.Status, "%d of the records were %s before the request failed: %s; repeat the request to %s the rest", records, what, why, verb)
}

// selectRecords returns the records that a request selects, and the tree size at which it selects
// them. If err is nil, the call still holds a read turn when selectRecords returns.
func (h *Handlers) selectRecords(c *call.Call, l *ledger.Ledger, request *record.Selection) (*seqs.Set, uint64, error) {
	head := l.Head()
	size := head.Size
	if request.AsOf != nil {
		if size = *request.AsOf; size == 0 {
			return nil, 0, problem.AtPointer(http.StatusUnprocessableEntity, "/as_of", "must be at least 1: every ledger has at least one event")
		}
		if size > head.Size {
			return nil, 0, problem.AtPointer(http.StatusUnprocessableEntity, "/as_of", fmt.Sprintf("is beyond the head: the ledger has %d events", head.Size))
		}
	}
	set := new(seqs.Set)
	for i, seq := range request.Seqs {
		if seq >= size {
			return nil, 0, problem.AtPointer(http.StatusUnprocessableEntity, fmt.Sprintf("/seqs/%d", i),
				fmt.Sprintf("there is no event %d at tree size %d", seq, size))
		}
		set.Add(seq)
	}
	if len(request.Seqs) > 0 {
		return set, size, c.BeginRead()
	}
	f, err := bodyFilter(request.Filter)
	if err != nil {
		return nil, 0, err
	}
	ctx := c.Request().Context()
	follower, err := h.WaitForIndex(ctx, l, head.Size)
	if err != nil {
		return nil, 0, err
	}
	if err := c.BeginRead(); err != nil {
		return nil, 0, err
	}
	view, err := follower.View(size)
	if err != nil {
		return nil, 0, err
	}
	if err = f.ResolveHashPrefixes(ctx, view); err == nil {
		err = h.collectMatches(c, view, f, set)
	}
	return set, size, errors.Join(inFilter(err, http.StatusUnprocessableEntity), view.Close())
}

// inFilter converts an error that refuses a filter into a problem that points to /filter. It
// returns other errors unchanged.
func inFilter(err error, status int) error {
	var refused *query.Error
	if !errors.As(err, &refused) {
		return err
	}
	pointer := []byte("/filter")
	if refused.Parameter != "" {
		pointer = pyjson.AppendPointerToken(pointer, []byte(refused.Parameter))
	}
	return problem.AtPointer(status, string(pointer), refused.Detail)
}

// findPage is the maximum number of records read from the index at a time.
const findPage = 1000

// collectMatches adds all records that match f to set. It returns a problem with status 422 if
// there are too many.
func (h *Handlers) collectMatches(c *call.Call, view *index.View, f *query.RecordFilter, set *seqs.Set) error {
	most := h.Limiter.Limits.MaxSelectedRecords
	tooMany := problem.AtPointer(http.StatusUnprocessableEntity, "/filter", fmt.Sprintf(
		"selects from more than %d records; split the request with since and until, or raise --max-selected", most))
	if !f.ByOccurrence {
		switch more, err := records.ListExceeds(view, f.Filter, most); {
		case err != nil:
			return err
		case more:
			return tooMany
		}
	}
	for page := (index.PageRequest{Limit: findPage}); ; {
		found, next, err := f.List(c.Request().Context(), view, page)
		if err != nil {
			return err
		}
		for i := range found {
			set.Add(found[i].Seq)
		}
		if set.Len() > uint64(most) {
			return tooMany
		}
		if next == nil {
			return nil
		}
		page.After = next
		if err := c.YieldTurn(); err != nil {
			return err
		}
	}
}

// bodyFilter parses the filter in a request body. The members of the filter are the parameters of
// GET /records that select records.
func bodyFilter(members map[string]string) (*query.RecordFilter, error) {
	f, unknown, err := query.ParseRecordFilter(members)
	switch {
	case unknown:
		return nil, inFilter(err, http.StatusBadRequest)
	case err != nil:
		return nil, inFilter(err, http.StatusUnprocessableEntity)
	case f.SelectsAll():
		return nil, problem.AtPointer(http.StatusUnprocessableEntity, "/filter", "selects all records of the ledger; add a condition that narrows the selection")
	}
	return &f, nil
}
