package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"colophon/proofs"
)

// Client calls the API of a single server. It is safe for concurrent use.
type Client struct {
	base       string // without a trailing slash
	http       *http.Client
	token      string
	userAgent  string
	timeout    time.Duration // per attempt
	maxAnswer  int64         // maximum length of a response body or line, in bytes
	retries    RetryPolicy
	randomKeys bool // generate a random idempotency key for each write that has neither a key nor a run_id
	verifiers  map[string][]*proofs.Verifier

	// Tests replace sleep and now.
	sleep func(context.Context, time.Duration) error
	now   func() time.Time

	// Ledgers lists and creates ledgers.
	Ledgers *LedgersService
	// Server provides the calls that do not concern a single ledger.
	Server *ServerService
}

// RetryPolicy controls how calls are repeated. The client repeats a call after a failed connection or a response with
// status 408, 429, 502, 503, or 504, but only if the call is a read, or a write with an idempotency key or a
// run_id. The pause between attempts doubles each time and has random jitter, but is never shorter than the
// server's Retry-After. If Retry-After is longer than LongestPause, the call returns the error at once.
type RetryPolicy struct {
	MaxAttempts  int           // maximum number of attempts; 1 means that calls are never repeated; default 5
	FirstPause   time.Duration // maximum pause before the second attempt, unless Retry-After is longer; default 250 ms
	LongestPause time.Duration // maximum pause before any attempt; default 30 s
	// Notify, if it is not nil, is called before each pause, with the last error, the number of consecutive failures,
	// and the length of the pause.
	Notify func(err error, failures int, pause time.Duration)
}

// Option configures a new client.
type Option func(*Client) error

// WithToken makes the client send a bearer token: an API token or a token from an OIDC issuer. The client sends
// the token only to the server's address. Use https unless the network is trusted.
func WithToken(token string) Option {
	return func(c *Client) error {
		if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return errors.New("client: the token must be ASCII without spaces or line breaks, as colophon token create prints it")
		}
		c.token = token
		return nil
	}
}

// WithHTTPClient makes the client use the transport, cookie jar and timeout of h. The client never follows redirects,
// even if h.CheckRedirect permits them. A timeout in h also limits batches and streams of events. If the transport
// fails with an error that wraps [ErrUnexpectedResponse], the call returns that error and is not repeated. The same
// applies if reading a response body fails with such an error.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) error {
		c.http = new(*h)
		return nil
	}
}

// WithTLSConfig sets certificate authorities and client certificates. It replaces the transport, so
// it cannot be used after [WithHTTPClient].
func WithTLSConfig(config *tls.Config) Option {
	return func(c *Client) error {
		if c.http.Transport != nil {
			return errors.New("client: WithTLSConfig cannot be used after WithHTTPClient; set TLSClientConfig in the transport of that HTTP client")
		}
		c.http.Transport = transport(config.Clone())
		return nil
	}
}

// WithUserAgent sets the program name that the client sends as User-Agent and that appears in the server's log. The
// default is "colophon-go/" followed by the module's version.
func WithUserAgent(name string) Option {
	return func(c *Client) error {
		c.userAgent = name
		return nil
	}
}

// WithTimeout limits the time of each attempt of a call. The default is one minute; 0 means no limit. For a batch, it
// limits how long the server can go without reading or answering a line. For events and exports, it limits the time until
// the response begins, and then each wait for more of it. It does not apply to redactions, bulk state changes, or
// snapshots; their duration is limited only by the context.
func WithTimeout(d time.Duration) Option {
	return func(c *Client) error {
		c.timeout = d
		return nil
	}
}

// WithMaxResponseBytes limits the length of each response body, and of each line of a stream, in bytes. The default is 64
// MiB.
func WithMaxResponseBytes(bytes int64) Option {
	return func(c *Client) error {
		if bytes < 1 {
			return fmt.Errorf("client: WithMaxResponseBytes(%d): the limit must be positive", bytes)
		}
		c.maxAnswer = bytes
		return nil
	}
}

// WithRetryPolicy replaces the default retries. Zero fields of r keep their defaults.
func WithRetryPolicy(r RetryPolicy) Option {
	return func(c *Client) error {
		if r.MaxAttempts != 0 {
			c.retries.MaxAttempts = r.MaxAttempts
		}
		if r.FirstPause > 0 {
			c.retries.FirstPause = r.FirstPause
		}
		if r.LongestPause > 0 {
			c.retries.LongestPause = r.LongestPause
		}
		if r.Notify != nil {
			c.retries.Notify = r.Notify
		}
		return nil
	}
}

// WithoutIdempotencyKeys stops the client from adding random keys to writes that have neither a key nor a run_id. The
// client then never repeats such writes.
func WithoutIdempotencyKeys() Option {
	return func(c *Client) error {
		c.randomKeys = false
		return nil
	}
}

// WithVerifierKeys makes the client verify every receipt that a write to the ledger returns. Give the keys in the
// form printed by colophon keys list. The client trusts each key for trees of any size, so pass only the newest
// key. After a rotation has ended, receipts verify with the new key only: see [LogService.Keys].
func WithVerifierKeys(ledger string, keys ...string) Option {
	return func(c *Client) error {
		var verifiers []*proofs.Verifier
		for _, key := range keys {
			v, err := proofs.ParseVerifier(strings.TrimSpace(key))
			if err != nil {
				return fmt.Errorf("client: parsing a verifier key of ledger %s: %w", ledger, err)
			}
			verifiers = append(verifiers, v)
		}
		return WithVerifiers(ledger, verifiers...)(c)
	}
}

// WithVerifiers is like [WithVerifierKeys], but accepts parsed keys. To limit the tree sizes for
// which a retired key is trusted, use [proofs.Verifier.WithRetirement].
func WithVerifiers(ledger string, verifiers ...*proofs.Verifier) Option {
	return func(c *Client) error {
		if len(verifiers) == 0 {
			return fmt.Errorf("client: WithVerifiers has no key for ledger %s; pass at least one", ledger)
		}
		c.verifiers[ledger] = slices.Clone(verifiers)
		return nil
	}
}

// New returns a client for the server at the given URL, such as https://ledger.example. It makes no
// request.
func New(server string, options ...Option) (*Client, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("client: %q is not the URL of a server, such as https://ledger.example", server)
	}
	if u.User != nil {
		return nil, errors.New("client: the server's URL must not have a user and password; use WithToken")
	}
	c := &Client{
		base: strings.TrimRight(u.String(), "/"), http: new(http.Client), userAgent: userAgent(), timeout: time.Minute, maxAnswer: 64 << 20,
		retries: RetryPolicy{MaxAttempts: 5, FirstPause: 250 * time.Millisecond, LongestPause: 30 * time.Second}, randomKeys: true,
		verifiers: make(map[string][]*proofs.Verifier), sleep: sleep, now: time.Now,
	}
	for _, option := range options {
		if err := option(c); err != nil {
			return nil, err
		}
	}
	if c.http.Transport == nil {
		c.http.Transport = transport(nil)
	}
	// If the client followed a redirect, it could send the token, or send a record a second time, to another server.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.Ledgers, c.Server = &LedgersService{c}, &ServerService{c}
	return c, nil
}

// transport returns a transport that keeps up to 100 idle connections to the server, so that many goroutines can
// reuse them. The net/http default is two.
func transport(config *tls.Config) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig, t.MaxIdleConnsPerHost = config, 100
	return t
}

// String returns a description that names the server but does not contain the token.
func (c *Client) String() string { return "client of " + c.base }

// GoString returns the same as String, so that %#v does not print the token.
func (c *Client) GoString() string { return c.String() }

func userAgent() string {
	version := "devel"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range append(info.Deps, &info.Main) {
			if module.Path == "colophon" && module.Version != "" {
				version = strings.Trim(module.Version, "()")
			}
		}
	}
	return "colophon-go/" + version
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pause waits before the next attempt. failures is the number of consecutive failures. If no attempt may follow,
// pause returns last, or an error that wraps it.
func (c *Client) pause(ctx context.Context, failures int, last error) error {
	if failures >= c.retries.MaxAttempts {
		return last
	}
	wait := min(c.retries.FirstPause<<min(failures-1, 20), c.retries.LongestPause)
	wait = wait/2 + rand.N(wait/2+1) // #nosec G404 -- only spreads retries
	if problem := (*Error)(nil); errors.As(last, &problem) {
		if problem.RetryAfter > c.retries.LongestPause {
			return last
		}
		wait = max(wait, problem.RetryAfter)
	}
	if deadline, ok := ctx.Deadline(); ok && deadline.Sub(c.now()) < wait {
		return last
	}
	if c.retries.Notify != nil {
		c.retries.Notify(last, failures, wait)
	}
	if err := c.sleep(ctx, wait); err != nil {
		return fmt.Errorf("%w while waiting to retry a failed request: %w", err, last)
	}
	return nil
}
