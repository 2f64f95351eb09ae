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

// Client talks to one server. It is safe for concurrent use.
type Client struct {
	base      string // without a slash at its end
	http      *http.Client
	token     string
	userAgent string
	timeout   time.Duration // of one attempt
	maxAnswer int64         // bytes
	retries   Retries
	keys      bool // writes get random idempotency keys
	verifiers map[string][]*proofs.Verifier

	// Replaced by tests.
	sleep func(context.Context, time.Duration) error
	now   func() time.Time

	// Ledgers lists and creates ledgers.
	Ledgers *LedgersService
	// Server has what concerns the server as a whole.
	Server *ServerService
}

// Retries says how a call is repeated. A call is repeated after a failed connection and after the statuses
// 408, 429, 502, 503 and 504, if repeating it is safe: it reads, or it has an idempotency key. The pause
// doubles each time, is spread by chance, and is not shorter than the server's Retry-After. If the server
// asks for more than Longest, the call returns the error at once.
type Retries struct {
	Attempts int           // in all; 1 or less: never repeat. Default 5
	First    time.Duration // the pause before the second attempt. Default 250 ms
	Longest  time.Duration // of all pauses. Default 30 s
	// Notify, if it is not nil, is called before each pause: with the error, the failures in a row so far, and the
	// length of the pause.
	Notify func(err error, failures int, pause time.Duration)
}

// Option changes a new client.
type Option func(*Client) error

// WithToken sends a bearer token: an API token or a token of an OIDC issuer. The token goes to the server's
// own address only. Use https if others can listen.
func WithToken(token string) Option {
	return func(c *Client) error {
		if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return errors.New("client: the token has to be one word of ASCII, as colophon token create prints it")
		}
		c.token = token
		return nil
	}
}

// WithHTTPClient uses the transport, jar and timeout of h. The client does not follow redirects, whatever
// h.CheckRedirect says. A timeout of h also ends batches and followers. If the transport, or a body that it
// returns, fails with an error that wraps [ErrAnswer], the call returns that error and is not repeated.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) error {
		c.http = new(*h)
		return nil
	}
}

// WithTLS sets certificate authorities and client certificates. It replaces the transport, so it
// cannot follow [WithHTTPClient].
func WithTLS(config *tls.Config) Option {
	return func(c *Client) error {
		if c.http.Transport != nil {
			return errors.New("client: WithTLS after WithHTTPClient; set TLSClientConfig of that client's transport")
		}
		c.http.Transport = transport(config.Clone())
		return nil
	}
}

// WithUserAgent names the program in the server's log. The default is colophon-go and the module's version.
func WithUserAgent(name string) Option {
	return func(c *Client) error {
		c.userAgent = name
		return nil
	}
}

// WithTimeout bounds each attempt of a call. The default is one minute; 0 means no bound. Of a batch it bounds how
// long a connection may neither take nor answer lines. It does not apply to followers, redactions,
// changes of many states and snapshots, which only their context ends.
func WithTimeout(d time.Duration) Option {
	return func(c *Client) error {
		c.timeout = d
		return nil
	}
}

// WithMaxAnswer bounds each answer, and each line of a stream, in bytes. The default is 64 MiB.
func WithMaxAnswer(bytes int64) Option {
	return func(c *Client) error {
		if bytes < 1 {
			return fmt.Errorf("client: WithMaxAnswer(%d): the bound has to be positive", bytes)
		}
		c.maxAnswer = bytes
		return nil
	}
}

// WithRetries replaces the default retries. Zero fields keep their defaults.
func WithRetries(r Retries) Option {
	return func(c *Client) error {
		if r.Attempts != 0 {
			c.retries.Attempts = r.Attempts
		}
		if r.First > 0 {
			c.retries.First = r.First
		}
		if r.Longest > 0 {
			c.retries.Longest = r.Longest
		}
		if r.Notify != nil {
			c.retries.Notify = r.Notify
		}
		return nil
	}
}

// WithoutIdempotencyKeys stops the client from adding random keys to writes without a key and a run_id. Such
// writes are then never repeated.
func WithoutIdempotencyKeys() Option {
	return func(c *Client) error {
		c.keys = false
		return nil
	}
}

// WithVerifierKeys verifies every receipt that a write on the ledger returns. The keys are verifier keys as
// colophon keys list prints them. Each counts without a bound, so give the newest key only. After a
// rotation has ended, receipts verify with the new key alone: see [LogService.Keys].
func WithVerifierKeys(ledger string, keys ...string) Option {
	return func(c *Client) error {
		var verifiers []*proofs.Verifier
		for _, key := range keys {
			v, err := proofs.ParseVerifier(strings.TrimSpace(key))
			if err != nil {
				return fmt.Errorf("client: verifier key of ledger %s: %w", ledger, err)
			}
			verifiers = append(verifiers, v)
		}
		return WithVerifiers(ledger, verifiers...)(c)
	}
}

// WithVerifiers is [WithVerifierKeys] for parsed keys. Bound a retired key with [proofs.Verifier.Until].
func WithVerifiers(ledger string, verifiers ...*proofs.Verifier) Option {
	return func(c *Client) error {
		if len(verifiers) == 0 {
			return fmt.Errorf("client: no verifier key for ledger %s", ledger)
		}
		c.verifiers[ledger] = slices.Clone(verifiers)
		return nil
	}
}

// New makes a client of the server at a URL such as https://ledger.example. It sends nothing.
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
		retries: Retries{Attempts: 5, First: 250 * time.Millisecond, Longest: 30 * time.Second}, keys: true,
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
	// A server that a redirect leads to must not get the token, nor a record twice.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.Ledgers, c.Server = &LedgersService{c}, &ServerService{c}
	return c, nil
}

// transport keeps up to 100 idle connections to the server, so that many goroutines can reuse them.
// The default is two.
func transport(config *tls.Config) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig, t.MaxIdleConnsPerHost = config, 100
	return t
}

// String names the server, and never shows the token.
func (c *Client) String() string { return "client of " + c.base }

// GoString never shows the token.
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

// pause waits after that many failures in a row. It returns an error, which includes the last failure, if there
// are to be no more attempts.
func (c *Client) pause(ctx context.Context, failures int, last error) error {
	if failures >= c.retries.Attempts {
		return last
	}
	wait := min(c.retries.First<<min(failures-1, 20), c.retries.Longest)
	wait = wait/2 + rand.N(wait/2+1) // #nosec G404 -- spreads retries
	if problem := (*Error)(nil); errors.As(last, &problem) {
		if problem.RetryAfter > c.retries.Longest {
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
		return fmt.Errorf("%w, while waiting to retry after: %w", err, last)
	}
	return nil
}
