package cli

import "fmt"

// Exit codes. Those of verify are beside it.
const (
	ExitOK          = 0
	ExitFailed      = 1 // the command did not do all that was asked
	ExitUsage       = 2 // the command line, a configuration or a file it names
	ExitUnreachable = 3 // no server answers
	ExitUnchecked   = 3 // of doctor --strict: something could not be seen
	ExitInUse       = 4 // another process has the data folder
	ExitDamaged     = 5 // what is stored contradicts itself
	ExitWithheld    = 6 // of audit: the server does not show what was to be checked
)

// ExitError ends the process with a code. A nil err was reported already.
type ExitError struct {
	Code int
	Err  error
	// Plain says that the help of the command has nothing to add.
	Plain bool
}

// Error is the message of the cause.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap is the cause.
func (e *ExitError) Unwrap() error { return e.Err }

// Exitf is an ExitError with a message. It wraps like fmt.Errorf.
func Exitf(code int, format string, args ...any) error {
	return &ExitError{Code: code, Err: fmt.Errorf(format, args...)}
}

// Refused is an ExitError about what a file or folder holds that was named rightly.
func Refused(format string, args ...any) error {
	return &ExitError{Code: ExitUsage, Err: fmt.Errorf(format, args...), Plain: true}
}
