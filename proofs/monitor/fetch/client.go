package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"colophon/client"
	"colophon/proofs/audit"
)

// Limits for the responses of an untrusted server, which may respond slowly, endlessly, with
// extreme compression, or not at all.
const (
	MaxNoteBytes = 1 << 20 // maximum length of a signed note, in bytes

	maxHeaders    = 64 << 10 // maximum length of a response's headers, in bytes
	maxCompressed = 64 << 10 // a compressed body can exceed the decompressed limit by this many bytes
	maxProblem    = 64 << 10 // maximum length of the body of an unsuccessful response, in bytes

	maxAttempts  = 5                // number of attempts for one request
	longestPause = 30 * time.Second // maximum pause between two attempts
)

// Errors that requests can fail with. The errors returned by this package's functions wrap them.
var (
	// ErrTooLong means that a response body is longer than a valid one can be.
	ErrTooLong = errors.New("the response exceeds the maximum length of a valid response")
	// ErrMalformed means that a response does not have the required form.
	ErrMalformed = errors.New("the response is malformed")
	// ErrForbidden means that the token lacks a right that the request needs. The error
	// contains the server's message.
	ErrForbidden = errors.New("the token lacks the required scope")
)

// UnavailableError is an error that matches audit.ErrUnavailable and carries a reason.
type UnavailableError struct{ Reason error }

func (e UnavailableError) Error() string { return e.Reason.Error() }

// Unwrap returns the reason.
func (e UnavailableError) Unwrap() error { return e.Reason }

// Is reports whether target is audit.ErrUnavailable.
func (UnavailableError) Is(target error) bool { return target == audit.ErrUnavailable }

// Server describes how to reach a server.
type Server struct {
	URL   string // scheme, host, and path before /v1, without a trailing slash
	Token string // sent with every request, unless it is empty
	// Transport sends the requests; nil means http.DefaultTransport. The Client uses a copy of
	// an *http.Transport.
	Transport http.RoundTripper
	// AcceptCompression makes requests ask for compressed responses. It has an effect only with an
	// *http.Transport. If the server is on the same machine, compression costs more than all checks
	// of an audit.
	AcceptCompression bool
	// ExplainError, if not nil, rewrites errors from package client for users. The error that it
	// returns must wrap the original one.
	ExplainError func(error) error
}

// Client sends requests about one ledger to the ledger's server. It limits the duration of each
// request and the length of each response, before and after decompression. It retries a request if
// the server is temporarily unable to respond. A Client is safe for concurrent use.
type Client struct {
	server  Server
	client  *client.Client
	path    string        // path of the ledger
	timeout time.Duration // time limit for each attempt at a request
}

// New returns a client for a ledger, without sending a request. parallel is the maximum number of
// idle connections that the client keeps. timeout is the time limit for each attempt at a request.
func New(server Server, ledger string, timeout time.Duration, parallel int) (*Client, error) {
	if server.Transport == nil {
		server.Transport = http.DefaultTransport
	}
	if transport, ok := server.Transport.(*http.Transport); ok {
		transport = transport.Clone()
		transport.MaxIdleConnsPerHost = parallel
		transport.MaxResponseHeaderBytes = maxHeaders
		transport.DisableCompression = true // boundedBody decompresses and limits both lengths
		server.Transport = transport
	} else {
		server.AcceptCompression = false
	}
	c := &Client{server: server, path: "/v1/ledgers/" + url.PathEscape(ledger), timeout: timeout}
	var err error
	c.client, err = c.connect(server.URL, server.Token)
	return c, err
}

// connect returns a client for the given URL that bounds the length and the duration of each
// response.
func (c *Client) connect(url, token string) (*client.Client, error) {
	options := []client.Option{
		client.WithHTTPClient(&http.Client{Transport: &boundedTransport{c.server.Transport, c.server.AcceptCompression}}),
		client.WithTimeout(c.timeout),
		client.WithRetryPolicy(client.RetryPolicy{MaxAttempts: maxAttempts, FirstPause: max(1, min(250*time.Millisecond, c.timeout/4)), LongestPause: longestPause}),
	}
	if token != "" {
		options = append(options, client.WithToken(token))
	}
	return client.New(url, options...)
}

// URL returns the URL of the server.
func (c *Client) URL() string { return c.server.URL }

// Response is a complete response of the server.
type Response struct {
	Status     int // HTTP status
	Header     http.Header
	Body       []byte  // body of a successful response
	RedactedBy *uint64 // seq of the redacting event, if the server reported one
	ReadOnly   bool    // whether the server reported that it is read-only and that another server can answer
	Problem    string  // the error message if the status is not 200
}

// Request describes a request for Do to send. Path includes any query parameters.
type Request struct {
	Path             string // path below the ledger's URL
	RelativeToServer bool   // whether Path is relative to the server's URL rather than the ledger's
	Accept           string // media type; empty accepts any
	MaxBytes         int64  // maximum length of the response body after decompression
}

// Do sends a request. It returns the response whatever its status. The error wraps
// audit.ErrUnavailable if the server does not respond or is temporarily unable to respond,
// ErrTooLong if the body is longer than MaxBytes, or ErrMalformed if the body cannot be decoded.
func (c *Client) Do(ctx context.Context, r Request) (Response, error) {
	if !r.RelativeToServer {
		r.Path = c.path + r.Path
	}
	return c.do(ctx, c.client, r)
}

// Get calls Do for a path below the ledger's URL.
func (c *Client) Get(ctx context.Context, path string, maxBytes int64) (Response, error) {
	return c.Do(ctx, Request{Path: path, MaxBytes: maxBytes})
}

// GetURL calls Do for an absolute URL, which may be on another server. It sends the token only to
// the ledger's own server.
func (c *Client) GetURL(ctx context.Context, address string, maxBytes int64) (Response, error) {
	u, err := url.Parse(address)
	if err != nil {
		return Response{}, err
	}
	token := ""
	if own, err := url.Parse(c.server.URL); err == nil && own.Scheme == u.Scheme && own.Host == u.Host {
		token = c.server.Token
	}
	to, err := c.connect((&url.URL{Scheme: u.Scheme, Host: u.Host}).String(), token)
	if err != nil {
		return Response{}, err
	}
	return c.do(ctx, to, Request{Path: u.RequestURI(), MaxBytes: maxBytes})
}

func (c *Client) do(ctx context.Context, to *client.Client, r Request) (Response, error) {
	request := client.Request{Path: r.Path, MaxResponseBytes: r.MaxBytes + 1} // boundedBody enforces r.MaxBytes before this limit is reached
	if r.Accept != "" {
		request.Header = map[string]string{"Accept": r.Accept}
	}
	answer, err := to.Do(withLimit(ctx, r.MaxBytes), request)
	problem := (*client.Error)(nil)
	switch {
	case err == nil:
		got := Response{Status: answer.Status, Header: answer.Header, Body: answer.Body}
		if got.Status != http.StatusOK {
			got.Problem = fmt.Sprintf("the server returned %d %s", got.Status, http.StatusText(got.Status))
		}
		return got, nil
	case ctx.Err() != nil || errors.Is(err, ErrTooLong) || errors.Is(err, ErrMalformed):
		return Response{}, err
	case errors.As(err, &problem) && !problem.Temporary() && !errors.Is(err, client.ErrTLSMismatch):
		return Response{Status: problem.Status, Header: problem.Header, RedactedBy: problem.RedactedBy, ReadOnly: problem.ReadOnly, Problem: c.explained(err).Error()}, nil
	}
	return Response{}, UnavailableError{Reason: c.explained(err)}
}

func (c *Client) explained(err error) error {
	if c.server.ExplainError == nil {
		return err
	}
	return c.server.ExplainError(err)
}

// GetObject calls Get for an object that every log has, such as the checkpoint, and returns the
// response body. If the status is not 200, the error contains the server's message. If the token
// lacks the required right, the error wraps ErrForbidden.
func (c *Client) GetObject(ctx context.Context, path string, maxBytes int64) ([]byte, error) {
	answer, err := c.Get(ctx, path, maxBytes)
	if err != nil {
		return nil, err
	}
	switch answer.Status {
	case http.StatusOK:
		return answer.Body, nil
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, UnavailableError{Reason: &forbiddenError{answer.Problem}}
	}
	return nil, errors.New(answer.Problem)
}

// forbiddenError wraps ErrForbidden and contains the server's message.
type forbiddenError struct{ problem string }

func (e *forbiddenError) Error() string        { return e.problem }
func (e *forbiddenError) Is(target error) bool { return target == ErrForbidden }
