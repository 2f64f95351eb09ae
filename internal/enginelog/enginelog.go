// Package enginelog hands the messages of an embedded Pebble database on to the
// program's log.
package enginelog

import (
	"fmt"
	"log/slog"
	"time"
)

// Logger implements Pebble's Logger.
type Logger struct {
	out      *slog.Logger
	name     string
	fatal    func(msg string)
	failures limiter
}

// New makes a Logger. fatal, which name names, ends the process and must not
// return: Pebble would go on as if the write that failed had succeeded.
func New(out *slog.Logger, name string, fatal func(msg string)) *Logger {
	return &Logger{out: out, name: name, fatal: fatal}
}

// Infof takes the engine's running commentary.
func (l *Logger) Infof(format string, args ...any) { l.out.Debug(fmt.Sprintf(format, args...)) }

// Errorf takes failures in the background, which the engine tries again at once
// and for as long as they last.
func (l *Logger) Errorf(format string, args ...any) {
	if ok, skipped := l.failures.pass(time.Now()); ok {
		l.out.Error(fmt.Sprintf(format, args...), "like_it_before", skipped)
	}
}

// Fatalf takes failures after which the engine's state is unknown. It does not
// return.
func (l *Logger) Fatalf(format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	l.fatal(msg)
	panic(l.name + " returned after: " + msg)
}
