package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// TimeFlag is a flag whose value is a time. It accepts RFC 3339, a date (midnight UTC), and a
// duration such as 7d, which is subtracted from the current time. String returns the time in RFC
// 3339.
type TimeFlag struct {
	text string
	Now  func() time.Time // returns the current time
}

// AddTimeFlag adds a TimeFlag, and appends the accepted formats to its usage.
func AddTimeFlag(flags *pflag.FlagSet, name, usage string) {
	flags.Var(&TimeFlag{Now: time.Now}, name, usage+": RFC 3339, a date, or a duration before now, such as 7d or 12h")
}

// Set implements pflag.Value.
func (m *TimeFlag) Set(text string) error {
	if _, err := time.Parse(time.RFC3339Nano, text); err == nil {
		m.text = text
		return nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		m.text = day.Format(time.RFC3339)
		return nil
	}
	if ago, ok := duration(text); ok {
		m.text = m.Now().Add(-ago).UTC().Format(time.RFC3339Nano)
		return nil
	}
	return fmt.Errorf("%q is not a time; use a form such as 2026-01-02T15:04:05Z, 2026-01-02, 7d, or 12h", text)
}

// duration parses a duration in Go's syntax, or a number of days or weeks such as 7d or 2w.
func duration(text string) (time.Duration, bool) {
	for unit, hours := range map[string]float64{"d": 24, "w": 7 * 24} {
		if number, found := strings.CutSuffix(text, unit); found {
			n, err := strconv.ParseUint(number, 10, 16)
			return time.Duration(float64(n) * hours * float64(time.Hour)), err == nil
		}
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= 0
}

// String implements pflag.Value.
func (m *TimeFlag) String() string { return m.text }

// Type implements pflag.Value.
func (m *TimeFlag) Type() string { return "time" }
