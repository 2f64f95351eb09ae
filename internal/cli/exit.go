package cli

import (
	"context"
	"fmt"
	"os"
)

// Exit codes of the commands. The verify and audit commands have additional ones.
const (
	ExitOK          = 0 // the command succeeded
	ExitFailed      = 1 // the command failed
	ExitUsage       = 2 // the command line, the configuration, or a file named in either is wrong
	ExitUnreachable = 3 // the server does not answer
	ExitUnchecked   = 3 // doctor --strict: a check was skipped
	ExitInUse       = 4 // another process uses the data folder
	ExitDamaged     = 5 // stored data is damaged
	ExitWithheld    = 6 // audit: the server withholds data that audit must check
	ExitUndecided   = 7 // drift gate: there is not enough evidence
)

// ExitError is an error that makes the process exit with Code. If Err is nil, the command has
// already printed the error.
type ExitError struct {
	Code int   // exit code of the process
	Err  error // nil if the error has already been printed
	// OmitHelpHint suppresses the hint to run the command with --help.
	OmitHelpHint bool
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// ExitErrorf returns an ExitError with the given code and a formatted error. Errors are formatted
// and wrapped in the same way as by fmt.Errorf.
func ExitErrorf(code int, format string, args ...any) error {
	return &ExitError{Code: code, Err: fmt.Errorf(format, args...)}
}

// FileStateErrorf is like ExitErrorf with ExitUsage, for errors about the state of a file or
// folder. The command line was correct, so the error omits the hint to run it with --help.
func FileStateErrorf(format string, args ...any) error {
	return &ExitError{Code: ExitUsage, Err: fmt.Errorf(format, args...), OmitHelpHint: true}
}

// ExitOnInterrupt makes the process exit with ExitFailed as soon as ctx ends, until the returned
// function is called. It is for commands that have nothing to clean up and cannot check ctx while
// they wait for a file or for standard input.
func (c *Console) ExitOnInterrupt(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		c.PrintErrf("interrupted")
		os.Exit(ExitFailed)
	})
}
