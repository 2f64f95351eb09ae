package remote

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"colophon/client"
	"colophon/internal/cli"
)

// SetupError is a connection error that recurs until the command line, the certificate, or
// the server changes. It wraps client.ErrTLSMismatch.
type SetupError struct {
	Err    error  // the connection error
	Advice string // what the user should change
}

func (e *SetupError) Error() string { return e.Err.Error() + "; " + e.Advice }

func (e *SetupError) Unwrap() error { return e.Err }

// explained is an error from package client with a different message.
type explained struct {
	text string
	err  error
}

func (e *explained) Error() string { return e.text }
func (e *explained) Unwrap() error { return e.err }

// Explain rewrites an error from package client for people who run a command, and adds advice.
// errors.Is and errors.As still find the original error. Explain returns other errors unchanged.
func (s *Connection) Explain(err error) error {
	var problem *client.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, client.ErrTLSMismatch):
		answer := s.withoutPackage(err)
		if errors.As(err, &problem) {
			answer = &explained{fmt.Sprintf("the server at %s responded with status %d", s.URL, problem.Status), err}
		}
		return &SetupError{answer, s.advice(err)}
	case errors.As(err, &problem):
		return &explained{fmt.Sprintf("%d %s", problem.Status, s.reason(problem)), err}
	case errors.Is(err, client.ErrUnreachable), errors.Is(err, client.ErrUnexpectedResponse):
		return s.withoutPackage(err)
	}
	return err
}

// ExplainFatal is like Explain, but for an error that ends the command. It also sets the exit code,
// and adds a hint if the server does not respond.
func (s *Connection) ExplainFatal(err error) error {
	explained := s.Explain(err)
	switch {
	case errors.Is(err, client.ErrTLSMismatch):
		return cli.ExitErrorf(cli.ExitUnreachable, "%w", explained)
	case errors.Is(err, client.ErrUnreachable):
		return cli.ExitErrorf(cli.ExitUnreachable, "%w\nIs the server running (colophon serve)? To use another server, pass --server", explained)
	}
	return explained
}

// MissingGrantHint returns a clause for the message that a ledger does not exist: the token may
// lack a grant on it. The clause is empty if no token was sent.
func (s *Connection) MissingGrantHint() string {
	if s.Token == "" {
		return ""
	}
	return ", or the token has no grant on it"
}

// reason returns the reason that an error response gives, with advice about credentials and
// redirects.
func (s *Connection) reason(problem *client.Error) string {
	switch {
	case problem.Status == http.StatusUnauthorized && s.Token == "":
		return "the server requires a token: put one into COLOPHON_TOKEN, or into a file that you name with --token-file; " +
			"the server's operator can create a token with colophon token create"
	case problem.Status == http.StatusUnauthorized:
		return "the server rejects the token: it is unknown, revoked or expired; " +
			"the server's operator can create another token with colophon token create"
	case problem.Status/100 == 3:
		return problem.Reason() + " with --server"
	}
	return problem.Reason()
}

// withoutPackage removes the prefix "client: " from the message of err.
func (s *Connection) withoutPackage(err error) error {
	return &explained{strings.TrimPrefix(err.Error(), "client: "), err}
}

// advice returns the text for SetupError.Advice.
func (s *Connection) advice(err error) string {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &name):
		return "the certificate is for a different host name: use a host name from the certificate, or give the server a certificate for this name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the certificate has expired or is not valid yet: renew the server's certificate, or set this machine's clock"
	case errors.As(err, &authority) && s.CAFile != "":
		return fmt.Sprintf("the certificate is not signed by a CA in %s: use --ca-file to name the file of the CA that issued the certificate", s.CAFile)
	case errors.As(err, &authority):
		return "this machine does not trust the CA that signed the certificate: name the file of the CA certificate with --ca-file"
	case errors.As(err, &verification):
		return "the certificate is not valid: give the server a valid one, and name the file of its CA with --ca-file"
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		return fmt.Sprintf("the server does not speak TLS at this address: use http%s", strings.TrimPrefix(s.URL, "https"))
	}
	return fmt.Sprintf("the server speaks TLS: use https%s (and --ca-file, if its certificate is from a private CA)", strings.TrimPrefix(s.URL, "http"))
}
