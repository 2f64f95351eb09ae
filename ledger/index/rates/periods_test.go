package rates_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger/index"
	"colophon/ledger/index/rates"
)

// If the query has no step, PeriodBoundaries divides any time range into at most 60 periods. Every
// boundary is a time that a timestamp can express.
func TestPeriodsOfAnyRange(t *testing.T) {
	at := func(text string) *time.Time {
		parsed, err := time.Parse(time.RFC3339Nano, text)
		require.NoError(t, err)
		return &parsed
	}
	first, last := "0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"
	for _, c := range []struct {
		since, until string
		step, want   int64 // a want of 0 accepts any step
	}{
		{"2026-01-01T00:00:00Z", "2026-01-01T00:00:59Z", 0, 1},
		{"2026-01-01T00:00:00.5Z", "2026-01-01T00:00:59.6Z", 0, 5},
		{"2026-01-01T00:00:00.5Z", "2026-01-01T00:00:59.5Z", 0, 1},
		{"2026-01-01T00:00:00Z", "2026-03-01T00:00:00Z", 0, 86400},
		{first, last, 0, 0},
		{"0001-01-01T00:00:00Z", last, 0, 0},
		{first, "0000-01-02T00:00:00Z", 0, 3600},
		{"9999-12-31T00:00:00Z", last, 0, 3600},
		{first, last, rates.MaxStepSeconds, rates.MaxStepSeconds},
		{last, last, rates.MaxStepSeconds, rates.MaxStepSeconds},
	} {
		t.Run(fmt.Sprint(c.since, c.until, c.step), func(t *testing.T) {
			times, step, err := rates.PeriodBoundaries(nil, rates.Query{TimeRange: index.TimeRange{Since: at(c.since), Until: at(c.until)}, StepSeconds: c.step})
			require.NoError(t, err)
			if c.want > 0 {
				require.Equal(t, c.want, step)
			}
			require.LessOrEqual(t, len(times), 61)
			require.False(t, times[0].After(*at(c.since)))
			require.False(t, times[len(times)-1].Before(*at(c.until)))
			for i, boundary := range times {
				require.True(t, boundary.Year() >= 0 && boundary.Year() <= 9999, "%s", boundary)
				require.True(t, i == 0 || times[i-1].Before(boundary), "%s", boundary)
			}
		})
	}
	_, _, err := rates.PeriodBoundaries(nil, rates.Query{TimeRange: index.TimeRange{Since: at(first), Until: at(last)}, StepSeconds: 86400})
	require.ErrorIs(t, err, rates.ErrTooManyPeriods)
}
