//go:build injectedclock

package server

import (
	"os"
	"strings"
	"time"
)

// clock returns the current time plus the duration in the file named by COLOPHON_TEST_CLOCK. The
// tests in e2e/ha use it.
var clock = func() time.Time {
	text, _ := os.ReadFile(os.Getenv("COLOPHON_TEST_CLOCK")) // if the file does not exist, the clock returns the current time
	ahead, _ := time.ParseDuration(strings.TrimSpace(string(text)))
	return time.Now().Add(ahead)
}
