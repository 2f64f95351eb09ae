//go:build !injectedclock

package server

import "time"

// clock returns the time that is recorded in new events. nil means time.Now. A test build replaces
// it.
var clock func() time.Time
