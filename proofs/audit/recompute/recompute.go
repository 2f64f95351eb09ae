// Package recompute checks what one event says of its record: that the hashes and checks follow
// from the event's other fields (Checker), and that the record, rebuilt with its content, makes
// this very event (Rebuilder). It does not look at the log around the event.
package recompute

import "fmt"

// Error says what is wrong with an event.
type Error struct {
	// Field is the check or the member that does not follow from the rest. It is empty if no
	// event can have this form.
	Field   string
	Message string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return fmt.Sprintf("%.100q: %s", e.Field, e.Message)
}

// malformed returns the error of an event that no ledger writes.
func malformed(format string, args ...any) error {
	return &Error{Message: fmt.Sprintf(format, args...)}
}

// wrongField returns the error of a field that does not follow from the rest.
func wrongField(name, format string, args ...any) error {
	return &Error{Field: name, Message: fmt.Sprintf(format, args...)}
}

// orNull returns a hash as a message shows it.
func orNull(hash []byte) []byte {
	if hash == nil {
		return []byte("null")
	}
	return hash
}
