//go:build !injectedclock

package server

import "time"

// clock returns the time of events; nil means time.Now. A build for tests has another one.
var clock func() time.Time
