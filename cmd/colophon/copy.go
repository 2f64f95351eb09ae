package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"colophon/client"
	"colophon/internal/cli"
	"colophon/internal/publish/bucket"
	"colophon/internal/remote"
	"colophon/internal/verify"
	"colophon/proofs"
	"colophon/proofs/monitor/fetch"
)

// logAddress holds the parts of the URL of a ledger.
type logAddress struct {
	ledger string
	server string // URL of the server; empty if the log is in a bucket
	bucket string // URL of the bucket with a published copy; empty for a server
}

// parseLogAddress splits the URL of a ledger, on a server or in a bucket, into its parts.
func parseLogAddress(text string) (a logAddress, err error) {
	const before = "/v1/ledgers/"
	refusal := cli.Exitf(cli.ExitUsage, "%q is not the URL of a ledger like %s%sdefault", text, remote.DefaultURL, before)
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
	a.ledger = name
	if !isBucket {
		// The server's URL is only the part before /v1/ledgers/. It has no query and no
		// fragment.
		server := url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host, Path: prefix, RawPath: path[:at]}
		a.server = server.String()
		return a, nil
	}
	if a.bucket = u.Scheme + "://" + u.Host + path[:at]; u.RawQuery != "" {
		a.bucket += "?" + u.RawQuery
	}
	if err := bucket.Check(a.bucket); err != nil {
		return a, cli.Exitf(cli.ExitUsage, "%q: %w", text, err)
	}
	return a, nil
}

// fetchFromBucket returns the form in which package fetch takes a bucket with copies.
func fetchFromBucket(place string) (fetch.Server, error) {
	b, err := bucket.Open(place)
	return fetch.Server{URL: remote.DefaultURL, Transport: bucket.Transport(b), Explain: func(err error) error {
		text := err.Error()
		var problem *client.Error
		var request *url.Error
		switch {
		case errors.As(err, &problem):
			text = problem.Reason()
		case errors.As(err, &request):
			text = request.Err.Error()
		}
		return &copyError{fmt.Sprintf("the copy at %s: %s", place, text), err}
	}}, err
}

// copyError is an error with a different message.
type copyError struct {
	text string
	err  error
}

func (e *copyError) Error() string { return e.text }
func (e *copyError) Unwrap() error { return e.err }

// openCopy reads the head of a published copy whose URL a flag gives.
func openCopy(ctx context.Context, text string, trusted []*proofs.Verifier) (*verify.Copy, error) {
	at, err := parseLogAddress(text)
	if err != nil {
		return nil, err
	}
	server := fetch.Server{URL: at.server}
	if at.bucket != "" {
		if server, err = fetchFromBucket(at.bucket); err != nil {
			return nil, err
		}
	}
	const parallel = 4
	source, err := fetch.New(server, at.ledger, time.Minute, parallel)
	if err != nil {
		return nil, err
	}
	answer, err := source.Get(ctx, "/log/key", fetch.MaxNote)
	if err == nil && answer.Status != http.StatusOK {
		err = errors.New(answer.Problem)
	}
	if err != nil {
		return nil, fmt.Errorf("fetching the keys: %w", err)
	}
	keys, err := proofs.ParseLogKey(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("the keys of %s: %w", text, err)
	}
	log, err := fetch.OpenLog(ctx, source, keys.VerifiersFrom(trusted...), parallel)
	if err != nil {
		return nil, err
	}
	return &verify.Copy{Name: text, Keys: keys, Checkpoint: log.Checkpoint(),
		Tile: func(level uint8, index uint64) ([]byte, error) { return log.Tile(ctx, level, index) }}, nil
}
