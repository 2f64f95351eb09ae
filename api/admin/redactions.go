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
	AsOf            uint64           `json:"as_of"`                  // tree size at which the records were selected
	DryRun          bool             `json:"dry_run"`                // true if nothing was done
	Records         uint64           `json:"records"`                // number of records to redact
	AlreadyRedacted uint64           `json:"already_redacted"`       // number of records that an earlier event redacted
	WithoutContent  uint64           `json:"without_content"`        // number of events that refer to no content
	Erased          contentPieces    `json:"erased"`                 // content that no other record needs
	Kept            contentPieces    `json:"kept"`                   // content that other records need
	NeededBy        uint64           `json:"needed_by"`              // number of other records that need some of Kept
	FirstSeqs       []uint64         `json:"first_seqs"`             // first records to redact, in ascending order
	FirstRedacted   []redactedRecord `json:"first_already_redacted"` // first records that were already redacted
	// Events is the number of events that were written. Receipts holds the receipts of the first
	// ledger.MaxListedRecords of these events.
	Events   *uint64           `json:"events,omitempty"`
	Receipts []json.RawMessage `json:"receipts,omitempty"`
}

type contentPieces struct {
	Pieces uint64 `json:"pieces"` // number of pieces of content
	Bytes  uint64 `json:"bytes"`  // total length of the pieces
}

// redactedRecord is a record and the event that redacted it.
type redactedRecord struct {
	Seq        uint64 `json:"seq"`         // seq of the record
	RedactedBy uint64 `json:"redacted_by"` // seq of the event that redacted it
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
