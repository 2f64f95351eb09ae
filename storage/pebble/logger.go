package pebble

import (
	"fmt"
	"log/slog"
	"time"

	"colophon/internal/quiet"
)

// logger hands Pebble's messages on. It implements Pebble's Logger.
type logger struct {
	out      *slog.Logger
	fatal    func(msg string)
	failures quiet.Limiter
}

// Infof takes the engine's running commentary.
func (l *logger) Infof(format string, args ...any) { l.out.Debug(fmt.Sprintf(format, args...)) }

// Errorf takes failures in the background, which the engine tries again at once
// and for as long as they last.
func (l *logger) Errorf(format string, args ...any) {
	if ok, skipped := l.failures.Pass(time.Now()); ok {
		l.out.Error(fmt.Sprintf(format, args...), "like_it_before", skipped)
	}
}

// Fatalf takes failures after which the engine's state is unknown. It does not
// return: the engine would go on as if the write had succeeded.
func (l *logger) Fatalf(format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	l.fatal(msg)
	panic("storage/pebble: Config.Fatal returned after: " + msg)
}
