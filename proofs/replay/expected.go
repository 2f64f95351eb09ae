package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"colophon/client/wire"
	"colophon/ledger/index"
	"colophon/ledger/query"
	"colophon/proofs"
	"colophon/proofs/monitor/fetch"
	"colophon/proofs/replay/reference"
)

// referenceServer is a source that takes its answers from the reference.
type referenceServer struct {
	*reference.Answerer
	log *reference.Log
}

// page implements source.
func (r referenceServer) page(ctx context.Context, q question, p pageRequest) (*answerPage, error) {
	page := &answerPage{status: http.StatusOK, header: make(http.Header), size: r.log.Size(), limit: p.limit}
	answer, err := r.answer(ctx, q, p, page)
	if err == nil {
		page.body, err = encode(answer)
	}
	var refusal *query.Error
	switch {
	case errors.As(err, &refusal) && refusal.Reason == query.ReasonNotFound:
		return refused(http.StatusNotFound, err), nil
	case errors.As(err, &refusal) && refusal.Reason == query.ReasonWrongKind:
		return refused(http.StatusUnprocessableEntity, err), nil
	case refusal != nil, errors.Is(err, index.ErrInvalidPosition), errors.Is(err, proofs.ErrRange):
		return refused(http.StatusBadRequest, err), nil
	case err != nil:
		return nil, err
	case len(page.body) > maxAnswer:
		return nil, fmt.Errorf("%w: the limit is %d bytes", fetch.ErrTooLong, maxAnswer)
	}
	page.header.Set("Content-Type", q.form.mediaType())
	if q.form.lines || q.form.text {
		return page, nil
	}
	if err := fetch.WaitForSlot(ctx, int64(len(page.body))); err != nil {
		return nil, err
	}
	return page, parseAnswer(&page.document, page.body)
}

// refused returns the page for a question that the reference server rejects.
func refused(status int, err error) *answerPage {
	return &answerPage{status: status, problem: fmt.Sprintf("%d %s: %v", status, http.StatusText(status), err),
		header: http.Header{"Content-Type": {"application/problem+json"}}}
}

// encode returns the bytes of an answer. Like the real server, it does not escape HTML characters.
func encode(answer any) ([]byte, error) {
	switch a := answer.(type) {
	case []byte:
		return a, nil
	case interface{ AppendJSON([]byte) []byte }:
		return a.AppendJSON(nil), nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(answer)
	return text.Bytes(), err
}

// answer answers a question and stores the size and the headers of the answer in page.
func (r referenceServer) answer(ctx context.Context, q question, p pageRequest, page *answerPage) (any, error) {
	if p.size > 0 && q.form.size != "" {
		page.size = p.size
	}
	switch q.form {
	case stageForm:
		return r.stageProof(ctx, q, p)
	case inclusionForm:
		return r.inclusion(q, page.size)
	case consistencyForm:
		return r.consistency(ctx, q, page.size)
	case receiptForm, tlogProofForm:
		return r.receipt(ctx, q, page.size)
	case nestedForm:
		return r.nested(ctx, q, page.size)
	case eventsForm:
		return r.events(q, page.header)
	case eventForm:
		return r.event(ctx, q)
	case statisticsForm:
		return r.Statistics(), nil
	case ledgerForm:
		return r.log.Description()
	case ledgersForm:
		ledger, err := r.log.Description()
		return wire.LedgerList{Ledgers: []wire.LedgerDescription{ledger}}, err
	}
	answer, size, err := r.Answer(ctx, q.path, q.parameters(p))
	if size > 0 {
		page.size = size // a request with a cursor does not name the size, because the cursor implies it
	}
	return answer, err
}

// receipt answers a request for the receipt of a record, as JSON or as a .tlog-proof file.
func (r referenceServer) receipt(ctx context.Context, q question, size uint64) (any, error) {
	seq, err := q.seq()
	if err != nil {
		return nil, err
	}
	receipt, err := r.log.Receipt(ctx, seq, size)
	if err != nil || q.form == receiptForm {
		return receipt, err
	}
	proof, err := receipt.TlogProof()
	if err != nil {
		return nil, err
	}
	return proof.Append(nil), nil
}

// nested answers a request for the proof of a stage or a citation of a record.
func (r referenceServer) nested(ctx context.Context, q question, size uint64) (any, error) {
	seq, err := q.seq()
	if err != nil {
		return nil, err
	}
	var nested *proofs.NestedProof
	if q.values.Has("stage") {
		nested, err = r.log.StageProof(ctx, seq, size, q.values.Get("stage"))
	} else {
		var n uint64
		if n, err = query.ParseUint("citation", q.values.Get("citation")); err == nil {
			nested, err = r.log.CitationProof(ctx, seq, size, n)
		}
	}
	if err != nil {
		return nil, err
	}
	return nested.AppendJSON(nil)
}

// seq parses the record's seq from the question's path.
func (q question) seq() (uint64, error) {
	return query.ParseUint("seq", strings.Split(q.path, "/")[2])
}

// stageProof answers a request for the proof of a stage (spec: Stage proofs).
func (r referenceServer) stageProof(ctx context.Context, q question, p pageRequest) (any, error) {
	path := strings.Split(q.path, "/")
	stage, err := url.PathUnescape(path[4])
	if err != nil {
		return nil, err
	}
	return r.StageProof(ctx, path[2], stage, q.parameters(p))
}

// inclusion answers a request for an inclusion proof.
func (r referenceServer) inclusion(q question, size uint64) (any, error) {
	seq, err := query.ParseUint("seq", q.values.Get("seq"))
	if err != nil {
		return nil, err
	}
	return r.log.InclusionProof(seq, size)
}

// consistency answers a request for a consistency proof.
func (r referenceServer) consistency(ctx context.Context, q question, size uint64) (any, error) {
	first, err := query.ParseUint("first", q.values.Get("first"))
	if err != nil {
		return nil, err
	}
	return r.log.ConsistencyProof(ctx, first, size)
}

// event answers a request for the event with a given hash.
func (r referenceServer) event(ctx context.Context, q question) (any, error) {
	hash, err := proofs.ParseHash(strings.TrimPrefix(q.path, "/events/"))
	if err != nil {
		return nil, err
	}
	return r.Event(ctx, hash)
}

// events answers a request for a page of the log and sets the Link header to the next page.
func (r referenceServer) events(q question, header http.Header) (any, error) {
	from, err := query.ParseUint("from", q.values.Get("from"))
	limit, errLimit := query.ParseLimit(q.values.Get("limit"), reference.MaxPageRows)
	if err := errors.Join(err, errLimit); err != nil {
		return nil, err
	}
	events, err := r.log.Events(from, limit)
	if err != nil {
		return nil, err
	}
	if end := from + uint64(len(events)); end < r.log.Size() {
		header.Set("Link", fmt.Sprintf(`</v1/ledgers/%s/events?from=%d&limit=%d>; rel="next"`, r.log.Name(), end, limit))
	}
	var text []byte
	for _, event := range events {
		line, err := encode(event)
		if err != nil {
			return nil, err
		}
		text = append(text, line...)
	}
	return text, nil
}

// metrics returns the metrics that are derived from the log.
func (r referenceServer) metrics() (*scrape, error) {
	families, err := r.Metrics()
	if err != nil {
		return nil, err
	}
	s, err := scrapeOf(families, r.log.Name())
	if err == nil {
		s.types[treeSizeMetric] = dto.MetricType_GAUGE.String()
	}
	return s, err
}
