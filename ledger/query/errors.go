package query

import (
	"errors"
	"fmt"

	"colophon/storage"
)

// Error reports why a question has no answer. The client is at fault, not the server.
type Error struct {
	Reason    Reason
	Parameter string // the parameter at fault; "" if none is
	Detail    string // what is wrong, as a text for the client
}

// Reason is the kind of an Error.
type Reason uint8

// The reasons why a question has no answer.
const (
	ReasonInvalid   Reason = iota // a parameter is malformed, unknown, or refers to a point beyond the end of the log
	ReasonWrongKind               // a parameter refers to an event of another kind
	ReasonNotFound                // the request refers to something that does not exist
)

// Error implements error.
func (e *Error) Error() string {
	if e.Parameter == "" {
		return e.Detail
	}
	return e.Parameter + ": " + e.Detail
}

// invalid returns an *Error that names a parameter.
func invalid(name, format string, args ...any) error {
	return &Error{ReasonInvalid, name, fmt.Sprintf(format, args...)}
}

// missing returns an *Error about something that does not exist.
func missing(format string, args ...any) error {
	return &Error{Reason: ReasonNotFound, Detail: fmt.Sprintf(format, args...)}
}

// notFound turns storage.ErrNotFound into an Error with the given detail. It returns other errors unchanged.
func notFound(err error, detail string) error {
	if errors.Is(err, storage.ErrNotFound) {
		return missing("%s", detail)
	}
	return err
}
