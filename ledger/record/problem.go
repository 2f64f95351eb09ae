package record

import (
	"errors"
	"fmt"
	"strings"

	"colophon/ledger/record/pyjson"
)

// Problem says what is wrong at one place of a request.
type Problem struct {
	Pointer string // JSON pointer (RFC 6901) into the request; "" is the whole
	Detail  string // what is wrong and what to do
}

// Error is why a record was not accepted.
type Error struct {
	// Malformed: the request is not well-formed (not JSON, duplicate or unknown
	// members); otherwise it is well-formed and its values are not acceptable.
	Malformed bool
	Problems  []Problem // at least one, at most maxProblems
}

// maxProblems bounds the list, so that a hostile body cannot make it long.
const maxProblems = 32

// Error joins the problems.
func (e *Error) Error() string {
	parts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		parts[i] = p.Detail
		if p.Pointer != "" {
			parts[i] = p.Pointer + ": " + p.Detail
		}
	}
	return strings.Join(parts, "; ")
}

func syntaxError(err error) *Error {
	p := Problem{Detail: err.Error()}
	if syntax := (*pyjson.SyntaxError)(nil); errors.As(err, &syntax) {
		p.Pointer = boundedPointer(syntax.Pointer)
		p.Detail = fmt.Sprintf("invalid JSON at byte %d: %s", syntax.Offset, syntax.Msg)
	}
	return &Error{Malformed: true, Problems: []Problem{p}}
}

// decoder gathers the problems of one request.
type decoder struct {
	limits    Limits
	problems  []Problem
	malformed bool
}

func (d *decoder) failed() bool { return len(d.problems) > 0 }

// full says that no further problem would be reported: it is time to stop.
func (d *decoder) full() bool { return len(d.problems) >= maxProblems }

// err is nil when nothing is wrong. A malformed request is reported as such
// even if its values are wrong too.
func (d *decoder) err() error {
	if !d.failed() {
		return nil
	}
	return &Error{Malformed: d.malformed, Problems: d.problems}
}

func (d *decoder) add(pointer, detail string) {
	if len(d.problems) < maxProblems {
		d.problems = append(d.problems, Problem{boundedPointer(pointer), detail})
	}
}

// maxPointer bounds a pointer in bytes: names and depth are the client's choice.
const maxPointer = 1024

// boundedPointer is the pointer itself or, where it is too long, that of the
// innermost enclosing value that fits.
func boundedPointer(pointer string) string {
	if len(pointer) <= maxPointer {
		return pointer
	}
	return pointer[:max(0, strings.LastIndexByte(pointer[:maxPointer+1], '/'))]
}

func (d *decoder) invalid(pointer, format string, args ...any) {
	d.add(pointer, fmt.Sprintf(format, args...))
}

func (d *decoder) unknown(pointer string) {
	d.malformed = true
	d.add(pointer, "unknown member; remove it or correct its name")
}
