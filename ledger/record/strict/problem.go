package strict

import (
	"errors"
	"fmt"
	"strings"

	"colophon/ledger/record/pyjson"
)

// Problem is one error in a request.
type Problem struct {
	Pointer string // JSON pointer (RFC 6901) to the wrong value; "" means the whole request
	Detail  string // what is wrong and what to do
}

// Error lists the reasons why a request was refused.
type Error struct {
	// Malformed is true if the request is not JSON, or has duplicate or unknown members. It is
	// false if only values are wrong.
	Malformed bool
	Problems  []Problem // at least one, and at most MaxProblems
}

// MaxProblems is the largest number of problems that are reported for one request.
const MaxProblems = 32

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

// SyntaxError returns the error for a request that pyjson refused with err.
func SyntaxError(err error) *Error {
	p := Problem{Detail: err.Error()}
	if syntax := (*pyjson.SyntaxError)(nil); errors.As(err, &syntax) {
		p.Pointer = boundedPointer(syntax.Pointer)
		p.Detail = fmt.Sprintf("invalid JSON at byte %d: %s", syntax.Offset, syntax.Msg)
		if syntax.Empty() {
			p.Detail = "nothing was sent; send a JSON object"
		}
	}
	return &Error{Malformed: true, Problems: []Problem{p}}
}

// Decoder collects the problems of one request. The zero value has none.
type Decoder struct {
	problems  []Problem
	malformed bool
	// Hints suggests what to write instead of an unknown member, by the member's name. It applies
	// to the objects that are decoded next.
	Hints map[string]string
}

// Failed reports whether there is a problem.
func (d *Decoder) Failed() bool { return len(d.problems) > 0 }

// Full reports whether further problems would be dropped, so that decoding can stop.
func (d *Decoder) Full() bool { return len(d.problems) >= MaxProblems }

// Err returns an *Error, or nil if there is no problem. A request with an unknown member is
// malformed even if its values are wrong too.
func (d *Decoder) Err() error {
	if !d.Failed() {
		return nil
	}
	return &Error{Malformed: d.malformed, Problems: d.problems}
}

func (d *Decoder) add(pointer, detail string) {
	if len(d.problems) < MaxProblems {
		d.problems = append(d.problems, Problem{boundedPointer(pointer), detail})
	}
}

// maxPointer limits a pointer in bytes, since clients choose names and depth.
const maxPointer = 1024

// boundedPointer returns the pointer. If it is too long, boundedPointer returns the pointer to
// the innermost enclosing value whose pointer is short enough.
func boundedPointer(pointer string) string {
	if len(pointer) <= maxPointer {
		return pointer
	}
	return pointer[:max(0, strings.LastIndexByte(pointer[:maxPointer+1], '/'))]
}

// Invalid reports a problem with the value at a pointer.
func (d *Decoder) Invalid(pointer, format string, args ...any) {
	d.add(pointer, fmt.Sprintf(format, args...))
}

func (d *Decoder) unknown(pointer, name string) {
	d.malformed = true
	if hint := d.Hints[name]; hint != "" {
		d.add(pointer, "unknown member; "+hint)
		return
	}
	d.add(pointer, "unknown member; remove it or correct its name")
}

// Malformed reports that a request does not have the structure of its kind at all.
func (d *Decoder) Malformed(pointer, detail string) {
	d.malformed = true
	d.add(pointer, detail)
}
