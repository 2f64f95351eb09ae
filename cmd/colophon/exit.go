package main

import "fmt"

// Exit codes. Those of verify are beside it.
const (
	exitOK          = 0
	exitFailed      = 1 // the command did not do all that was asked
	exitUsage       = 2 // the command line, a configuration or a file it names
	exitUnreachable = 3 // no server answers
	exitUnchecked   = 3 // of doctor --strict: something could not be seen
	exitInUse       = 4 // another process has the data folder
	exitDamaged     = 5 // what is stored contradicts itself
	exitWithheld    = 6 // of audit: the server does not show what was to be checked
)

// exitError ends the process with a code. A nil err was reported already.
type exitError struct {
	code int
	err  error
	// plain says that the help of the command has nothing to add.
	plain bool
}

// Error is the message of the cause.
func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

// Unwrap is the cause.
func (e *exitError) Unwrap() error { return e.err }

// exitf is an exitError with a message. It wraps like fmt.Errorf.
func exitf(code int, format string, args ...any) error {
	return &exitError{code: code, err: fmt.Errorf(format, args...)}
}

// refused is an exitError about what a file or folder holds that was named rightly.
func refused(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...), plain: true}
}
