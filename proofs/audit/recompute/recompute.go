// Package recompute checks what a single event states about its record. Checker checks that
// the hashes and checks follow from the event's other fields. Rebuilder checks that the
// record, rebuilt with its content, produces exactly this event. Neither looks at the log
// around the event.
package recompute

import "fmt"

// Error describes what is wrong with an event.
type Error struct {
	// Field is the check or the member that does not follow from the rest of the event. It is empty
	// if no ledger would write an event of this form.
	Field   string
	Message string // what is wrong, in words
}

func (e *Error) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return fmt.Sprintf("%.100q: %s", e.Field, e.Message)
}

// malformed returns the error for an event that no ledger would write.
func malformed(format string, args ...any) error {
	return &Error{Message: fmt.Sprintf(format, args...)}
}

// wrongField returns the error for a field that does not follow from the rest of the event.
func wrongField(name, format string, args ...any) error {
	return &Error{Field: name, Message: fmt.Sprintf(format, args...)}
}

// orNull returns a hash for use in a message, with nil represented as null.
func orNull(hash []byte) []byte {
	if hash == nil {
		return []byte("null")
	}
	return hash
}
