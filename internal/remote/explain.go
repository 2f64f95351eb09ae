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

// MisdirectedError is a connection that fails until the command line, the certificate or the server changes. It is
// a client.ErrMisdirected.
type MisdirectedError struct {
	Err    error
	Advice string // what to change
}

// Error adds what to do.
func (e *MisdirectedError) Error() string { return e.Err.Error() + "; " + e.Advice }

// Unwrap returns Err.
func (e *MisdirectedError) Unwrap() error { return e.Err }

// explained is an error of package client in a command's words.
type explained struct {
	text string
	err  error
}

func (e *explained) Error() string { return e.text }
func (e *explained) Unwrap() error { return e.err }

// Explain says in a command's words why a call has failed, and what to do if only this side can know. The error is
// still that of package client for errors.Is and errors.As; others are returned as they are.
func (s *Server) Explain(err error) error {
	var problem *client.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, client.ErrMisdirected):
		answer := s.withoutPackage(err)
		if errors.As(err, &problem) {
			answer = &explained{fmt.Sprintf("no answer from the server at %s: %d", s.URL, problem.Status), err}
		}
		return &MisdirectedError{answer, s.advice(err)}
	case errors.As(err, &problem):
		return &explained{fmt.Sprintf("%d %s", problem.Status, s.reason(problem)), err}
	case errors.Is(err, client.ErrUnreachable), errors.Is(err, client.ErrAnswer):
		return s.withoutPackage(err)
	}
	return err
}

// Exit is Explain for an error that ends the command: with the exit code, and a hint if no server answers.
func (s *Server) Exit(err error) error {
	explained := s.Explain(err)
	switch {
	case errors.Is(err, client.ErrMisdirected):
		return cli.Exitf(cli.ExitUnreachable, "%w", explained)
	case errors.Is(err, client.ErrUnreachable):
		return cli.Exitf(cli.ExitUnreachable, "%w\nIs the server running (colophon serve)? Name another with --server", explained)
	}
	return explained
}

// OrNoGrant is what else an answer may mean that there is no such ledger.
func (s *Server) OrNoGrant() string {
	if s.Token == "" {
		return ""
	}
	return ", or none that the token has a grant on"
}

// reason is what a problem says, or what the server cannot know.
func (s *Server) reason(problem *client.Error) string {
	switch {
	case problem.Status == http.StatusUnauthorized && s.Token == "":
		return "the server wants a token: put one into COLOPHON_TOKEN, or into a file and name that with --token-file; " +
			"the server's operator makes it with colophon token create"
	case problem.Status == http.StatusUnauthorized:
		return "the server does not take the token: it is unknown there, revoked or expired; " +
			"the server's operator makes another with colophon token create"
	case problem.Status/100 == 3:
		return problem.Reason() + " with --server"
	}
	return problem.Reason()
}

// withoutPackage leaves out the name of package client.
func (s *Server) withoutPackage(err error) error {
	return &explained{strings.TrimPrefix(err.Error(), "client: "), err}
}

// advice says what to do about a connection that fails until something changes.
func (s *Server) advice(err error) string {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &name):
		return "the certificate is of another name: ask for the server by a name that its certificate has, or give the server a certificate of this name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the certificate has expired or is not valid yet: renew the server's certificate, or set this machine's clock"
	case errors.As(err, &authority) && s.CAFile != "":
		return fmt.Sprintf("none of the authorities in %s has signed the certificate: name the file of the server's own authority with --ca-file", s.CAFile)
	case errors.As(err, &authority):
		return "this machine does not know the authority that has signed the certificate: name the file of that authority's certificate with --ca-file"
	case errors.As(err, &verification):
		return "the certificate does not hold: give the server another, and name the file of its authority with --ca-file"
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		return fmt.Sprintf("the server does not speak TLS there: use http%s", strings.TrimPrefix(s.URL, "https"))
	}
	return fmt.Sprintf("the server speaks TLS: use https%s (and --ca-file, if the authority of its certificate is your own)", strings.TrimPrefix(s.URL, "http"))
}
