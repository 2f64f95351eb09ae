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

	"github.com/spf13/pflag"
)

const defaultServer = "http://127.0.0.1:8080"

// serverFlag is the flag of every command that talks to a server.
func serverFlag(c *console, flags *pflag.FlagSet, server *string) {
	flags.StringVar(server, "server", c.environment("COLOPHON_SERVER", defaultServer), "`URL` of the server, or COLOPHON_SERVER")
}

// client talks to one server.
type client struct {
	base string // without a slash at its end
	http *http.Client
}

// newClient makes a client of the server at that URL.
func newClient(server string) (*client, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, exitf(exitUsage, "--server: %q is not a URL like %s", server, defaultServer)
	}
	return &client{base: strings.TrimRight(server, "/"), http: &http.Client{}}, nil
}

// maxAnswer bounds an answer that is read as a whole, in bytes.
const maxAnswer = 16 << 20

// call makes a request with a JSON body, unless it is nil, and returns the
// answer's. The error is an exitError when no server answers, a *problem when it
// answers with one.
func (c *client) call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.unreachable(err)
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return nil, readProblem(response)
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, c.unreachable(err)
	}
	return answer, nil
}

// unreachable says that no server answers, and what to do.
func (c *client) unreachable(err error) error {
	return exitf(exitUnreachable, "%w\nIs the server running (colophon serve)? Name another with --server", c.noAnswer(err))
}

// noAnswer names the server instead of the request's URL.
func (c *client) noAnswer(err error) error {
	if cause := (*url.Error)(nil); errors.As(err, &cause) {
		err = cause.Err
	}
	return fmt.Errorf("no answer from the server at %s: %w", c.base, err)
}

// problem is an answer that says what is wrong (RFC 9457).
type problem struct {
	Status int     `json:"status"`
	Title  string  `json:"title"`
	Detail string  `json:"detail"`
	Errors []place `json:"errors"`
	// RetryAfter is what the server asked for, 0 if it did not.
	RetryAfter time.Duration `json:"-"`
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
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	if wait, err := time.ParseDuration(response.Header.Get("Retry-After") + "s"); err == nil {
		p.RetryAfter = wait
	}
	return p
}

// Error is the status and what is wrong: place by place if the problem names
// places, else as a whole.
func (p *problem) Error() string {
	switch {
	case len(p.Errors) > 0:
		parts := make([]string, len(p.Errors))
		for i, e := range p.Errors {
			parts[i] = e.String()
		}
		return fmt.Sprintf("%d %s", p.Status, strings.Join(parts, "; "))
	case p.Detail != "":
		return fmt.Sprintf("%d %s", p.Status, p.Detail)
	}
	return fmt.Sprintf("%d %s", p.Status, p.Title)
}

// temporary reports whether the same request may succeed later.
func (p *problem) temporary() bool {
	switch p.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
