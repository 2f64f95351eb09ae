// Package cli is what every command shares: the console, the progress bar, tables, the
// reading of flags, files and keys, and the exit codes.
package cli

import (
	"fmt"
	"io"
	"log/slog"
	"unicode"
	"unicode/utf8"
)

// Console is what a command has of the world around it.
type Console struct {
	In       io.Reader
	Out, Err io.Writer
	// Env looks up an environment variable, like os.LookupEnv.
	Env func(name string) (string, bool)
}

// New is a console on whose terminal nothing is obeyed that servers and clients
// have put into what is shown.
func New(in io.Reader, out, err io.Writer, env func(name string) (string, bool)) *Console {
	return &Console{In: in, Out: visibleWriter{out}, Err: visibleWriter{err}, Env: env}
}

// Environment is the value of a variable, fallback if it is unset or empty.
func (c *Console) Environment(name, fallback string) string {
	if value, set := c.Env(name); set && value != "" {
		return value
	}
	return fallback
}

// Say writes one line to the standard error.
func (c *Console) Say(format string, args ...any) {
	fmt.Fprintf(c.Err, "colophon: "+format+"\n", args...)
}

// visibleWriter writes what a terminal would obey, or would show in another order than it
// is in, as escapes: \x1b, and from U+007F on as JSON has them, \u009b. JSON, which has no
// raw character below that but for newlines, stays JSON of the same values. Each write is
// of whole characters. It is safe for concurrent use if what it writes to is.
type visibleWriter struct{ to io.Writer }

// Write implements io.Writer.
func (v visibleWriter) Write(text []byte) (int, error) {
	var shown []byte
	done := 0 // bytes of text that are in shown
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		if escape := escapeOf(r, text[at], size); escape != "" {
			shown = append(append(shown, text[done:at]...), escape...)
			done = at + size
		}
		at += size
	}
	if done == 0 {
		return v.to.Write(text)
	}
	if _, err := v.to.Write(append(shown, text[done:]...)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// escapeOf is how a character is shown that must not be written; empty for others. first
// is its first byte, which is all of it where it is no UTF-8.
func escapeOf(r rune, first byte, size int) string {
	switch {
	case r == utf8.RuneError && size == 1:
		return fmt.Sprintf("\\x%02x", first)
	case r == '\n' || r == '\t':
		return ""
	case r < ' ':
		return fmt.Sprintf("\\x%02x", r)
	case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
		return fmt.Sprintf("\\u%04x", r)
	}
	return ""
}

// Unfiltered is what a console's writer writes to: for what is a terminal's own.
func Unfiltered(out io.Writer) io.Writer {
	if v, ok := out.(visibleWriter); ok {
		return v.to
	}
	return out
}

// Warnings is the log of commands that have little to say.
func (c *Console) Warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(c.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
