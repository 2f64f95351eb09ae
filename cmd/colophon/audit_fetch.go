package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"colophon/proofs/audit"
)

// Bounds of what is asked of a server that nobody trusts. It may answer slowly,
// endlessly, compressed to nothing, or not at all.
const (
	auditTries      = 5                // of one request
	auditPause      = 30 * time.Second // between two of them, at most
	auditHeaders    = 64 << 10         // bytes of an answer's headers
	maxAuditJSON    = 64 << 20         // bytes of an answer in JSON: 1,000 rows with their events fit
	maxNote         = 1 << 20          // bytes of a signed note
	maxProblem      = 64 << 10         // bytes of an answer that is no success
	maxAuditContent = 64 << 20         // bytes of a piece of content
)

// errTooMuch: an answer is longer than it can rightly be.
var errTooMuch = errors.New("the answer is longer than it can be")

// unavailableError is an audit.ErrUnavailable that says nothing but why.
type unavailableError struct{ error }

// Unwrap is why.
func (e unavailableError) Unwrap() error { return e.error }

// Is reports whether that is what the error is.
func (unavailableError) Is(target error) bool { return target == audit.ErrUnavailable }

// fetcher asks one ledger of one server. Each request is bounded in time, and so is
// what is read of its answer after it was decompressed. It is safe for concurrent use.
type fetcher struct {
	client  *client
	path    string        // of the ledger
	timeout time.Duration // of each try
	pause   time.Duration // before the second try; later ones wait longer
}

// newFetcher makes a fetcher of a client that is nobody else's; parallel is how many
// requests it makes at once.
func newFetcher(c *client, path string, timeout time.Duration, parallel int) *fetcher {
	if transport, ok := c.http.Transport.(*http.Transport); ok {
		transport.MaxIdleConnsPerHost = parallel
		transport.MaxResponseHeaderBytes = auditHeaders
		// On one machine, to pack and unpack costs more than all that is checked.
		if u, err := url.Parse(c.base); err == nil {
			transport.DisableCompression = loopback(u.Hostname())
		}
	}
	return &fetcher{client: c, path: path, timeout: timeout, pause: min(250*time.Millisecond, timeout/4)}
}

// fetched is an answer that was read to its end. why is what is wrong, where its status
// is not 200.
type fetched struct {
	status int
	body   []byte
	why    string
}

// get asks for something below the ledger's path and reads up to limit bytes of the
// answer, whatever its status. The error wraps audit.ErrUnavailable where the server
// does not answer, or says that it cannot for the time being; errTooMuch where there
// is more.
func (f *fetcher) get(ctx context.Context, path string, limit int64) (fetched, error) {
	return f.getFrom(ctx, f.client.base+f.path+path, limit)
}

func (f *fetcher) getFrom(ctx context.Context, address string, limit int64) (fetched, error) {
	for try := 1; ; try++ {
		answer, wait, err := f.try(ctx, address, limit)
		if err == nil || errors.Is(err, errTooMuch) || ctx.Err() != nil {
			return answer, err
		}
		if try == auditTries {
			return fetched{}, unavailableError{err}
		}
		if wait == 0 {
			wait = f.pause << (try - 1)
		}
		wait += time.Duration(rand.Int64N(int64(max(1, f.pause)))) // #nosec G404 -- so that not all come back at once
		select {
		case <-time.After(min(wait, auditPause)):
		case <-ctx.Done():
			return fetched{}, ctx.Err()
		}
	}
}

// try makes the request once. The error is one that another try may not meet, with
// the time that the server asks to wait, or errTooMuch.
func (f *fetcher) try(ctx context.Context, address string, limit int64) (answer fetched, wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fetched{}, 0, err
	}
	response, err := f.client.do(request)
	if err != nil {
		return fetched{}, 0, f.client.noAnswer(err)
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return f.refused(response)
	}
	var body bytes.Buffer
	if said := response.ContentLength; said > 0 && said <= limit {
		body.Grow(int(said) + bytes.MinRead)
	}
	switch n, err := body.ReadFrom(io.LimitReader(response.Body, limit+1)); {
	case err != nil:
		return fetched{}, 0, fmt.Errorf("the answer breaks off: %w", f.client.noAnswer(err))
	case n > limit:
		return fetched{}, 0, fmt.Errorf("%w: more than %d bytes", errTooMuch, limit)
	}
	answer = fetched{status: response.StatusCode, body: body.Bytes()}
	if answer.status != http.StatusOK {
		answer.why = fmt.Sprintf("the server answers %d %s", answer.status, http.StatusText(answer.status))
	}
	return answer, 0, nil
}

// refused reads an answer that is no success, as much of it as a problem can have.
func (f *fetcher) refused(response *http.Response) (answer fetched, wait time.Duration, err error) {
	answer.status = response.StatusCode
	answer.body, err = io.ReadAll(io.LimitReader(response.Body, maxProblem))
	if err != nil {
		return fetched{}, 0, fmt.Errorf("the answer breaks off: %w", f.client.noAnswer(err))
	}
	response.Body = io.NopCloser(bytes.NewReader(answer.body))
	p := f.client.refused(response)
	if p.temporary() {
		return fetched{}, p.RetryAfter, p
	}
	answer.why = p.Error()
	return answer, 0, nil
}

// want is get of what must be there. Of another status, the error says what the server
// says; one that is about who asks is an exitError.
func (f *fetcher) want(ctx context.Context, path string, limit int64) ([]byte, error) {
	answer, err := f.get(ctx, path, limit)
	if err != nil {
		return nil, err
	}
	switch answer.status {
	case http.StatusOK:
		return answer.body, nil
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, unavailableError{exitf(exitFailed, "%s", answer.why)}
	}
	return nil, errors.New(answer.why)
}
