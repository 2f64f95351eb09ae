// Package enginelog writes the messages of an embedded Pebble database to the program's log.
package enginelog

import (
	"fmt"
	"log/slog"
	"time"
)

// Logger implements Pebble's Logger interface.
type Logger struct {
	out      *slog.Logger
	name     string
	fatal    func(msg string)
	failures limiter
}

// New returns a Logger. fatal must stop the process and must not return, because otherwise Pebble
// would continue as if the failed write had succeeded. If fatal returns anyway, Fatalf panics with
// a message that begins with name.
func New(out *slog.Logger, name string, fatal func(msg string)) *Logger {
	return &Logger{out: out, name: name, fatal: fatal}
}

// Infof logs the engine's routine messages at debug level.
func (l *Logger) Infof(format string, args ...any) { l.out.Debug(fmt.Sprintf(format, args...)) }

// Errorf logs failures of background work. The engine retries failed work immediately and
// indefinitely, so Errorf logs at most one message per second.
func (l *Logger) Errorf(format string, args ...any) {
	if ok, skipped := l.failures.pass(time.Now()); ok {
		l.out.Error(fmt.Sprintf(format, args...), "skipped_before", skipped)
	}
}

// Fatalf stops the process, because the engine's state is unknown after a fatal error.
func (l *Logger) Fatalf(format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	l.fatal(msg)
	panic(l.name + " returned after: " + msg)
}
