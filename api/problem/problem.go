// Package problem defines the RFC 9457 problems that the server sends for errors. Handlers can return
// problems directly. FromError converts the errors of other packages to problems.
package problem

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/labstack/echo/v4"

	"colophon/api/limits"
	"colophon/ledger"
	"colophon/ledger/highwater"
	"colophon/ledger/index"
	"colophon/ledger/query"
	"colophon/ledger/record/strict"
	"colophon/storage"
)

// Problem is an RFC 9457 problem. The server reports every error in this form.
type Problem struct {
	Type   string        `json:"type"`             // always "about:blank"
	Title  string        `json:"title"`            // name of the HTTP status
	Status int           `json:"status"`           // HTTP status
	Detail string        `json:"detail"`           // what went wrong
	Errors []ErrorDetail `json:"errors,omitempty"` // what is wrong at each place in the request
	// Line is the number, starting at 1, of the batch line that caused the problem.
	Line int `json:"line,omitempty"`
	// FirstSeq is the seq of the event that already has the idempotency key or the run_id of the
	// request.
	FirstSeq *uint64 `json:"first_seq,omitempty"`
	// RedactedBy is the seq of the event that erased the requested content.
	RedactedBy *uint64 `json:"redacted_by,omitempty"`
	// ReadOnly is set if this server is read-only and another server can carry out the request.
	ReadOnly bool `json:"read_only,omitempty"`
	// Receipt is the receipt of the event that records the refusal.
	Receipt json.RawMessage `json:"receipt,omitempty"`

	// Reason is set if the request was refused because of one of the server's limits. RetryAfter is
	// then the time after which the client can retry.
	Reason     limits.RefusalReason `json:"-"`
	RetryAfter time.Duration        `json:"-"` // time after which the client can retry
}

// AppendLine appends p to dst as one line of JSON.
func (p *Problem) AppendLine(dst []byte) []byte {
	line := bytes.NewBuffer(dst)
	encoder := json.NewEncoder(line)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(p) // encoding a Problem into a buffer cannot fail
	return line.Bytes()
}

// ErrorDetail describes what is wrong at one place in the request. Field, Claimed, and Computed are
// set only for a failed check.
type ErrorDetail struct {
	Pointer  string `json:"pointer"`            // JSON pointer to the place, or "/" and the name of a parameter
	Detail   string `json:"detail"`             // what is wrong there
	Field    string `json:"field,omitempty"`    // name of the field whose claimed value failed a check
	Claimed  string `json:"claimed,omitempty"`  // value that the request claims for Field
	Computed string `json:"computed,omitempty"` // value that the server computed for Field
}

// Error returns the detail, so that a handler can return a problem as an error.
func (p *Problem) Error() string { return p.Detail }

// New returns a problem that does not point to a place in the request.
func New(status int, format string, args ...any) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
}

// InvalidParameter returns a 400 problem for one query parameter or path element.
func InvalidParameter(name, format string, args ...any) *Problem {
	p := New(http.StatusBadRequest, "%s: %s", name, fmt.Sprintf(format, args...))
	p.Errors = []ErrorDetail{{Pointer: "/" + name, Detail: fmt.Sprintf(format, args...)}}
	return p
}

// AtPointer returns a problem about one place in the request.
func AtPointer(status int, pointer, detail string) *Problem {
	p := New(status, "%s: %s", pointer, detail)
	p.Errors = []ErrorDetail{{Pointer: pointer, Detail: detail}}
	return p
}

// sentinels maps sentinel errors to the problems that report them.
var sentinels = []struct {
	err    error
	logged bool // whether to log the error for the operator
	status int
	detail string
	why    limits.RefusalReason
}{
	{ledger.ErrOutcomeUnknown, true, http.StatusServiceUnavailable, "the commit failed, and it is unknown whether anything was written; try again with the same idempotency key", ""},
	{ledger.ErrKeyClaimMismatch, true, http.StatusInternalServerError, "the record was not stored, because the database is damaged: it assigns the record's idempotency key or run_id to the wrong event; " +
		"tell the operator; if the record cannot wait, send it with another key", ""},
	{ledger.ErrQueueFull, false, http.StatusServiceUnavailable, "too many records are waiting to be committed; nothing was written; try again later", limits.ReasonQueueFull},
	{ledger.ErrClosed, false, http.StatusServiceUnavailable, "the server is shutting down; nothing was written; try again later", ""},
	{ledger.ErrFrozen, false, http.StatusForbidden, "the ledger is frozen: it accepts no more writes", ""},
	{ledger.ErrUnknownLedger, false, http.StatusNotFound, "no such ledger exists, or the credentials grant no scope on it; GET /v1/ledgers lists the ledgers", ""},
	{ledger.ErrExists, false, http.StatusConflict, "a ledger with that name already exists", ""},
	{highwater.ErrRollback, false, http.StatusServiceUnavailable, "the ledger accepts no writes: its data does not match what it has signed, for example after a restore from an older copy; reads continue, and the server's log says what to do", ""},
	{ledger.ErrPreviousKeyMissing, false, http.StatusServiceUnavailable, "the ledger accepts no writes: two keys have to sign, but the previous one is missing. The operator has to restore it, as keys/NAME.key.previous or in the ledger's environment variable, and restart the server; or, if it is lost, end the overlap with \"colophon keys retire NAME\". Reads continue", ""},
	{ledger.ErrMarkWithoutLedger, true, http.StatusConflict, ledger.ErrMarkWithoutLedger.Error(), ""},
	{ledger.ErrKeyOverlap, false, http.StatusConflict, ledger.ErrKeyOverlap.Error(), ""},
	{ledger.ErrNoKeyOverlap, false, http.StatusConflict, ledger.ErrNoKeyOverlap.Error(), ""},
	{ledger.ErrExternalKeys, false, http.StatusConflict, ledger.ErrExternalKeys.Error(), ""},
	{ledger.ErrKeyOriginMismatch, false, http.StatusConflict, ledger.ErrKeyOriginMismatch.Error(), ""},
	{ledger.ErrKeyInUse, true, http.StatusConflict, ledger.ErrKeyInUse.Error(), ""},
	{ledger.ErrOriginInUse, false, http.StatusConflict, ledger.ErrOriginInUse.Error(), ""},
	{ledger.ErrKeyWithoutLedger, true, http.StatusConflict, ledger.ErrKeyWithoutLedger.Error(), ""},
	{index.ErrRebuilding, false, http.StatusServiceUnavailable, "the index was damaged and is being rebuilt; try again later", ""},
	{index.ErrBehind, false, http.StatusServiceUnavailable, "the index is being rebuilt and does not cover this request yet; try again later", ""},
	{index.ErrSizePassed, false, http.StatusConflict, "the index has passed the requested tree size and no longer has the rows for that size; begin again without as_of and cursor", ""},
	{index.ErrTooManySnapshots, false, http.StatusServiceUnavailable, "other servers are reading the index; try again later", ""},
	{storage.ErrLeaseNotHeld, false, http.StatusServiceUnavailable, "no server writes the ledger at this moment, or the ledger is moving to another server; nothing was written; try again", ""},
	{storage.ErrUnavailable, true, http.StatusServiceUnavailable, "the server's database, or the bucket with its archive, is not responding; try again", ""},
	{storage.ErrLogOnly, false, http.StatusNotFound, "this server follows a published copy, which contains only the log: it has neither content nor the payload-member secret; ask the server that writes the ledger", ""},
	{storage.ErrNoSpace, false, http.StatusServiceUnavailable, "the server is short of disk space; nothing was written; try again when there is room", limits.ReasonDiskSpace},
}

// refusalProblem converts a refusal to a problem.
func refusalProblem(e *limits.RejectedError) *Problem {
	p := New(e.Status, "%s", e.Detail)
	p.Reason, p.RetryAfter = e.Reason, e.RetryAfter
	return p
}

// FromError returns the problem for an error. internal reports whether the server is at fault, in
// which case it must log the error.
func FromError(err error) (p *Problem, internal bool) {
	var (
		refused      *limits.RejectedError
		signingError *ledger.SigningError
		recordError  *strict.Error
		httpError    *echo.HTTPError
		tooLarge     *http.MaxBytesError
		question     *query.Error
	)
	switch {
	case errors.As(err, &p):
		return p, false
	case errors.As(err, &refused):
		return refusalProblem(refused), false
	case errors.As(err, &signingError):
		return New(http.StatusServiceUnavailable, "the ledger does not accept writes: %s; reads still work", signingError.Reason), false
	case errors.As(err, &recordError):
		return recordProblem(recordError), false
	case errors.As(err, &question):
		return questionProblem(question), false
	case errors.Is(err, index.ErrInvalidPosition):
		return InvalidParameter("cursor", "belongs to a different query; use the value of next in an earlier response to this query"), false
	case errors.As(err, &tooLarge):
		return refusalProblem(limits.NewRejectedError(limits.ReasonSize, http.StatusRequestEntityTooLarge, 0, "the body is longer than %d bytes; split it", tooLarge.Limit)), false
	case errors.As(err, &httpError) && (httpError.Code == http.StatusNotFound || httpError.Code == http.StatusMethodNotAllowed):
		return New(httpError.Code, "no route matches this path and method; /docs lists all routes"), false
	case errors.As(err, &httpError):
		return New(httpError.Code, "%v", httpError.Message), false
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return refusalProblem(limits.NewRejectedError(s.why, s.status, 0, "%s", s.detail)), s.logged
		}
	}
	return New(http.StatusInternalServerError, "internal server error; see the server's log for the cause"), true
}

func recordProblem(e *strict.Error) *Problem {
	status, detail := http.StatusUnprocessableEntity, "the record has invalid values"
	if e.Malformed {
		status, detail = http.StatusBadRequest, "the request is malformed"
	}
	p := New(status, "%s: %s", detail, e.Error())
	for _, q := range e.Problems {
		p.Errors = append(p.Errors, ErrorDetail{Pointer: q.Pointer, Detail: q.Detail})
	}
	return p
}

// questionProblem returns the problem for a query that has no answer.
func questionProblem(e *query.Error) *Problem {
	switch {
	case e.Reason == query.ReasonNotFound:
		return New(http.StatusNotFound, "%s", e.Detail)
	case e.Reason == query.ReasonWrongKind:
		return AtPointer(http.StatusUnprocessableEntity, "/"+e.Parameter, e.Detail)
	case e.Parameter == "":
		return New(http.StatusBadRequest, "%s", e.Detail)
	}
	return InvalidParameter(e.Parameter, "%s", e.Detail)
}

// FromPanic returns an error for the value of a recovered panic, with a stack trace. Its text
// appears only in the log.
func FromPanic(r any) error { return fmt.Errorf("panic: %v\n%s", r, debug.Stack()) }
