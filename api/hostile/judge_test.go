package hostile_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// inside matches the parts of a message that reveal internals of the server: terms that Go uses for
// types, source positions, and failures, and the names of libraries and files.
var inside = regexp.MustCompile(strings.Join([]string{
	`goroutine|runtime[. ]|panic|nil pointer|index out of range|\.go:\d|0x[0-9a-f]{6,}|%!|<nil>|interface \{|map\[|\*[a-z]+\.[A-Z]`,
	`json: |strconv\.|encoding/|reflect|errors\.|invalid character .* looking|context (canceled|deadline)|net/http|echo\.|code=\d|message=`,
	`use of closed|broken pipe|i/o timeout|connection reset|pebble|MANIFEST|\.sst\b|sql|SELECT |colophon/|/home/|/var/`,
	regexp.QuoteMeta(os.TempDir()) + `\b`, // a damaged body can have a member such as "tmpic"
}, "|"))

// problem holds the members of a problem that the checks use.
type problem struct {
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Errors []struct {
		Pointer string `json:"pointer"`
		Detail  string `json:"detail"`
	} `json:"errors"`
}

// judge returns an error unless a is an allowed answer to r.
func (c *contract) judge(r *request, a *answer) error {
	switch {
	case errors.Is(a.err, errLeft):
		if r.way.leave {
			return nil
		}
	case errors.Is(a.err, os.ErrDeadlineExceeded):
		return fmt.Errorf("no answer within %v", patience)
	case a.err != nil && (r.way.garbled || r.way.send > 0):
		return nil // a malformed request does not need to be answered
	case a.err != nil:
		return fmt.Errorf("the answer is incomplete: %w", a.err)
	case a.own:
		if !r.way.garbled {
			return fmt.Errorf("net/http answered %d, without a handler", a.status)
		}
		return leaks(string(a.body))
	}
	if a.status >= 500 && a.status != http.StatusServiceUnavailable {
		return fmt.Errorf("status %d", a.status)
	}
	if a.header.Get("X-Content-Type-Options") != "nosniff" && a.status != http.StatusExpectationFailed {
		return errors.New("no X-Content-Type-Options: nosniff")
	}
	if a.header.Get("Injected") != "" {
		return errors.New("the answer has a header that the client injected")
	}
	if err := c.documented(r, a); err != nil {
		return err
	}
	if op, _ := c.find(r.method, r.url()); r.unauthenticated && a.status < 400 && op != nil && c.guarded(op) {
		return fmt.Errorf("answered with %d without valid credentials", a.status)
	}
	if a.status >= 400 && r.method != http.MethodHead {
		return c.judgeProblem(a)
	}
	return c.judgeOutcome(r, a)
}

// documented returns nil if the contract allows the answer. The status must be listed for the
// operation, or in the introduction of the contract, which applies to all routes.
func (c *contract) documented(r *request, a *answer) error {
	op, methods := c.find(r.method, r.url())
	if op != nil && op.Responses.Status(a.status) != nil {
		return c.checkAnswer(op, r.method, a)
	}
	foreign := slices.ContainsFunc(r.header, func(f field) bool { return f.name == "Origin" || f.name == "Sec-Fetch-Site" })
	switch {
	case a.status == http.StatusMethodNotAllowed && methods && op == nil,
		a.status == http.StatusNotFound && op == nil,
		a.status == http.StatusNoContent && r.method == http.MethodOptions && a.header.Get("Allow") != "",
		a.status == http.StatusForbidden && foreign,
		a.status == http.StatusExpectationFailed && r.has("Expect"),
		a.status == http.StatusRequestTimeout && r.way.send > 0,
		a.status == http.StatusUnauthorized && r.unauthenticated, // the request was refused before anything was looked up
		a.status == http.StatusRequestURITooLong,
		a.status == http.StatusMisdirectedRequest && r.way.garbled:
		return nil
	case a.status == http.StatusNotFound && r.way.garbled, a.status == http.StatusMethodNotAllowed && r.way.garbled,
		a.status == http.StatusBadRequest && r.way.garbled:
		return nil // the request might have reached another operation
	case op == nil:
		return fmt.Errorf("status %d for an operation that the contract does not have", a.status)
	}
	return fmt.Errorf("the contract has no status %d here, %s", a.status, op.OperationID)
}

// judgeProblem returns an error unless the answer is a problem that says what is wrong without
// revealing internals of the server.
func (c *contract) judgeProblem(a *answer) error {
	if a.status == http.StatusExpectationFailed {
		return nil // net/http answers 417 itself, without a body
	}
	if a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") == "" {
		return errors.New("503 without Retry-After")
	}
	switch kind := a.header.Get("Content-Type"); kind {
	case problemType:
	case jsonType: // an OTLP status, which documented has already checked against the contract
		var status struct{ Message string }
		if err := json.Unmarshal(a.body, &status); err != nil || strings.TrimSpace(status.Message) == "" {
			return fmt.Errorf("an OTLP failure without a message: %.200q", a.body)
		}
		return leaks(status.Message)
	default:
		return fmt.Errorf("an error of type %q: %.200q", kind, a.body)
	}
	return c.checkProblem(a.status, a.body)
}

func (c *contract) checkProblem(status int, text []byte) error {
	var p problem
	if err := json.Unmarshal(text, &p); err != nil {
		return fmt.Errorf("a problem that is not JSON: %w: %.200q", err, text)
	}
	if p.Status != status || strings.TrimSpace(p.Detail) == "" {
		return fmt.Errorf("a problem with a different status or without a detail: %.300q", text)
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	if err := c.problem.VisitJSON(v, openapi3.VisitAsResponse()); err != nil {
		return fmt.Errorf("a problem that does not match the contract: %w", err)
	}
	for _, e := range p.Errors {
		if err := leaks(e.Detail); err != nil {
			return err
		}
	}
	return leaks(p.Detail)
}

// leaks returns an error if a message reveals internals of the server.
func leaks(message string) error {
	if found := inside.FindString(message); found != "" {
		return fmt.Errorf("the message %q reveals %q", message, found)
	}
	return nil
}

// judgeOutcome returns an error if a request succeeded although the server should have refused it.
func (c *contract) judgeOutcome(r *request, a *answer) error {
	if a.status >= 300 || r.op.media != linesType || r.method != http.MethodPost {
		if r.refused && a.status < 400 && !r.way.garbled {
			return fmt.Errorf("accepted with status %d, although the contract does not allow the request", a.status)
		}
		return nil
	}
	refused, answers := 0, 0
	for line := range bytes.Lines(a.body) {
		answers++
		var p problem
		if err := json.Unmarshal(line, &p); err != nil {
			return fmt.Errorf("a line that is not JSON: %w", err)
		}
		if p.Status == 0 { // the line is a receipt
			continue
		}
		refused++
		if p.Status >= 500 && p.Status != http.StatusServiceUnavailable {
			return fmt.Errorf("a line of status %d", p.Status)
		}
		if err := c.checkProblem(p.Status, line); err != nil {
			return err
		}
	}
	if r.refused && refused == 0 {
		return errors.New("every line was accepted, although the contract does not allow one of them")
	}
	if r.class == valid && answers != len(r.lines) {
		return fmt.Errorf("%d answers to %d lines", answers, len(r.lines))
	}
	return nil
}
