package main

import (
	"bytes"
	"encoding"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
)

// FuzzConfigurationFile: a configuration file is read, or what is wrong with it is
// said without Go's names.
func FuzzConfigurationFile(f *testing.F) {
	f.Add([]byte("listen: 127.0.0.1:80\ncache: 64MiB\nmax-page: 10\nlog-level: warn\nshutdown-limit: 3s\n"))
	f.Add([]byte("trusted-proxies: [10.0.0.0/8]\nallow-host: a,b\n---\nx"))
	f.Add([]byte("a: &a [*a, *a]\n"))
	f.Add([]byte("max-page: 1e99\ncache: -1\nrate-limit: .nan\n"))
	file := filepath.Join(f.TempDir(), "colophon.yaml")
	f.Fuzz(func(t *testing.T, text []byte) {
		require.NoError(t, os.WriteFile(file, text, 0o600))
		config := serveConfig{}.withDefaults()
		err := config.readFile(file)
		if err == nil {
			err = config.withDefaults().validate()
		}
		if err != nil && !bytes.Contains(text, []byte(" in")) { // which may be repeated
			require.NotRegexp(t, goType, err.Error())
		}
	})
}

// text is a value that is written as it is read.
type text interface {
	encoding.TextMarshaler
	encoding.TextUnmarshaler
}

// FuzzFlags: what a flag of our own kinds takes is what it shows, and shown again.
func FuzzFlags(f *testing.F) {
	for _, given := range []string{"64MiB", "1 TiB", "9223372036854775807", "a.example,b", "10.0.0.0/8, ::1", "warn+3", "90d", "12h", "2030-01-31T12:00:00Z"} {
		f.Add(given)
	}
	f.Fuzz(func(t *testing.T, given string) {
		for _, make := range []func() text{
			func() text { return new(cli.Size) }, func() text { return new(networks) }, func() text { return new(hostNames) }, func() text { return new(logLevel) },
		} {
			read, again := make(), make()
			if read.UnmarshalText([]byte(given)) != nil {
				continue
			}
			shown, err := read.MarshalText()
			require.NoError(t, err)
			require.NoError(t, again.UnmarshalText(shown), "%q is shown as %q", given, shown)
			require.Equal(t, read, again)
		}
		now := time.Unix(1e9, 0)
		if end, err := parseExpiry(given, now); err == nil && given != "" && !strings.Contains(given, "-") {
			require.True(t, end.After(now), end)
		}
	})
}

// FuzzKeys: a file of verifier keys has some, one a line, or is refused.
func FuzzKeys(f *testing.F) {
	f.Add("log.example.org+9c1d5f3e+AQ==\n\n")
	f.Add("PRIVATE+KEY+x")
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := cli.ParseKeys(text, "--key")
		require.Equal(t, err == nil, len(keys.Keys) > 0)
	})
}

// FuzzProblem: whatever a server, or something before it, answers in place of a
// success, there is something to say of it.
func FuzzProblem(f *testing.F) {
	f.Add(uint16(503), "1", []byte(`{"status":503,"title":"x","detail":"y","errors":[{"pointer":"/a","detail":"b"}]}`))
	f.Add(uint16(502), "Wed, 21 Oct 2015 07:28:00 GMT", []byte(`<html>`))
	f.Fuzz(func(t *testing.T, status uint16, wait string, body []byte) {
		response := &http.Response{StatusCode: int(status), Header: http.Header{"Retry-After": {wait}}, Body: io.NopCloser(bytes.NewReader(body))}
		p := readProblem(response)
		require.Equal(t, int(status), p.Status)
		require.NotEmpty(t, p.Error())
		require.GreaterOrEqual(t, p.RetryAfter, time.Duration(0))
	})
}
