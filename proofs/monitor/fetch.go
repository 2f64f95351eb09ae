package monitor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/semaphore"

	"colophon/client"
	"colophon/proofs/audit"
)

// Bounds on requests to a server that is not trusted. It may answer slowly, without end, with
// extreme compression, or not at all.
const (
	auditTries      = 5                // of one request
	auditPause      = 30 * time.Second // longest pause between two tries
	AuditHeaders    = 64 << 10         // bytes of an answer's headers
	MaxAuditJSON    = 16 << 20         // bytes of an answer in JSON; a server ends a page at 4 MiB of events
	MaxAuditValues  = 400_000          // values and member names of such an answer
	maxReceipt      = 1 << 20          // bytes of a receipt or a proof
	maxMetrics      = 64 << 20         // bytes of the metrics of all ledgers
	maxPacking      = 64 << 10         // bytes by which compression may make an answer longer
	MaxNote         = 1 << 20          // bytes of a signed note
	maxProblem      = 64 << 10         // bytes of an answer with another status than 200
	MaxAuditContent = 64 << 20         // bytes of a piece of content
)

// ErrTooMuch: an answer is longer than a valid one can be.
var ErrTooMuch = errors.New("the answer is longer than a valid one can be")

// UnavailableError is an audit.ErrUnavailable with a reason.
type UnavailableError struct{ Reason error }

// Error returns the reason.
func (e UnavailableError) Error() string { return e.Reason.Error() }

// Unwrap returns the reason.
func (e UnavailableError) Unwrap() error { return e.Reason }

// Is reports whether target is audit.ErrUnavailable.
func (UnavailableError) Is(target error) bool { return target == audit.ErrUnavailable }

// errNoRight: the token does not allow what the audit needs.
var errNoRight = errors.New("no right to it")

// RemoteServer describes how to reach a server.
type RemoteServer struct {
	Url, token string
	Transport  http.RoundTripper
	// compress requests compressed answers. On one machine, compression costs more than all
	// checks.
	compress bool
	explain  func(error) error // explains errors of package client; may be nil
}

// Fetcher makes requests to one ledger of one server. Each request is bounded in time and in
// bytes, before and after decompression. It is safe for concurrent use.
type Fetcher struct {
	RemoteServer
	client  *client.Client
	path    string        // of the ledger
	timeout time.Duration // for each try
}

// NewFetcher makes a fetcher that makes at most parallel requests at once.
func NewFetcher(from RemoteServer, path string, timeout time.Duration, parallel int) (*Fetcher, error) {
	if transport, ok := from.Transport.(*http.Transport); ok {
		transport = transport.Clone()
		transport.MaxIdleConnsPerHost = parallel
		transport.MaxResponseHeaderBytes = AuditHeaders
		transport.DisableCompression = true // boundedBody decompresses, and bounds both sides
		from.Transport = transport
	} else {
		from.compress = false
	}
	f := &Fetcher{RemoteServer: from, path: path, timeout: timeout}
	var err error
	f.client, err = f.connect(from.Url, from.token)
	return f, err
}

// connect makes a client for a server that is not trusted.
func (f *Fetcher) connect(url, token string) (*client.Client, error) {
	options := []client.Option{
		client.WithHTTPClient(&http.Client{Transport: &boundedTransport{f.Transport, f.compress}}),
		client.WithTimeout(f.timeout),
		client.WithRetries(client.Retries{Attempts: auditTries, First: max(1, min(250*time.Millisecond, f.timeout/4)), Longest: auditPause}),
	}
	if token != "" {
		options = append(options, client.WithToken(token))
	}
	return client.New(url, options...)
}

// fetched is a complete answer. why says what is wrong if the status is not 200.
type fetched struct {
	Status     int
	header     http.Header
	Body       []byte  // of a success
	redactedBy *uint64 // the event, if a problem names it
	why        string
}

// Get fetches a path below the ledger, whatever the status, up to limit bytes. The error wraps
// audit.ErrUnavailable if the server does not answer or is temporarily unable to; ErrTooMuch
// if the answer is longer; errAnswer if its encoding is unknown.
func (f *Fetcher) Get(ctx context.Context, path string, limit int64) (fetched, error) {
	return f.ask(ctx, f.path+path, "", limit)
}

// GetFrom is Get for a URL. Another server than the ledger's does not receive the token.
func (f *Fetcher) GetFrom(ctx context.Context, address string, limit int64) (fetched, error) {
	u, err := url.Parse(address)
	if err != nil {
		return fetched{}, err
	}
	token := ""
	if own, err := url.Parse(f.Url); err == nil && own.Scheme == u.Scheme && own.Host == u.Host {
		token = f.token
	}
	from, err := f.connect((&url.URL{Scheme: u.Scheme, Host: u.Host}).String(), token)
	if err != nil {
		return fetched{}, err
	}
	return f.askOf(ctx, from, u.RequestURI(), "", limit)
}

// ask is Get with a media type to accept; "" accepts any.
func (f *Fetcher) ask(ctx context.Context, path, accept string, limit int64) (fetched, error) {
	return f.askOf(ctx, f.client, path, accept, limit)
}

func (f *Fetcher) askOf(ctx context.Context, from *client.Client, path, accept string, limit int64) (fetched, error) {
	request := client.Request{Path: path, MaxAnswer: limit + 1} // boundedBody ends the answer earlier
	if accept != "" {
		request.Header = map[string]string{"Accept": accept}
	}
	answer, err := from.Do(withLimit(ctx, limit), request)
	problem := (*client.Error)(nil)
	switch {
	case err == nil:
		got := fetched{Status: answer.Status, header: answer.Header, Body: answer.Body}
		if got.Status != http.StatusOK {
			got.why = fmt.Sprintf("the server answers %d %s", got.Status, http.StatusText(got.Status))
		}
		return got, nil
	case ctx.Err() != nil || errors.Is(err, ErrTooMuch) || errors.Is(err, errAnswer):
		return fetched{}, err
	case errors.As(err, &problem) && !problem.Temporary() && !errors.Is(err, client.ErrMisdirected):
		return fetched{Status: problem.Status, header: problem.Header, redactedBy: problem.RedactedBy, why: f.explained(err).Error()}, nil
	}
	return fetched{}, UnavailableError{Reason: f.explained(err)}
}

func (f *Fetcher) explained(err error) error {
	if f.explain == nil {
		return err
	}
	return f.explain(err)
}

// want is Get for something that must exist. For another status the error has the server's
// message; if the token lacks a right, it is errNoRight.
func (f *Fetcher) want(ctx context.Context, path string, limit int64) ([]byte, error) {
	answer, err := f.Get(ctx, path, limit)
	if err != nil {
		return nil, err
	}
	switch answer.Status {
	case http.StatusOK:
		return answer.Body, nil
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, UnavailableError{Reason: &noRightError{answer.why}}
	}
	return nil, errors.New(answer.why)
}

// noRightError is errNoRight in the server's words.
type noRightError struct{ why string }

func (e *noRightError) Error() string        { return e.why }
func (e *noRightError) Is(target error) bool { return target == errNoRight }

// Large answers to questions are worked on a few at a time: that bounds the auditor's
// memory. Smaller ones need no share of it.
const (
	smallAnswer  = 1 << 20 // bytes
	largeAnswers = 2       // at once
)

// answerShare is a question's share of the memory for large answers. It belongs to the
// goroutine of the question.
type answerShare struct {
	of    *semaphore.Weighted
	taken bool
}

type answerShareKey struct{}

// withShare is a context whose large answers take a share; it is to be released.
func withShare(ctx context.Context, of *semaphore.Weighted) (context.Context, *answerShare) {
	s := &answerShare{of: of}
	return context.WithValue(ctx, answerShareKey{}, s), s
}

// takeShare waits for a share of the memory for large answers, unless the question has it.
func takeShare(ctx context.Context) error {
	s, _ := ctx.Value(answerShareKey{}).(*answerShare)
	if s == nil || s.taken {
		return nil
	}
	err := s.of.Acquire(ctx, 1)
	s.taken = err == nil
	return err
}

func (s *answerShare) release() {
	if s.taken {
		s.of.Release(1)
		s.taken = false
	}
}
