package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseExpiry(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"": {}, "90d": now.AddDate(0, 0, 90), "12h": now.Add(12 * time.Hour), "1h30m": now.Add(90 * time.Minute), "36500d": now.Add(36500 * 24 * time.Hour),
		"2030-01-31T12:00:00Z": time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC),
	} {
		got, err := parseExpiry(text, now)
		require.NoError(t, err, text)
		require.True(t, want.Equal(got), text)
	}
	for _, text := range []string{"0d", "-1d", "1.5d", "36501d", "99999999999999999999d", "d", "90", "0s", "-1h", "2030-01-31", "never"} {
		_, err := parseExpiry(text, now)
		require.ErrorContains(t, err, "is neither a duration", text)
	}
}
