// Package remote connects a command to the server that the command's flags specify. It
// explains errors from the server and the connection to users of the command line.
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
	"colophon/ledger"
)

// DefaultURL is the default of --server.
const DefaultURL = "http://127.0.0.1:8080"

// Options contains the flags that all commands that connect to a server share. There is no
// flag for a token, because other users of the machine can read command lines.
type Options struct {
	URL       string // URL of the server
	TokenFile string // if empty, the token comes from COLOPHON_TOKEN, if set
	CAFile    string // PEM file of the authorities to trust; if empty, the system's authorities are trusted
}

// Bind adds the flags to a command. The default of each flag is the value of the environment
// variable named in its help text.
func (o *Options) Bind(c *cli.Console, flags *pflag.FlagSet) {
	flags.StringVar(&o.URL, "server", c.EnvOr("COLOPHON_SERVER", DefaultURL), "`URL` of the server, or COLOPHON_SERVER")
	o.BindCredentials(c, flags)
}

// BindLedgerFlag adds the --ledger flag to a command. Its default is the value of COLOPHON_LEDGER, as in the client
// libraries.
func BindLedgerFlag(c *cli.Console, flags *pflag.FlagSet, name *string) {
	flags.StringVar(name, "ledger", c.EnvOr("COLOPHON_LEDGER", ledger.DefaultName), "`name` of the ledger, or COLOPHON_LEDGER")
}

// BindCredentials adds all flags that Bind adds, except --server. It is for commands that
// accept the URL as an argument.
func (o *Options) BindCredentials(c *cli.Console, flags *pflag.FlagSet) {
	flags.StringVar(&o.TokenFile, "token-file", c.EnvOr("COLOPHON_TOKEN_FILE", ""), "`file` with the token to send, or COLOPHON_TOKEN_FILE; without a file, COLOPHON_TOKEN, if set, is the token itself")
	flags.StringVar(&o.CAFile, "ca-file", c.EnvOr("COLOPHON_CA_FILE", ""), "PEM `file` of the CAs to trust in place of the system's, or COLOPHON_CA_FILE")
}

// Connection is a client for one server, together with the settings for connecting to it.
type Connection struct {
	*client.Client
	URL       string            // without a trailing slash
	Token     string            // empty if there is none
	CAFile    string            // for error messages; empty if the system's authorities are trusted
	Transport http.RoundTripper // if nil, a new transport that trusts the system's authorities is used
}

// Connect returns a client for the server. It sends no request. The client does not retry unless
// options enable retries, because a user at a terminal should see the error at once.
func (o Options) Connect(c *cli.Console, options ...client.Option) (*Connection, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, cli.ExitErrorf(cli.ExitUsage, "--server: invalid value %q; use a URL such as %s", o.URL, DefaultURL)
	}
	if u.User != nil {
		return nil, cli.ExitErrorf(cli.ExitUsage, "--server: the URL must not contain a user name or password; put the token into a file and name that file with --token-file")
	}
	token, err := o.token(c)
	if err != nil {
		return nil, cli.ExitErrorf(cli.ExitUsage, "%w", err)
	}
	if token != "" && u.Scheme == "http" && !cli.IsLoopback(u.Hostname()) {
		c.PrintErrf("warning: the token is sent to %s unencrypted; use https if others can read the traffic", u.Host)
	}
	transport, err := o.transport()
	if err != nil {
		return nil, cli.ExitErrorf(cli.ExitUsage, "--ca-file: %w", err)
	}
	s := &Connection{URL: strings.TrimRight(o.URL, "/"), Token: token, CAFile: o.CAFile, Transport: transport}
	if s.Client, err = s.NewClient(options...); err != nil {
		return nil, cli.ExitErrorf(cli.ExitUsage, "--server: %w", err)
	}
	return s, nil
}

// NewClient returns another client for the same server, with the same token and transport.
func (s *Connection) NewClient(options ...client.Option) (*client.Client, error) {
	all := []client.Option{client.WithRetryPolicy(client.RetryPolicy{MaxAttempts: 1})}
	if s.Token != "" {
		all = append(all, client.WithToken(s.Token))
	}
	if s.Transport != nil {
		all = append(all, client.WithHTTPClient(&http.Client{Transport: s.Transport}))
	}
	return client.New(s.URL, append(all, options...)...)
}

// WithoutToken returns a copy of s that sends no token.
func (s *Connection) WithoutToken() (*Connection, error) {
	a := *s
	a.Token = ""
	var err error
	a.Client, err = a.NewClient()
	return &a, err
}

// token returns the token to send, or "" if there is none.
func (o Options) token(c *cli.Console) (string, error) {
	place, token := "COLOPHON_TOKEN", c.EnvOr("COLOPHON_TOKEN", "") // #nosec G101 -- the name of a variable
	if o.TokenFile != "" {
		text, err := readNamed(o.TokenFile)
		if err != nil {
			return "", fmt.Errorf("--token-file: %w", err)
		}
		place, token = "the file named by --token-file", strings.TrimSpace(string(text))
		if token == "" {
			return "", fmt.Errorf("%s is empty", place)
		}
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s contains more than a token; it must contain only the token, as printed by colophon token create", place)
	}
	return token, nil
}

// transport returns a transport that trusts only the authorities in --ca-file. Without that
// flag, it trusts the system's authorities.
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
		return nil, fmt.Errorf("%s contains no PEM certificate", o.CAFile)
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}
	return transport, nil
}

// readNamed reads a file that was named by a flag. It returns an error if anyone can write to the
// file.
func readNamed(path string) ([]byte, error) {
	if err := safefile.CheckUserFile(path, false); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// DoJSON sends a request and decodes the JSON response body. text is the undecoded body. --json
// prints text, so that the output includes members that this version does not know. If the request
// fails, DoJSON passes the error through Connection.ExplainFatal.
func DoJSON[T any](ctx context.Context, s *Connection, r client.Request) (value *T, text []byte, err error) {
	answer, err := s.Do(ctx, r)
	if err != nil {
		return nil, nil, s.ExplainFatal(err)
	}
	value = new(T)
	if err := json.Unmarshal(answer.Body, value); err != nil {
		return nil, nil, fmt.Errorf("decoding the server's response: %w", err)
	}
	return value, answer.Body, nil
}
