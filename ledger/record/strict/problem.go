package strict

import (
	"errors"
	"fmt"
	"strings"

	"colophon/ledger/record/pyjson"
)

// Problem is one error in a request body.
type Problem struct {
	Pointer string // JSON pointer (RFC 6901) to the invalid value; "" means the whole body
	Detail  string // what is wrong and how to fix it
}

// Error says why a request was refused.
type Error struct {
	// Malformed is true if the body is not valid JSON or has repeated or unknown members. It is
	// false if the only problem is that values are invalid.
	Malformed bool
	Problems  []Problem // at least one, and at most MaxProblems
}

// MaxProblems is the maximum number of problems that are reported for one request.
const MaxProblems = 32

// Error returns the pointers and details of the problems, joined by semicolons.
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

// NewSyntaxError converts err, which pyjson returned for a request body, to an *Error.
func NewSyntaxError(err error) *Error {
	p := Problem{Detail: err.Error()}
	if syntax := (*pyjson.SyntaxError)(nil); errors.As(err, &syntax) {
		p.Pointer = boundedPointer(syntax.Pointer)
		p.Detail = fmt.Sprintf("invalid JSON at byte %d: %s", syntax.Offset, syntax.Msg)
		if syntax.IsEmptySource() {
			p.Detail = "the body is empty; send a JSON object"
		}
	}
	return &Error{Malformed: true, Problems: []Problem{p}}
}

// Decoder decodes the objects in one request body and collects their problems. The zero Decoder is
// ready to use.
type Decoder struct {
	problems  []Problem
	malformed bool
	// Hints maps the name of an unknown member to advice on what to write instead. It applies to
	// the objects that are decoded while it is set.
	Hints map[string]string
}

// HasProblems reports whether any problems have been reported.
func (d *Decoder) HasProblems() bool { return len(d.problems) > 0 }

// IsFull reports whether further problems would be dropped, in which case decoding may stop.
func (d *Decoder) IsFull() bool { return len(d.problems) >= MaxProblems }

// Err returns an *Error with all the problems, or nil if there are none. A request with an unknown
// member counts as malformed even if some of its values are invalid as well.
func (d *Decoder) Err() error {
	if !d.HasProblems() {
		return nil
	}
	return &Error{Malformed: d.malformed, Problems: d.problems}
}

func (d *Decoder) add(pointer, detail string) {
	if len(d.problems) < MaxProblems {
		d.problems = append(d.problems, Problem{boundedPointer(pointer), detail})
	}
}

// maxPointer is the maximum length of the pointer in a Problem, in bytes. A limit is needed because
// clients choose the names and the nesting depth of members.
const maxPointer = 1024

// boundedPointer returns the pointer if it is at most maxPointer bytes long. Otherwise it returns
// the pointer to the innermost enclosing value whose pointer is short enough.
func boundedPointer(pointer string) string {
	if len(pointer) <= maxPointer {
		return pointer
	}
	return pointer[:max(0, strings.LastIndexByte(pointer[:maxPointer+1], '/'))]
}

// ReportInvalid reports a problem with the value at the given pointer. format and args describe the
// problem.
func (d *Decoder) ReportInvalid(pointer, format string, args ...any) {
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

// ReportMalformed reports a problem with the structure of the request body. Err then returns an
// error with Error.Malformed set.
func (d *Decoder) ReportMalformed(pointer, detail string) {
	d.malformed = true
	d.add(pointer, detail)
}
