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

// Bounds of what is asked of a server that nobody trusts. It may answer slowly,
// endlessly, compressed to nothing, or not at all.
const (
	auditTries      = 5                // of one request
	auditPause      = 30 * time.Second // between two of them, at most
	AuditHeaders    = 64 << 10         // bytes of an answer's headers
	MaxAuditJSON    = 16 << 20         // bytes of an answer in JSON; a server ends a page at 4 MiB of events
	MaxAuditValues  = 400_000          // values and member names of such an answer
	maxReceipt      = 1 << 20          // bytes of a receipt or a proof
	maxMetrics      = 64 << 20         // bytes of the metrics of all ledgers
	maxPacking      = 64 << 10         // bytes by which a compressed answer may be longer than itself
	MaxNote         = 1 << 20          // bytes of a signed note
	maxProblem      = 64 << 10         // bytes of an answer that is no success
	MaxAuditContent = 64 << 20         // bytes of a piece of content
)

// ErrTooMuch: an answer is longer than it can rightly be.
var ErrTooMuch = errors.New("the answer is longer than it can be")

// UnavailableError is an audit.ErrUnavailable that says nothing but why.
type UnavailableError struct{ Reason error }

// Error is the reason.
func (e UnavailableError) Error() string { return e.Reason.Error() }

// Unwrap is why.
func (e UnavailableError) Unwrap() error { return e.Reason }

// Is reports whether that is what the error is.
func (UnavailableError) Is(target error) bool { return target == audit.ErrUnavailable }

// errNoRight says that the server does not show the auditor what it has to see.
var errNoRight = errors.New("no right to it")

// RemoteServer is a server and how it is reached.
type RemoteServer struct {
	Url, token string
	Transport  http.RoundTripper
	// compress has the server compress its answers. On one machine, to pack and unpack costs more than all
	// that is checked.
	compress bool
	explain  func(error) error // puts errors of package client into other words; nil: does not
}

// Fetcher asks one ledger of one server. Each request is bounded in time, and so is
// what is read of its answer, before and after it is decompressed. It is safe for concurrent use.
type Fetcher struct {
	RemoteServer
	client  *client.Client
	path    string        // of the ledger
	timeout time.Duration // of each try
}

// NewFetcher makes a fetcher; parallel is how many requests it makes at once.
func NewFetcher(from RemoteServer, path string, timeout time.Duration, parallel int) (*Fetcher, error) {
	if transport, ok := from.Transport.(*http.Transport); ok {
		transport = transport.Clone()
		transport.MaxIdleConnsPerHost = parallel
		transport.MaxResponseHeaderBytes = AuditHeaders
		transport.DisableCompression = true // boundedBody decompresses: it bounds both sides of that
		from.Transport = transport
	} else {
		from.compress = false
	}
	f := &Fetcher{RemoteServer: from, path: path, timeout: timeout}
	var err error
	f.client, err = f.connect(from.Url, from.token)
	return f, err
}

// connect makes a client of a server that is not trusted.
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

// fetched is an answer that was read to its end. why is what is wrong, if its status
// is not 200.
type fetched struct {
	Status     int
	header     http.Header
	Body       []byte  // of a success
	redactedBy *uint64 // of a problem that names the event
	why        string
}

// Get asks for something below the ledger's path and reads up to limit bytes of the
// answer, whatever its status. The error wraps audit.ErrUnavailable if the server
// does not answer, or says that it cannot for the time being; ErrTooMuch if there
// is more; errAnswer if it is packed in an unknown way.
func (f *Fetcher) Get(ctx context.Context, path string, limit int64) (fetched, error) {
	return f.ask(ctx, f.path+path, "", limit)
}

// GetFrom is get of a URL, which may be another server's: that does not get the token.
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

// ask is get of a path of the server, with a media type to accept; "" is any.
func (f *Fetcher) ask(ctx context.Context, path, accept string, limit int64) (fetched, error) {
	return f.askOf(ctx, f.client, path, accept, limit)
}

func (f *Fetcher) askOf(ctx context.Context, from *client.Client, path, accept string, limit int64) (fetched, error) {
	request := client.Request{Path: path, MaxAnswer: limit + 1} // boundedBody ends it before
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

// want is get of what must be there. Of another status, the error says what the server
// says; one that is about who asks is errNoRight.
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
