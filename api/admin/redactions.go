package admin

import (
	"encoding/json"
	"net/http"

	"colophon/api/call"
	"colophon/ledger"
	"colophon/ledger/record"
	"colophon/ledger/record/seqs"
)

// redaction is the answer to a request to erase the content of many records. It says what was done
// or, in a dry run, what would be done.
type redaction struct {
	AsOf            uint64           `json:"as_of"`
	DryRun          bool             `json:"dry_run"`
	Records         uint64           `json:"records"`
	AlreadyRedacted uint64           `json:"already_redacted"`
	WithoutContent  uint64           `json:"without_content"`
	Erased          contentPieces    `json:"erased"`
	Kept            contentPieces    `json:"kept"`
	NeededBy        uint64           `json:"needed_by"`
	FirstSeqs       []uint64         `json:"first_seqs"`
	FirstRedacted   []redactedRecord `json:"first_already_redacted"`
	// Events is the number of events that were written. Receipts holds the receipts of the first
	// ledger.MaxListedRecords of these events.
	Events   *uint64           `json:"events,omitempty"`
	Receipts []json.RawMessage `json:"receipts,omitempty"`
}

type contentPieces struct {
	Pieces uint64 `json:"pieces"`
	Bytes  uint64 `json:"bytes"`
}

// redactedRecord is a record and the event that redacted it.
type redactedRecord struct {
	Seq        uint64 `json:"seq"`
	RedactedBy uint64 `json:"redacted_by"`
}

func redactionOf(asOf uint64, dryRun bool, e *ledger.RedactionPlan) *redaction {
	r := &redaction{
		AsOf: asOf, DryRun: dryRun,
		Records: e.RecordCount, AlreadyRedacted: e.AlreadyRedactedCount, WithoutContent: e.EventsWithoutContent,
		Erased: contentPieces{e.ErasedContent.Pieces, e.ErasedContent.Bytes}, Kept: contentPieces{e.KeptContent.Pieces, e.KeptContent.Bytes}, NeededBy: e.RecordsSharingContent,
		FirstSeqs: append([]uint64{}, e.FirstRecordSeqs...), FirstRedacted: make([]redactedRecord, len(e.EarlierRedactions)),
	}
	for i, a := range e.EarlierRedactions {
		r.FirstRedacted[i] = redactedRecord{a.RecordSeq, a.RedactionSeq}
	}
	return r
}

// RedactRecords erases the content of all records that a request selects. By default it only
// reports what it would erase.
func (h *Handlers) RedactRecords(c *call.Call) error {
	l, request, done, err := readMany(h, c, record.ParseRedactionRequest)
	if err != nil {
		return err
	}
	defer done()
	wanted, asOf, err := h.selectRecords(c, l, &request.Selection)
	if err != nil {
		return err
	}
	plan, err := l.PlanRedaction(c.Request().Context(), wanted, c.YieldTurn)
	if err != nil {
		return err
	}
	answer := redactionOf(asOf, request.DryRun, plan)
	if !request.DryRun {
		c.BeginWrite()
		if err := h.redact(c, l, wanted, request.Reason, answer); err != nil {
			return err
		}
		c.MarkCommitted()
	}
	return c.AnswerJSON(http.StatusOK, answer)
}

// redact erases the content of the wanted records and adds the result to answer. If it fails after
// redacting some of the records, the error says how many.
func (h *Handlers) redact(c *call.Call, l *ledger.Ledger, wanted *seqs.Set, reason string, answer *redaction) error {
	var events, records uint64
	err := l.Redact(c.Request().Context(), wanted, reason, c.Actor(), func(ack ledger.Ack, n int) error {
		events++
		records += uint64(n)
		return addReceipt(c, l, ack, &answer.Receipts)
	})
	answer.Records, answer.Events = records, &events
	return withProgress(err, records, "redacted", "redact")
}
