//go:build !injectedclock

package server

import "time"

// clock returns the time of events; nil means time.Now. A build for tests replaces it.
var clock func() time.Time
