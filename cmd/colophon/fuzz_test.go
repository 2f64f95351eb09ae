package main

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
)

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

// FuzzExpiry: an end of a token that is given as a span lies in the future.
func FuzzExpiry(f *testing.F) {
	for _, given := range []string{"90d", "12h", "2030-01-31T12:00:00Z"} {
		f.Add(given)
	}
	f.Fuzz(func(t *testing.T, given string) {
		now := time.Unix(1e9, 0)
		if end, err := parseExpiry(given, now); err == nil && given != "" && !strings.Contains(given, "-") {
			require.True(t, end.After(now), end)
		}
	})
}
