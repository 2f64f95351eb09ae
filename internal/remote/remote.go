// Package remote connects a command to the server that its flags name, and says in the words of a command line why
// a server did not answer.
package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"colophon/client"
	"colophon/internal/cli"
	"colophon/internal/safefile"
)

// DefaultURL is the server that commands ask if none is named.
const DefaultURL = "http://127.0.0.1:8080"

// Options are the flags of every command that talks to a server. A token is no flag, since other users of a
// machine can read command lines.
type Options struct {
	URL       string
	TokenFile string // empty: the token is in COLOPHON_TOKEN, if there is one
	CAFile    string // PEM; empty: the system's authorities
}

// Bind adds the flags.
func (o *Options) Bind(c *cli.Console, flags *pflag.FlagSet) {
	flags.StringVar(&o.URL, "server", c.Environment("COLOPHON_SERVER", DefaultURL), "`URL` of the server, or COLOPHON_SERVER")
	o.BindCredentials(c, flags)
}

// BindCredentials adds the flags of a command that takes the URL in another way.
func (o *Options) BindCredentials(c *cli.Console, flags *pflag.FlagSet) {
	flags.StringVar(&o.TokenFile, "token-file", c.Environment("COLOPHON_TOKEN_FILE", ""), "`file` with the token to send, or COLOPHON_TOKEN_FILE; without one COLOPHON_TOKEN, if set, is the token itself")
	flags.StringVar(&o.CAFile, "ca-file", c.Environment("COLOPHON_CA_FILE", ""), "PEM `file` of the authorities to believe in place of the system's, or COLOPHON_CA_FILE")
}

// Server is a server and how it is reached.
type Server struct {
	*client.Client
	URL       string            // without a slash at its end
	Token     string            // empty if there is none
	CAFile    string            // for advice; empty: the system's authorities
	Transport http.RoundTripper // nil: a new one with the system's authorities
}

// Connect makes a client of the server. It sends nothing. The client does not repeat calls unless the options of
// the caller say so: a person who waits wants to see the error at once.
func (o Options) Connect(c *cli.Console, options ...client.Option) (*Server, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, cli.Exitf(cli.ExitUsage, "--server: %q is not a URL like %s", o.URL, DefaultURL)
	}
	if u.User != nil {
		return nil, cli.Exitf(cli.ExitUsage, "--server: the URL must not have a user and password; put a token into a file and name that with --token-file")
	}
	token, err := o.token(c)
	if err != nil {
		return nil, cli.Exitf(cli.ExitUsage, "%w", err)
	}
	if token != "" && u.Scheme == "http" && !cli.Loopback(u.Hostname()) {
		c.Say("warning: the token goes to %s unencrypted; use https where others can listen", u.Host)
	}
	transport, err := o.transport()
	if err != nil {
		return nil, cli.Exitf(cli.ExitUsage, "--ca-file: %w", err)
	}
	s := &Server{URL: strings.TrimRight(o.URL, "/"), Token: token, CAFile: o.CAFile, Transport: transport}
	if s.Client, err = s.NewClient(options...); err != nil {
		return nil, cli.Exitf(cli.ExitUsage, "--server: %w", err)
	}
	return s, nil
}

// NewClient makes another client of the same server, with the same token and transport.
func (s *Server) NewClient(options ...client.Option) (*client.Client, error) {
	all := []client.Option{client.WithRetries(client.Retries{Attempts: 1})}
	if s.Token != "" {
		all = append(all, client.WithToken(s.Token))
	}
	if s.Transport != nil {
		all = append(all, client.WithHTTPClient(&http.Client{Transport: s.Transport}))
	}
	return client.New(s.URL, append(all, options...)...)
}

// Anonymous returns the server as it is reached without a token.
func (s *Server) Anonymous() (*Server, error) {
	a := *s
	a.Token = ""
	var err error
	a.Client, err = a.NewClient()
	return &a, err
}

// token is the token to send; empty if there is none.
func (o Options) token(c *cli.Console) (string, error) {
	place, token := "COLOPHON_TOKEN", c.Environment("COLOPHON_TOKEN", "") // #nosec G101 -- the name of a variable
	if o.TokenFile != "" {
		text, err := readNamed(o.TokenFile)
		if err != nil {
			return "", fmt.Errorf("--token-file: %w", err)
		}
		place, token = "the file of --token-file", strings.TrimSpace(string(text))
		if token == "" {
			return "", fmt.Errorf("%s is empty", place)
		}
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s holds more than a token; it has to be one word, as colophon token create printed it", place)
	}
	return token, nil
}

// transport believes the authorities that the options name.
func (o Options) transport() (*http.Transport, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if o.CAFile == "" {
		return transport, nil
	}
	text, err := readNamed(o.CAFile)
	if err != nil {
		return nil, err
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", o.CAFile)
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}
	return transport, nil
}

// readNamed reads a file that the operator has named, unless other users can change it.
func readNamed(path string) ([]byte, error) {
	if err := safefile.CheckNamed(path, false); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// Ask makes a request that is answered with JSON, and decodes the answer. It also returns the answer as it came:
// what --json prints has the members that this version does not know. An error ends the command, as that of Exit.
func Ask[T any](ctx context.Context, s *Server, r client.Request) (value *T, text []byte, err error) {
	answer, err := s.Do(ctx, r)
	if err != nil {
		return nil, nil, s.Exit(err)
	}
	value = new(T)
	if err := json.Unmarshal(answer.Body, value); err != nil {
		return nil, nil, fmt.Errorf("reading the server's answer: %w", err)
	}
	return value, answer.Body, nil
}
