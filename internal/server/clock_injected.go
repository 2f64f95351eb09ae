//go:build injectedclock

package server

import (
	"os"
	"strings"
	"time"
)

// clock returns the current time plus the duration in the file that COLOPHON_TEST_CLOCK names.
// The tests of e2e/ha use it.
var clock = func() time.Time {
	text, _ := os.ReadFile(os.Getenv("COLOPHON_TEST_CLOCK")) // without the file, the clock is not ahead
	ahead, _ := time.ParseDuration(strings.TrimSpace(string(text)))
	return time.Now().Add(ahead)
}
