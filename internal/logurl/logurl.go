// Package logurl parses the URLs of ledgers on servers and of their published copies.
package logurl

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"colophon/client"
	"colophon/internal/cli"
	"colophon/internal/publish/bucket"
	"colophon/internal/remote"
	"colophon/proofs/monitor/fetch"
)

// Address is the parsed URL of a ledger.
type Address struct {
	Ledger    string // name of the ledger
	ServerURL string // URL of the server; empty if the log is in a bucket
	BucketURL string // URL of the bucket that holds a published copy; empty if the ledger is on a server
}

// Parse parses the URL of a ledger on a server or in a bucket.
func Parse(text string) (a Address, err error) {
	const before = "/v1/ledgers/"
	refusal := cli.ExitErrorf(cli.ExitUsage, "%q is not the URL of a ledger; use a URL such as %s%sdefault", text, remote.DefaultURL, before)
	u, err := url.Parse(text)
	isBucket := bucket.IsURL(text)
	if err != nil || !isBucket && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "") {
		return a, refusal
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	at := strings.LastIndex(path, before)
	if at < 0 {
		return a, refusal
	}
	name, err := url.PathUnescape(path[at+len(before):])
	prefix, prefixErr := url.PathUnescape(path[:at])
	if err != nil || prefixErr != nil || name == "" || strings.Contains(name, "/") {
		return a, refusal
	}
	a.Ledger = name
	if !isBucket {
		// The server's URL is everything before /v1/ledgers/, without a fragment.
		server := url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host, Path: prefix, RawPath: path[:at]}
		a.ServerURL = server.String()
		return a, nil
	}
	if a.BucketURL = u.Scheme + "://" + u.Host + path[:at]; u.RawQuery != "" {
		a.BucketURL += "?" + u.RawQuery
	}
	if err := bucket.CheckURL(a.BucketURL); err != nil {
		return a, cli.ExitErrorf(cli.ExitUsage, "%q: %w", text, err)
	}
	return a, nil
}

// Source returns the server or the bucket as a fetch.Server, for packages that verify everything
// they fetch. It contains no token.
func (a Address) Source() (fetch.Server, error) {
	if a.BucketURL == "" {
		return fetch.Server{URL: a.ServerURL}, nil
	}
	return BucketServer(a.BucketURL)
}

// BucketServer returns a fetch.Server for all the ledgers that have copies in the bucket at
// bucketURL.
func BucketServer(bucketURL string) (fetch.Server, error) {
	b, err := bucket.Open(bucketURL)
	return fetch.Server{URL: remote.DefaultURL, Transport: bucket.NewTransport(b), ExplainError: func(err error) error {
		text := err.Error()
		var problem *client.Error
		var request *url.Error
		switch {
		case errors.As(err, &problem):
			text = problem.Reason()
		case errors.As(err, &request):
			text = request.Err.Error()
		}
		return &copyError{fmt.Sprintf("reading the copy at %s: %s", bucketURL, text), err}
	}}, err
}

// copyError wraps an error and replaces its message.
type copyError struct {
	text string
	err  error
}

func (e *copyError) Error() string { return e.text }
func (e *copyError) Unwrap() error { return e.err }
