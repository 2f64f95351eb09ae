package monitor

import (
	"errors"
	"fmt"
)

// Values of StateError.Reason. Each says why an audit cannot use its stored state.
var (
	// ErrStateDamaged means that the stored state was changed after an audit wrote it. It does not
	// mean that the ledger is damaged.
	ErrStateDamaged = errors.New("the state is damaged")
	// ErrStateMismatch means that the state belongs to another log, or that another version of
	// this package wrote it.
	ErrStateMismatch = errors.New("the state belongs to another log or was written by another version of this program")
	// ErrStateIncomplete means that the folder of an earlier audit exists, but the state file
	// does not.
	ErrStateIncomplete = errors.New("the state file is missing, but its folder exists")
	// ErrStateInUse means that another audit uses the state.
	ErrStateInUse = errors.New("another audit is using the state")
)

// StateError reports that an audit cannot start from its stored state. The audit did not change the
// state.
type StateError struct {
	File   string // path of the state file
	Folder string // path of the folder beside the state file
	Reason error  // one of the ErrState errors; nil if reading or writing a file failed
	Err    error  // the underlying error
}

// Error names the file and says what is wrong.
func (e *StateError) Error() string { return fmt.Sprintf("the state file %s: %v", e.File, e.Err) }

// Unwrap returns e.Reason, if it is set, and e.Err.
func (e *StateError) Unwrap() []error {
	if e.Reason == nil {
		return []error{e.Err}
	}
	return []error{e.Reason, e.Err}
}

// CheckpointError reports a checkpoint in Options.SeenCheckpoints that is not signed by the log's keys or
// that belongs to another log.
type CheckpointError struct {
	Name string // the checkpoint's name in Options.SeenCheckpoints
	Err  error  // what is wrong with the checkpoint
}

// Error names the checkpoint and says what is wrong with it.
func (e *CheckpointError) Error() string { return e.Name + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *CheckpointError) Unwrap() error { return e.Err }

// UncheckableError reports that something cannot be audited, for example because the token lacks a
// right. It does not mean that the ledger is damaged.
type UncheckableError struct {
	Subject string // what cannot be audited, for example "the content" or "receipts"
	Reason  string // why it cannot be audited
}

// Error says what cannot be audited and why.
func (e *UncheckableError) Error() string { return e.Subject + " cannot be audited: " + e.Reason }
