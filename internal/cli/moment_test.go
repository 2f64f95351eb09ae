package cli_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"colophon/internal/cli"
)

func TestMoments(t *testing.T) {
	m := cli.TimeFlag{Now: func() time.Time { return time.Date(2026, 3, 10, 12, 0, 0, 0, time.FixedZone("", 3600)) }}
	for text, want := range map[string]string{
		"2026-01-02T15:04:05Z":      "2026-01-02T15:04:05Z",
		"2026-01-02T15:04:05+01:00": "2026-01-02T15:04:05+01:00",
		"2026-01-02":                "2026-01-02T00:00:00Z",
		"7d":                        "2026-03-03T11:00:00Z",
		"2w":                        "2026-02-24T11:00:00Z",
		"90m":                       "2026-03-10T09:30:00Z",
		"0s":                        "2026-03-10T11:00:00Z",
	} {
		assert.NoError(t, m.Set(text), text)
		assert.Equal(t, want, m.String(), text)
	}
	for _, text := range []string{"", "yesterday", "-7d", "-1h", "7", "1.5d", "2026-13-01", "99999999d", "d"} {
		assert.Error(t, m.Set(text), text)
	}
}
