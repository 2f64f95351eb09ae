package moment

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTimes(t *testing.T) {
	for text, want := range map[string]string{
		"2025-10-31T15:45:34-04:00":        "2025-10-31T19:45:34Z",
		"2016-12-31t23:59:60z":             "2017-01-01T00:00:00Z",
		"2024-02-29T00:00:00.123456789Z":   "2024-02-29T00:00:00.123456789Z",
		"2024-02-29T00:00:00.12345678999Z": "2024-02-29T00:00:00.123456789Z",
	} {
		at, ok := Parse([]byte(text))
		require.True(t, ok, text)
		require.Equal(t, want, at.Format(time.RFC3339Nano))
	}
	for _, text := range []string{"", "2025-10-31", "2025-10-31T15:45:34", "2025-10-31T15:45:34,5Z", "2025-10-31T5:45:34Z", "2025-10-31 15:45:34Z",
		"2025-13-01T00:00:00Z", "2025-02-29T00:00:00Z", "2025-01-01T24:00:00Z", "2025-01-01T00:60:00Z", "2025-01-01T00:00:61Z",
		"2025-01-01T00:00:60Z", "2025-01-01T00:00:00+24:00", "2025-01-01T00:00:00+1:00", "2025-01-01T00:00:00.Z", "2025-01-01T00:00:00Zx"} {
		_, ok := Parse([]byte(text))
		require.False(t, ok, text)
	}
}

// parseDate accepts the same dates as time.Parse, and returns the same results.
func TestParseDate(t *testing.T) {
	for _, year := range []string{"0000", "0004", "1900", "2000", "2023", "2024", "9999", "20x4", "+024"} {
		for month := range 100 {
			for day := range 100 {
				text := fmt.Sprintf("%s-%02d-%02d", year, month, day)
				want, err := time.Parse(time.DateOnly, text)
				got, ok := parseDate([]byte(text))
				require.Equal(t, err == nil, ok, text)
				if ok {
					require.True(t, want.Equal(got), text)
				}
			}
		}
	}
	for _, text := range []string{"2024/01/01", "2024-01:01", "2024-1-001"} {
		_, ok := parseDate([]byte(text))
		require.False(t, ok, text)
	}
}
