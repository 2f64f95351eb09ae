package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"colophon/internal/cli"
	"colophon/internal/remote"
)

// client talks to one server.
type httpClient struct {
	base  string   // without a slash at its end
	home  *url.URL // where the token is for; nil where there is none
	token string   // empty if there is none
	// caFile has the authorities that are believed; empty means the system's.
	caFile string
	http   *http.Client
}

// newClient makes a client of the server that the options name.
func newClient(c *cli.Console, o remote.Options) (*httpClient, error) {
	server, err := o.Connect(c)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(server.URL)
	if err != nil {
		return nil, err
	}
	return &httpClient{base: server.URL, home: u, token: server.Token, caFile: o.CAFile, http: &http.Client{
		Transport: server.Transport,
		// Whoever answers instead of the server must not have the token.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// do sends a request, with the token if there is one and the request is to the server
// that it is for.
func (c *httpClient) do(request *http.Request) (*http.Response, error) {
	if c.token != "" && request.URL.Scheme == c.home.Scheme && request.URL.Host == c.home.Host {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	return c.http.Do(request)
}

// maxAnswer bounds an answer that is read as a whole, in bytes.
const maxAnswer = 16 << 20

// call makes a request with a JSON body, unless it is nil, and returns the
// answer's, which must come within a minute. The error is an ExitError when no
// server answers, a *problem when it answers with one.
func (c *httpClient) call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return c.send(ctx, method, path, body)
}

// send is call for a request that may take as long as ctx allows.
func (c *httpClient) send(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.do(request)
	if err != nil {
		return nil, c.unreachable(err)
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return nil, c.refused(response)
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, c.unreachable(err)
	}
	return answer, nil
}

// refused is what is wrong by an answer that is no success, and what to do about
// it where the server cannot know.
func (c *httpClient) refused(response *http.Response) *problem {
	p := readProblem(response)
	switch {
	case p.Status == http.StatusUnauthorized && c.token == "":
		p.Detail = "the server wants a token: put one into COLOPHON_TOKEN, or into a file and name that with --token-file; " +
			"whoever runs the server makes it with colophon token create"
	case p.Status == http.StatusUnauthorized:
		p.Detail = "the server does not take the token: it is unknown there, revoked or expired; " +
			"whoever runs the server makes another with colophon token create"
	case p.plainHTTP:
		p.Detail = c.useTLS()
	case p.Status/100 == 3:
		p.Detail = fmt.Sprintf("%s leads to %s; name that with --server if it is the server", c.base, response.Header.Get("Location"))
	}
	return p
}

// orNoGrant is what else an answer may mean that there is no such ledger.
func (c *httpClient) orNoGrant() string {
	if c.token == "" {
		return ""
	}
	return ", or none that the token has a grant on"
}

// unreachable says that no server answers, and what to do.
func (c *httpClient) unreachable(err error) error {
	if answer := c.noAnswer(err); misdirected(answer) {
		return cli.Exitf(cli.ExitUnreachable, "%w", answer)
	}
	return cli.Exitf(cli.ExitUnreachable, "%w\nIs the server running (colophon serve)? Name another with --server", c.noAnswer(err))
}

// noAnswer names the server instead of the request's URL, and says what to do where the
// cause is known: misdirected reports true then.
func (c *httpClient) noAnswer(err error) error {
	if cause := (*url.Error)(nil); errors.As(err, &cause) {
		err = cause.Err
	}
	answer := fmt.Errorf("no answer from the server at %s: %w", c.base, err)
	if advice := c.advice(err); advice != "" {
		return misdirectedError{answer, advice}
	}
	return answer
}

// problem is an answer that says what is wrong (RFC 9457).
type problem struct {
	Status int     `json:"status"`
	Title  string  `json:"title"`
	Detail string  `json:"detail"`
	Errors []place `json:"errors"`
	// RetryAfter is what the server asked for, 0 if it did not.
	RetryAfter time.Duration `json:"-"`
	// plainHTTP: the server speaks TLS, and was asked without.
	plainHTTP bool
}

// place says what is wrong at one JSON pointer of the request.
type place struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

// String is the pointer, unless it means the whole request, and the detail.
func (p place) String() string {
	if p.Pointer == "" {
		return p.Detail
	}
	return p.Pointer + ": " + p.Detail
}

// readProblem reads an answer that is no success. One without problem+json, from
// something between here and the server, has its status alone.
func readProblem(response *http.Response) *problem {
	p := &problem{}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil || json.Unmarshal(text, p) != nil {
		p = &problem{}
	}
	p.Status = response.StatusCode
	p.plainHTTP = p.Status == http.StatusBadRequest && (bytes.HasPrefix(text, []byte("Client sent an HTTP request to an HTTPS server")) ||
		bytes.Contains(text, []byte("The plain HTTP request was sent to HTTPS port"))) // of nginx
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	if wait, err := time.ParseDuration(response.Header.Get("Retry-After") + "s"); err == nil {
		p.RetryAfter = wait
	}
	return p
}

// Error is the status and what is wrong: place by place if the problem names
// places, else as a whole. It is one line, so that no server can write other lines.
func (p *problem) Error() string {
	text := p.Title
	switch {
	case len(p.Errors) > 0:
		parts := make([]string, len(p.Errors))
		for i, e := range p.Errors {
			parts[i] = e.String()
		}
		text = strings.Join(parts, "; ")
	case p.Detail != "":
		text = p.Detail
	}
	return fmt.Sprintf("%d %s", p.Status, strings.ReplaceAll(text, "\n", `\n`))
}

// temporary reports whether the same request may succeed later.
func (p *problem) temporary() bool {
	switch p.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
