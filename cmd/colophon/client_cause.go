package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// misdirectedError is a connection that fails until the command line, the certificate or
// the server changes. Another try meets it again.
type misdirectedError struct {
	error
	advice string
}

// Error adds what to do.
func (e misdirectedError) Error() string { return e.error.Error() + "; " + e.advice }

// Unwrap is the failure alone.
func (e misdirectedError) Unwrap() error { return e.error }

// misdirected reports whether an error says what to change before the next try.
func misdirected(err error) bool {
	var m misdirectedError
	return errors.As(err, &m)
}

// advice says what to do about a connection that fails; empty where the error does not
// name its cause.
func (c *httpClient) advice(err error) string {
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
	case errors.As(err, &authority) && c.caFile != "":
		return fmt.Sprintf("none of the authorities in %s has signed the certificate: name the file of the server's own authority with --ca-file", c.caFile)
	case errors.As(err, &authority):
		return "this machine does not know the authority that has signed the certificate: name the file of that authority's certificate with --ca-file"
	case errors.As(err, &invalid), errors.As(err, &verification):
		return "the certificate does not hold: give the server another, and name the file of its authority with --ca-file"
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		return fmt.Sprintf("the server does not speak TLS there: use http%s", strings.TrimPrefix(c.base, "https"))
	case strings.Contains(err.Error(), tlsAlert):
		return c.useTLS()
	}
	return ""
}

// tlsAlert is how net/http names an answer that begins with a TLS alert.
const tlsAlert = `malformed HTTP response "\x15\x03`

// useTLS is the advice where a server that speaks TLS was asked without.
func (c *httpClient) useTLS() string {
	return fmt.Sprintf("the server speaks TLS: use https%s (and --ca-file, if the authority of its certificate is your own)", strings.TrimPrefix(c.base, "http"))
}
