package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"colophon/storage"
	"colophon/storage/postgres/commitrows"
)

var (
	errClosed   = errors.New("the database is closed")
	errReadOnly = errors.New("the database was opened read-only")
	// errTakenOver means that the ledger's head row names another writer.
	errTakenOver = errors.New("another process has taken over the ledger; stop one of the two processes")
)

// SQLSTATE codes and code classes (PostgreSQL, Appendix A).
const (
	codeDiskFull        = "53100"
	codeUniqueViolation = "23505"
	codeNoPrivilege     = "42501"
	codeNotSupported    = "0A000"
	codeSyntax          = "42601"
	codeReadOnly        = "25006" // for example, because the server became a standby
	codeIdle            = "25P03" // the transaction was idle for too long
	codeLockTaken       = "55P03"
	codeDataCorrupted   = "XX001"
	codeIndexCorrupted  = "XX002"

	classConnection   = "08"
	classRollback     = "40" // serialisation failures and deadlocks
	classResources    = "53"
	classIntervention = "57" // shutdowns and cancelled statements
)

// temporary reports whether the operation that returned err could succeed on another connection.
// Most errors that the server did not report mean that the connection was lost, so temporary
// returns true for them. It returns false if sentinel reports true for err, or if err wraps a
// *ServerSettingError or a *MigrationLockError.
func temporary(err error) bool {
	var setting *ServerSettingError
	var locked *MigrationLockError
	if err == nil || sentinel(err) || errors.As(err, &setting) || errors.As(err, &locked) {
		return false
	}
	var reported *pgconn.PgError
	if !errors.As(err, &reported) {
		return true
	}
	switch reported.Code {
	case codeReadOnly, codeIdle, codeLockTaken:
		return true
	}
	switch reported.Code[:min(2, len(reported.Code))] {
	case classConnection, classRollback, classResources, classIntervention:
		return reported.Code != codeDiskFull
	}
	return false
}

// sentinel reports whether err wraps one of the sentinel errors of package storage or of this
// package. Such an error means that nothing was written.
func sentinel(err error) bool {
	for _, is := range []error{
		storage.ErrNotFound, storage.ErrConflict, storage.ErrFrozen, storage.ErrNoSpace, storage.ErrUnknownFormat, storage.ErrDamaged, storage.ErrLeaseNotHeld,
		errClosed, errReadOnly, errTakenOver, commitrows.ErrRefused,
	} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// oneLine formats an error message on a single line. pgx writes one line for each address that it
// tried.
type oneLine struct{ error }

func (e oneLine) Error() string {
	return strings.NewReplacer(":\n\t", ": ", "\n\t", "; ", "\n", "; ").Replace(e.error.Error())
}

func (e oneLine) Unwrap() error { return e.error }

// unavailable wraps a temporary error. It matches storage.ErrUnavailable, but keeps the message of
// the wrapped error.
type unavailable struct{ error }

func (e unavailable) Is(target error) bool { return target == storage.ErrUnavailable }

func (e unavailable) Unwrap() error { return e.error }

// translateError converts an error from the server or the connection to one that matches the
// corresponding error of package storage. It returns any other error as it is, except that the
// message of a connection error is put on one line.
func translateError(err error) error {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		err = oneLine{err}
	}
	if temporary(err) {
		return unavailable{err}
	}
	var reported *pgconn.PgError
	if !errors.As(err, &reported) {
		return err
	}
	switch reported.Code {
	case codeDiskFull:
		return fmt.Errorf("%w: %w", storage.ErrNoSpace, err)
	case codeDataCorrupted, codeIndexCorrupted:
		return fmt.Errorf("%w: %s", storage.ErrDamaged, strings.ReplaceAll(reported.Message, "\n", " "))
	}
	return err
}

// pause waits between attempts. Each wait is twice as long as the one before, up to mostPause.
type pause struct{ last time.Duration }

const (
	leastPause = 20 * time.Millisecond
	mostPause  = time.Second
)

// wait waits for the next pause and returns nil, or returns the context's error if ctx is done
// first.
func (p *pause) wait(ctx context.Context) error {
	p.last = min(max(leastPause, 2*p.last), mostPause)
	select {
	case <-time.After(p.last):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
