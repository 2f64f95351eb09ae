package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/labstack/echo/v4"

	"colophon/api/limits"
	"colophon/ledger"
	"colophon/ledger/index"
	questions "colophon/ledger/query"
	"colophon/ledger/record/strict"
	"colophon/storage"
)

// problem is an RFC 9457 problem. Every error is answered in this form.
type problem struct {
	Type   string       `json:"type"`
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail"`
	Errors []errorPlace `json:"errors,omitempty"`
	// Line is the line of the batch, counted from 1.
	Line int `json:"line,omitempty"`
	// FirstSeq is the event that holds the idempotency key or the run_id of the request.
	FirstSeq *uint64 `json:"first_seq,omitempty"`
	// RedactedBy is the event that erased the requested content.
	RedactedBy *uint64 `json:"redacted_by,omitempty"`
	// Receipt is the receipt of the event that records the refusal.
	Receipt json.RawMessage `json:"receipt,omitempty"`

	// why is set if a limit of the server refused the request. wait is then the time after
	// which the client may retry.
	why  limits.Reason
	wait time.Duration
}

// appendLine appends a problem as one line of JSON.
func (p *problem) appendLine(dst []byte) []byte {
	line := bytes.NewBuffer(dst)
	_ = encodeJSON(line, p) // a problem and a buffer: neither can fail
	return line.Bytes()
}

// errorPlace describes what is wrong at one place of the request. For a failed check it holds
// the field and both values.
type errorPlace struct {
	Pointer  string `json:"pointer"`
	Detail   string `json:"detail"`
	Field    string `json:"field,omitempty"`
	Claimed  string `json:"claimed,omitempty"`
	Computed string `json:"computed,omitempty"`
}

// Error returns the detail, so that a handler can return a problem as an error.
func (p *problem) Error() string { return p.Detail }

// fault returns a problem that names no place in the request.
func fault(status int, format string, args ...any) *problem {
	return &problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
}

// invalid returns the 400 for one query parameter or path element.
func invalid(name, format string, args ...any) *problem {
	p := fault(http.StatusBadRequest, "%s: %s", name, fmt.Sprintf(format, args...))
	p.Errors = []errorPlace{{Pointer: "/" + name, Detail: fmt.Sprintf(format, args...)}}
	return p
}

// sentinels maps sentinel errors to the problems that answer them.
var sentinels = []struct {
	err    error
	logged bool // log it for the operator
	status int
	detail string
	why    limits.Reason
}{
	{ledger.ErrOutcomeUnknown, true, http.StatusServiceUnavailable, "the commit failed and its outcome is unknown; try again with the same idempotency key", ""},
	{ledger.ErrClaim, true, http.StatusInternalServerError, "the record was not recorded: its idempotency key, or run_id, leads to an event that does not claim it, so the server's database is damaged; " +
		"tell the operator, and send the record with another key if it cannot wait", ""},
	{ledger.ErrBusy, false, http.StatusServiceUnavailable, "too many records wait to be committed; nothing was written, try again later", limits.RefusedQueue},
	{ledger.ErrClosed, false, http.StatusServiceUnavailable, "the server is shutting down; nothing was written, try again later", ""},
	{ledger.ErrFrozen, false, http.StatusForbidden, "the ledger is frozen: it takes no more writes", ""},
	{ledger.ErrUnknown, false, http.StatusNotFound, "no such ledger exists, or the credentials grant no scope on it; GET /v1/ledgers lists the ledgers", ""},
	{ledger.ErrExists, false, http.StatusConflict, "a ledger of that name exists already", ""},
	{ledger.ErrRollback, false, http.StatusServiceUnavailable, "the ledger takes no writes: its store is not what it has signed, as after the restore of an older copy; reads go on, and the server's log says what to do", ""},
	{ledger.ErrKeyMissing, false, http.StatusServiceUnavailable, "the ledger takes no writes: two keys have to sign, and the previous one is missing. The operator puts it back, as keys/NAME.key.previous or in the ledger's variable, and starts the server again; or, if it is lost, ends the overlap with \"colophon keys retire NAME\". Reads go on", ""},
	{ledger.ErrMarkWithoutLedger, true, http.StatusConflict, ledger.ErrMarkWithoutLedger.Error(), ""},
	{ledger.ErrOverlap, false, http.StatusConflict, ledger.ErrOverlap.Error(), ""},
	{ledger.ErrNoOverlap, false, http.StatusConflict, ledger.ErrNoOverlap.Error(), ""},
	{ledger.ErrKeysFixed, false, http.StatusConflict, ledger.ErrKeysFixed.Error(), ""},
	{ledger.ErrKeyOrigin, false, http.StatusConflict, ledger.ErrKeyOrigin.Error(), ""},
	{ledger.ErrKeyInUse, true, http.StatusConflict, ledger.ErrKeyInUse.Error(), ""},
	{ledger.ErrOriginInUse, false, http.StatusConflict, ledger.ErrOriginInUse.Error(), ""},
	{ledger.ErrKeyWithoutLedger, true, http.StatusConflict, ledger.ErrKeyWithoutLedger.Error(), ""},
	{index.ErrRebuilding, false, http.StatusServiceUnavailable, "the index was damaged and is being rebuilt; try again later", ""},
	{index.ErrAhead, false, http.StatusServiceUnavailable, "the index is being rebuilt and does not cover this answer yet; try again later", ""},
	{storage.ErrNoSpace, false, http.StatusServiceUnavailable, "the server is short of disk space; nothing was written, try again when there is room", limits.RefusedDisk},
}

// refusalProblem returns the problem that answers a refusal.
func refusalProblem(e *limits.Refusal) *problem {
	p := fault(e.Status, "%s", e.Detail)
	p.why, p.wait = e.Reason, e.Wait
	return p
}

// asProblem returns the problem that answers an error. internal means that the server is at
// fault and must log the error.
func asProblem(err error) (p *problem, internal bool) {
	var (
		refused      *limits.Refusal
		signingError *ledger.SigningError
		recordError  *strict.Error
		httpError    *echo.HTTPError
		tooLarge     *http.MaxBytesError
		question     *questions.Error
	)
	switch {
	case errors.As(err, &p):
		return p, false
	case errors.As(err, &refused):
		return refusalProblem(refused), false
	case errors.As(err, &signingError):
		return fault(http.StatusServiceUnavailable, "the ledger takes no writes: %s. Reads go on", signingError.Reason), false
	case errors.As(err, &recordError):
		return recordProblem(recordError), false
	case errors.As(err, &question):
		return questionProblem(question), false
	case errors.Is(err, index.ErrPosition):
		return invalid("cursor", "belongs to another query; use the value of next in an earlier answer to this query"), false
	case errors.As(err, &tooLarge):
		return refusalProblem(limits.Refuse(limits.RefusedSize, http.StatusRequestEntityTooLarge, 0, "the body is longer than %d bytes; split it", tooLarge.Limit)), false
	case errors.As(err, &httpError) && (httpError.Code == http.StatusNotFound || httpError.Code == http.StatusMethodNotAllowed):
		return fault(httpError.Code, "there is no such route, or not with this method; /docs lists them"), false
	case errors.As(err, &httpError):
		return fault(httpError.Code, "%v", httpError.Message), false
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return refusalProblem(limits.Refuse(s.why, s.status, 0, "%s", s.detail)), s.logged
		}
	}
	return fault(http.StatusInternalServerError, "the server failed; its log says why"), true
}

func recordProblem(e *strict.Error) *problem {
	status, detail := http.StatusUnprocessableEntity, "the record's values are not acceptable"
	if e.Malformed {
		status, detail = http.StatusBadRequest, "the request is malformed"
	}
	p := fault(status, "%s: %s", detail, e.Error())
	for _, q := range e.Problems {
		p.Errors = append(p.Errors, errorPlace{Pointer: q.Pointer, Detail: q.Detail})
	}
	return p
}

// questionProblem returns the problem that answers a question without an answer.
func questionProblem(e *questions.Error) *problem {
	switch {
	case e.Reason == questions.NotFound:
		return fault(http.StatusNotFound, "%s", e.Detail)
	case e.Reason == questions.WrongKind:
		return atPointer(http.StatusUnprocessableEntity, "/"+e.Name, e.Detail)
	case e.Name == "":
		return fault(http.StatusBadRequest, "%s", e.Detail)
	}
	return invalid(e.Name, "%s", e.Detail)
}

// statusClientGone is the status that metrics show if the client left before its answer. No
// client receives it.
const statusClientGone = 499

// fail answers an error. All errors pass through it. It panics with http.ErrAbortHandler if
// the connection must be dropped instead.
func (s *Server) fail(err error, c echo.Context) {
	p, internal := asProblem(err)
	if internal && c.Request().Context().Err() != nil {
		// The client may have closed only its sending half. The abort makes sure that it sees
		// no answer.
		c.Response().Status = statusClientGone
		panic(http.ErrAbortHandler)
	}
	if internal {
		s.config.Log.Error("request failed", "method", c.Request().Method, "route", c.Path(), "error", err)
	}
	s.config.Metrics.load.Count(p.why)
	if c.Response().Committed {
		// A partial answer must not look complete.
		panic(http.ErrAbortHandler)
	}
	h := c.Response().Header()
	text := newReply()
	defer text.release()
	_ = encodeJSON(text, p) // a problem and a buffer: neither can fail
	if full := holdAnswer(c, text.memory()); full != nil {
		if gone(c.Request().Context()) {
			c.Response().Status = statusClientGone
			panic(http.ErrAbortHandler)
		}
		p, _ = asProblem(full)
		text.text = text.text[:0]
		_ = encodeJSON(text, p)
	}
	h.Set(echo.HeaderContentType, "application/problem+json")
	switch p.Status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		h.Set("Retry-After", seconds(p.wait))
	case http.StatusUnauthorized:
		h.Set(echo.HeaderWWWAuthenticate, "Bearer")
	}
	c.Response().WriteHeader(p.Status)
	_, _ = c.Response().Write(text.text) // an error means that the client is gone
}

// seconds returns a wait as a value of Retry-After: whole seconds, at least 1.
func seconds(wait time.Duration) string {
	return decimal(uint64(max(1, math.Ceil(wait.Seconds()))))
}

// gone reports whether the client of a request has disconnected.
func gone(ctx context.Context) bool { return ctx.Err() != nil }

func panicked(r any) error { return fmt.Errorf("panic: %v\n%s", r, debug.Stack()) }

// setDefaults sets the headers that every answer has unless its handler overrides them.
// Browsers must not sniff types. Only the caller's own cache may keep an answer, and it must
// revalidate each time, because access rights can change at any moment.
func setDefaults(h http.Header) {
	h[echo.HeaderXContentTypeOptions] = nosniff
	h[echo.HeaderReferrerPolicy] = noReferrer
	h[echo.HeaderCacheControl] = uncached
}

// Header values that all answers share. They must not be changed in place.
var (
	nosniff    = []string{"nosniff"}
	noReferrer = []string{"no-referrer"}
	uncached   = []string{"private, no-cache"}
)
