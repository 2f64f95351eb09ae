package monitor

import (
	"errors"
	"fmt"
)

// Reasons why a state cannot be used: StateError.Reason.
var (
	// ErrStateDamaged: the state was changed after an audit wrote it. This says nothing about
	// the ledger.
	ErrStateDamaged = errors.New("the state is damaged")
	// ErrStateMismatch: the state belongs to another log, or another version of this package
	// wrote it.
	ErrStateMismatch = errors.New("the state does not fit")
	// ErrStateIncomplete: the folder of an earlier audit is there, but the state file is not.
	ErrStateIncomplete = errors.New("the state file is missing, but its folder is not")
	// ErrStateInUse: another audit uses the state.
	ErrStateInUse = errors.New("another audit uses the state")
)

// StateError reports a state that an audit cannot start from. The audit has changed nothing in
// it.
type StateError struct {
	File   string // the state file
	Folder string // the folder beside it
	Reason error  // one of the ErrState errors; nil if reading or writing a file failed
	Err    error
}

// Error names the file and what is wrong.
func (e *StateError) Error() string { return fmt.Sprintf("the state %s: %v", e.File, e.Err) }

// Unwrap returns the reason, if any, and the error.
func (e *StateError) Unwrap() []error {
	if e.Reason == nil {
		return []error{e.Err}
	}
	return []error{e.Reason, e.Err}
}

// NoteError reports a checkpoint in Options.Against that is not of the log, or not signed.
type NoteError struct {
	Name string // of the Note
	Err  error
}

// Error names the note and what is wrong.
func (e *NoteError) Error() string { return e.Name + ": " + e.Err.Error() }

// Unwrap returns what is wrong.
func (e *NoteError) Unwrap() error { return e.Err }

// UncheckableError reports that something cannot be audited, for example because the token lacks
// a right. It says nothing about the ledger.
type UncheckableError struct {
	What   string // "the content", "receipts", "the answers"
	Reason string
}

// Error names what cannot be audited, and why.
func (e *UncheckableError) Error() string { return e.What + " cannot be audited: " + e.Reason }
