package api

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"colophon/api/access"
	"colophon/api/limits"
	"colophon/ledger"
	questions "colophon/ledger/query"
	"colophon/ledger/record"
	"colophon/proofs"
)

// writePaths are the routes that write the four kinds of records (spec: Requests).
var writePaths = map[record.Kind]string{
	record.IPCRecord:       "/ipc-records",
	record.RunDAG:          "/run-dags",
	record.CitationSet:     "/citation-sets",
	record.PathFingerprint: "/path-fingerprints",
}

// options are the parameters and headers of a write.
type options struct {
	reject  bool // refuse a record whose claimed hashes are wrong (spec: Refusals)
	minimal bool // receipts without proof (spec: Requests)
	derive  bool // derived facts beside the receipt (spec: Derived members)
	key     string
	actor   string // recorded in the events
}

func (s *Server) options(c echo.Context, l *ledger.Ledger) (options, error) {
	o := options{key: c.Request().Header.Get("Idempotency-Key"), actor: actor(c), reject: l.OnMismatch() == ledger.RejectMismatch}
	if len(o.key) > record.MaxKey || !utf8.ValidString(o.key) {
		return o, fault(http.StatusBadRequest, "Idempotency-Key: must be valid UTF-8 of at most %d bytes", record.MaxKey)
	}
	o.minimal = preference(c) == "minimal"
	if c.Request().URL.RawQuery == "" {
		return o, nil
	}
	return o.withQuery(c)
}

// withQuery returns the options with the query parameters applied.
func (o options) withQuery(c echo.Context) (options, error) {
	mode, derive := ledger.AcceptMismatch, ""
	if o.reject {
		mode = ledger.RejectMismatch
	}
	if err := query(c, text("on_mismatch", &mode), text("derive", &derive)); err != nil {
		return o, err
	}
	var err error
	if o.derive, err = questions.ParseChoice("derive", derive, "false", "true"); err != nil {
		return o, err
	}
	if o.derive {
		// Derived facts reveal other records.
		if err := alsoNeeds(c, access.Read); err != nil {
			return o, err
		}
	}
	if mode != ledger.AcceptMismatch && mode != ledger.RejectMismatch {
		return o, invalid("on_mismatch", "must be accept or reject")
	}
	o.reject = mode == ledger.RejectMismatch
	return o, nil
}

// preference returns the value of return in the Prefer header (RFC 7240), or "".
func preference(c echo.Context) string {
	for _, header := range c.Request().Header.Values("Prefer") {
		for p := range strings.SplitSeq(header, ",") {
			p, _, _ = strings.Cut(p, ";")
			name, value, _ := strings.Cut(strings.ToLower(p), "=")
			if strings.TrimSpace(name) == "return" {
				return strings.Trim(strings.TrimSpace(value), `"`)
			}
		}
	}
	return ""
}

// requestBody is a body in memory, and its share of the memory budget.
type requestBody struct {
	bytes.Buffer
	share limits.Share
}

var bodies = sync.Pool{New: func() any { return new(requestBody) }}

// Bounds of the buffers for bodies, in bytes: the largest that is kept for another request,
// and the largest that is allocated because of a Content-Length alone.
const (
	maxPooledBody   = 1 << 20
	maxPromisedBody = 16 << 10
)

func release(body *requestBody) {
	body.share.Release()
	if body.Cap() <= maxPooledBody {
		body.Reset()
		bodies.Put(body)
	}
}

// readBody reads the JSON body of a write, of at most MaxBody bytes. The caller releases it.
func (s *Server) readBody(c echo.Context) (*requestBody, error) {
	return s.readBodyInto(c, s.limits.Writing)
}

// readQuestion is readBody for a request that records nothing. It uses the memory for reading.
func (s *Server) readQuestion(c echo.Context) (*requestBody, error) {
	return s.readBodyInto(c, s.limits.Reading)
}

// readBodyInto counts the body against a memory budget.
func (s *Server) readBodyInto(c echo.Context, budget *limits.Budget) (*requestBody, error) {
	r := c.Request()
	if err := contentType(r, "application/json"); err != nil {
		return nil, err
	}
	if encoding := r.Header.Get(echo.HeaderContentEncoding); encoding != "" && encoding != "identity" {
		return nil, fault(http.StatusUnsupportedMediaType, "Content-Encoding %q is accepted by /batch only; send the body as it is", encoding)
	}
	source := r.Body
	if r.ContentLength < 0 || r.ContentLength > s.config.MaxBody {
		source = http.MaxBytesReader(c.Response(), source, s.config.MaxBody)
	}
	body := bodies.Get().(*requestBody)
	body.share = limits.Share{Budget: budget, Who: s.holderOf(c)}
	body.Grow(int(min(max(r.ContentLength, 0), maxPromisedBody)) + bytes.MinRead) // room for one read up to io.EOF
	if _, err := body.ReadFrom(body.share.Meter(r.Context(), source)); err != nil {
		release(body)
		if slow := limits.SlowBody(err, s.config.BodyTimeout); slow != nil {
			return nil, slow
		}
		return nil, unreadable(err)
	}
	if own, is := c.(*call); is && budget == s.limits.Writing {
		own.writer.BeginWrite(s.limits.Reads)
	}
	return body, nil
}

// unreadable returns the problem for a body that cannot be read. It keeps the error if a limit
// of the server caused it.
func unreadable(err error) error {
	var refused *limits.Refusal
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &refused) || errors.As(err, &tooLarge):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fault(http.StatusBadRequest, "the body ended early")
	}
	return fault(http.StatusBadRequest, "the body cannot be read to its end; check its encoding")
}

// postedRecord is the record of a request.
type postedRecord struct {
	*record.Record
	body *requestBody // the record refers to its bytes
}

// release releases the record and its body. Nothing may refer to either afterwards.
func (p postedRecord) release() {
	p.Release()
	release(p.body)
}

// parseRecord decodes the record in a body. The caller releases the record. On an error,
// parseRecord releases the body.
func (s *Server) parseRecord(kind record.Kind, body *requestBody) (postedRecord, error) {
	r, err := s.config.Limits.Parse(kind, body.Bytes())
	if err != nil {
		release(body)
		return postedRecord{}, err
	}
	return postedRecord{r, body}, nil
}

// contentType refuses requests of another media type.
func contentType(r *http.Request, want string) error {
	header := r.Header.Get(echo.HeaderContentType)
	if header == want {
		return nil
	}
	got, _, err := mime.ParseMediaType(header)
	if err != nil || got != want {
		return fault(http.StatusUnsupportedMediaType, "Content-Type must be %s", want)
	}
	return nil
}

// write returns the handler that writes a record of one kind.
func (s *Server) write(kind record.Kind) echo.HandlerFunc {
	return func(c echo.Context) error {
		l, err := s.ledger(c)
		if err != nil {
			return err
		}
		o, err := s.options(c, l)
		if err != nil {
			return err
		}
		body, err := s.readBody(c)
		if err != nil {
			return err
		}
		if err := s.beginDecoding(c, body); err != nil {
			release(body)
			return err
		}
		r, err := s.parseRecord(kind, body)
		if err != nil {
			return err
		}
		defer r.release()
		sub, refused, err := prepare(l, r.Record, o)
		if err != nil {
			return err
		}
		endHeavy(c)
		begin := time.Now()
		ack, err := l.Submit(sub)
		if err != nil {
			return err
		}
		s.config.Metrics.appended.WithLabelValues(l.Name()).Observe(time.Since(begin).Seconds())
		return s.answer(c, l, &outcome{record: r.Record, refused: refused, minimal: o.minimal, derive: o.derive, key: o.key, ack: ack})
	}
}

// prepare returns the submission of a record. If a claimed hash is wrong and the options say
// so, it returns the submission of the refusal.
func prepare(l *ledger.Ledger, r *record.Record, o options) (sub ledger.Submission, refused bool, err error) {
	if o.reject && len(r.Mismatches()) > 0 {
		return l.PrepareRefusal(r, o.actor, o.key), true, nil
	}
	sub, err = l.Prepare(r, o.actor, o.key)
	return sub, false, err
}

// outcome is the result of the write of one record.
type outcome struct {
	record  *record.Record
	refused bool // because of a mismatch
	minimal bool
	derive  bool
	key     string // the Idempotency-Key; if empty, the run_id of the record is its key
	ack     ledger.Ack
}

// answer sends the response to a single write.
func (s *Server) answer(c echo.Context, l *ledger.Ledger, out *outcome) error {
	committed(c)
	receipt, err := s.receiptOf(c.Request().Context(), l, out)
	if err != nil {
		return err
	}
	if p := out.problem(); p != nil {
		p.Receipt = receipt.AppendJSON(nil)
		return p
	}
	status := out.status()
	if status == http.StatusOK {
		c.Response().Header().Set("Idempotent-Replayed", "true")
	}
	c.Response().Header().Set(echo.HeaderLocation, location(l, receipt))
	answer := newReply()
	defer answer.release()
	answer.text = s.appendReceipt(c.Request().Context(), answer.text, l, out, receipt)
	return answer.send(c, status, echo.MIMEApplicationJSON)
}

// status returns the status for an accepted record.
func (out *outcome) status() int {
	if out.ack.Outcome == ledger.Replayed {
		return http.StatusOK
	}
	return http.StatusCreated
}

// maxListed bounds the failed checks that a problem lists. Its detail gives their total.
const maxListed = 100

// problem returns nil if the record was accepted.
func (out *outcome) problem() *problem {
	switch {
	case out.ack.Outcome == ledger.Replayed:
		return nil
	case out.ack.Outcome == ledger.Conflicted:
		return out.conflict()
	case out.refused:
		p := fault(http.StatusUnprocessableEntity, "refused: claimed hashes differ from the recomputed ones (%d)", len(out.record.Mismatches()))
		mismatches := out.record.Mismatches()
		for _, m := range mismatches[:min(len(mismatches), maxListed)] {
			p.Errors = append(p.Errors, errorPlace{Pointer: out.record.PointerOf(m), Field: m.Field,
				Detail:  "the claimed hash differs from the recomputed one",
				Claimed: string(m.Claimed), Computed: string(m.Computed)})
		}
		return p
	}
	return nil
}

// conflict returns the 409 for an idempotency key or a run_id that another record holds.
func (out *outcome) conflict() *problem {
	p := fault(http.StatusConflict, "another record holds this idempotency key: event %d", out.ack.First)
	if out.key == "" {
		p = fault(http.StatusConflict, "another record of this kind has this run_id: event %d; "+
			"give each run its own, or send the record as it was", out.ack.First)
	}
	p.FirstSeq = &out.ack.First
	return p
}

func location(l *ledger.Ledger, r *proofs.Receipt) string {
	return "/v1/ledgers/" + l.Name() + "/records/" + decimal(r.Seq)
}

// compute answers the hashes and checks of a record. It records nothing.
func (s *Server) compute(c echo.Context) error {
	if err := query(c); err != nil {
		return err
	}
	kind, ok := computeKind(c.Param("kind"))
	if !ok {
		return fault(http.StatusNotFound, "kind must be one of ipc_record, run_dag, citation_set, path_fingerprint")
	}
	body, err := s.readQuestion(c)
	if err != nil {
		return err
	}
	if err := s.beginDecoding(c, body); err != nil {
		release(body)
		return err
	}
	r, err := s.parseRecord(kind, body)
	if err != nil {
		return err
	}
	defer r.release()
	answer := newReply()
	defer answer.release()
	answer.text = r.AppendComputed(answer.text)
	return answer.send(c, http.StatusOK, echo.MIMEApplicationJSON)
}

// computeKind returns the kind with that name or with that route.
func computeKind(name string) (record.Kind, bool) {
	for kind, path := range writePaths {
		if name == string(kind) || "/"+name == path {
			return kind, true
		}
	}
	return "", false
}
