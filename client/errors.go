package client

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"colophon/client/wire"
)

// These errors are the kinds of [Error]. Use them with [errors.Is].
var (
	ErrBadRequest      = errors.New("client: bad request")        // 400: the request is malformed
	ErrUnauthorized    = errors.New("client: unauthorized")       // 401: no token, or an invalid one
	ErrForbidden       = errors.New("client: forbidden")          // 403: the token lacks a scope, or the ledger is frozen
	ErrFrozen          = errors.New("client: ledger is frozen")   // 403: the ledger refuses all writes
	ErrNotFound        = errors.New("client: not found")          // 404: the resource does not exist, or the token has no grant for the ledger
	ErrConflict        = errors.New("client: conflict")           // 409: for example, the idempotency key was already used for a different record
	ErrGone            = errors.New("client: content was erased") // 410: the content was redacted
	ErrTooLarge        = errors.New("client: request too large")  // 413: the request body is too long
	ErrUnprocessable   = errors.New("client: invalid values")     // 422: for example, mismatched hashes, if the request or the ledger rejects them
	ErrTooManyRequests = errors.New("client: too many requests")  // 429: wait for the time in Error.RetryAfter
	ErrUnavailable     = errors.New("client: unavailable")        // 503: the server cannot process the request now
)

// Errors that do not come from a response with an error status.
var (
	// ErrUnreachable means that the server could not be reached, or that the connection broke before the response was
	// complete. A write might have been recorded.
	ErrUnreachable = errors.New("client: no response from the server")
	// ErrTLSMismatch means that every connection will fail until the URL or a certificate changes: the server does
	// not speak TLS, the URL lacks https, or the server's certificate is not valid. The call is not repeated.
	ErrTLSMismatch = errors.New("client: the URL or the certificate does not match the server")
	// ErrUnexpectedResponse means that a response does not conform to the API, or is longer than
	// [WithMaxResponseBytes] allows. A write might have been recorded.
	ErrUnexpectedResponse = errors.New("client: unexpected response")
	// ErrLineUnanswered means that the connection broke before the server answered a line of a batch, and that the
	// line cannot safely be sent again because it has neither an idempotency key nor a run_id. The record might
	// have been recorded.
	ErrLineUnanswered = errors.New("client: the connection ended before the line was answered; the record might have been recorded")
	// ErrNoVerifierKeys means that the client has no verifier keys for the ledger.
	ErrNoVerifierKeys = errors.New("client: no verifier keys for this ledger; pass them to New with WithVerifierKeys")
)

var kinds = map[error]int{
	ErrBadRequest: http.StatusBadRequest, ErrUnauthorized: http.StatusUnauthorized, ErrForbidden: http.StatusForbidden,
	ErrNotFound: http.StatusNotFound, ErrConflict: http.StatusConflict, ErrGone: http.StatusGone, ErrTooLarge: http.StatusRequestEntityTooLarge,
	ErrUnprocessable: http.StatusUnprocessableEntity, ErrTooManyRequests: http.StatusTooManyRequests, ErrUnavailable: http.StatusServiceUnavailable,
}

// Error is a response with an error status (RFC 9457). If the response is not a problem document, for example because
// a proxy sent it, only the status is known. Detail is then the first line of a plain-text response, or empty.
type Error struct {
	wire.Problem // the client has not verified its Receipt
	// Request is the method and path of the request or, for a line of a batch, the index of the line.
	Request string
	// RetryAfter is the delay requested by the server's Retry-After header, or 0 if there is none.
	RetryAfter time.Duration
	// Header holds the response headers. It is nil for a line of a batch.
	Header http.Header
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %d %s", e.Request, e.Status, e.Reason()) }

// Reason returns a one-line description of what is wrong: the places listed in the problem if there are any,
// otherwise its detail or its title.
func (e *Error) Reason() string {
	detail := e.Detail
	if len(e.Errors) > 0 {
		places := make([]string, len(e.Errors))
		for i, place := range e.Errors {
			places[i] = place.String()
		}
		detail = strings.Join(places, "; ")
	}
	return oneLine(cmp.Or(detail, e.Title))
}

// oneLine escapes unprintable characters, so that a server's text cannot add lines to a log or control a terminal.
func oneLine(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// Is reports whether the error is of the given kind, such as [ErrNotFound]. It compares the status, and for
// [ErrFrozen] and [ErrTLSMismatch] also the detail.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrFrozen:
		// A frozen ledger and a missing scope have the same status and differ only in the detail.
		return e.Status == http.StatusForbidden && strings.HasPrefix(e.Detail, "the ledger is frozen")
	case ErrTLSMismatch:
		return e.Status == http.StatusBadRequest && e.Detail == wantsTLS
	}
	status, known := kinds[target]
	return known && e.Status == status
}

// Temporary reports whether the same request might succeed later.
func (e *Error) Temporary() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// ReceiptError means that the server has acknowledged a write, but that the receipt failed verification. According to
// the server, the record is durable: do not post it again. Keep the receipt as evidence. After a key rotation, this
// can happen because the client does not have the new key.
type ReceiptError struct {
	Receipt *wire.Receipt // the receipt that failed verification
	Err     error         // error from proofs.Receipt.Verify, or an error because the receipt is for a different record
}

func (e *ReceiptError) Error() string {
	return fmt.Sprintf("client: ledger %.100s has acknowledged the record as event %d, but the receipt does not verify: %v; keep the receipt and do not post the record again",
		e.Receipt.Ledger, e.Receipt.Seq, e.Err)
}

// Unwrap returns Err.
func (e *ReceiptError) Unwrap() error { return e.Err }

// problem converts an unsuccessful response, which can be a redirect, to an Error. request is the
// method and path that the error message shows.
func (c *Client) problem(request string, response *http.Response, body []byte) *Error {
	e := &Error{Request: request, Header: response.Header}
	if decode(body, &e.Problem) != nil {
		e.Problem = wire.Problem{Detail: plainLine(response, body)}
	}
	if requiresTLS(response.StatusCode, body) {
		e.Detail = wantsTLS
	}
	e.Status = response.StatusCode
	if e.Title == "" {
		e.Title = http.StatusText(e.Status)
	}
	if e.Status/100 == 3 {
		e.Detail = fmt.Sprintf("the server redirects to %.200q, but this client does not follow redirects; if that is the right server, use its URL", response.Header.Get("Location"))
	}
	after := response.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(after, 10, 31); err == nil {
		e.RetryAfter = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(after); err == nil {
		e.RetryAfter = max(0, at.Sub(c.now()))
	}
	return e
}

// plainLine returns the first line of a plain-text response, truncated to 200 bytes. It returns "" if the response
// is not plain text or if the line contains anything but printable ASCII.
func plainLine(response *http.Response, body []byte) string {
	if kind := response.Header.Get("Content-Type"); kind != "" && !strings.HasPrefix(kind, "text/plain") {
		return ""
	}
	line, _, _ := strings.Cut(string(body[:min(len(body), 200)]), "\n")
	if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return line
}

// wantsTLS is the detail of the error for a request that was sent without TLS to a TLS port of net/http or
// nginx.
const wantsTLS = "the server speaks TLS, but the request was sent without TLS; use https"

// requiresTLS reports whether net/http or nginx refused a request because it was sent without TLS.
func requiresTLS(status int, body []byte) bool {
	return status == http.StatusBadRequest && (bytes.HasPrefix(body, []byte("Client sent an HTTP request to an HTTPS server")) ||
		bytes.Contains(body, []byte("The plain HTTP request was sent to HTTPS port")))
}

// repeatable reports whether a call that failed with err may be repeated, assuming that it is safe to send the
// request twice.
func repeatable(err error) bool {
	if problem := (*Error)(nil); errors.As(err, &problem) {
		return problem.Temporary()
	}
	return errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrTLSMismatch)
}

// unreachableError matches [ErrUnreachable] and wraps the cause. Its message names the server.
type unreachableError struct {
	server string
	cause  error
}

func (e *unreachableError) Error() string {
	return fmt.Sprintf("%v at %s: %v", ErrUnreachable, e.server, e.cause)
}

func (e *unreachableError) Unwrap() error { return e.cause }

func (e *unreachableError) Is(target error) bool {
	switch target {
	case ErrUnreachable:
		return true
	case ErrTLSMismatch:
		certificate, record := (*tls.CertificateVerificationError)(nil), tls.RecordHeaderError{}
		return errors.As(e.cause, &certificate) || errors.As(e.cause, &record) || errors.Is(e.cause, http.ErrSchemeMismatch) ||
			strings.Contains(e.cause.Error(), `malformed HTTP response "\x15\x03`) // the server sent a TLS alert
	}
	return false
}
