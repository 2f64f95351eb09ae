package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
)

// FuzzKeys checks that cli.ParseKeys accepts a text only if it yields at least one key.
func FuzzKeys(f *testing.F) {
	f.Add("log.example.org+9c1d5f3e+AQ==\n\n")
	f.Add("PRIVATE+KEY+x")
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := cli.ParseKeys(text, "--key")
		require.Equal(t, err == nil, len(keys.Keys) > 0)
	})
}

// FuzzExpiry checks that an expiry given as a duration yields a time in the future.
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
