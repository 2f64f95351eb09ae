// Package cli provides the code that all commands share: the console, progress bars, tables, exit codes, and
// the parsing of flags, files, and keys.
package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// Console holds a command's standard streams and its environment.
type Console struct {
	In       io.Reader
	Out, Err io.Writer
	// LookupEnv looks up an environment variable, like os.LookupEnv.
	LookupEnv func(name string) (string, bool)
}

// New returns a console that escapes control characters in its output, because parts
// of the output come from servers and clients.
func New(in io.Reader, out, err io.Writer, env func(name string) (string, bool)) *Console {
	return &Console{In: in, Out: visibleWriter{out}, Err: visibleWriter{err}, LookupEnv: env}
}

// EnvOr returns the value of the environment variable name, or fallback if it is unset or empty.
func (c *Console) EnvOr(name, fallback string) string {
	if value, set := c.LookupEnv(name); set && value != "" {
		return value
	}
	return fallback
}

// PrintErrf writes one line to standard error, prefixed with the name of the program.
func (c *Console) PrintErrf(format string, args ...any) {
	fmt.Fprintf(c.Err, "colophon: "+format+"\n", args...)
}

// visibleWriter escapes characters that control a terminal or change the direction of its text. It writes
// control characters below U+0020 and invalid bytes in the form \x1b. It writes other characters as JSON
// escapes, in the form \u009b. The JSON that commands print keeps its meaning, because newlines and tabs are
// not escaped. Each Write must contain only complete characters. visibleWriter is safe for concurrent use if
// the underlying writer is.
type visibleWriter struct{ to io.Writer }

// Write implements io.Writer.
func (v visibleWriter) Write(text []byte) (int, error) {
	var shown []byte
	done := 0 // number of bytes of text that are already in shown
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

// escapeOf returns the escape sequence for a character that must not be printed unchanged, or ""
// for any other character. first is the first byte of the character. If the character is not valid
// UTF-8, only that byte is escaped.
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

// UnfilteredWriter returns the writer that a console's stream wraps, for example to find out
// whether it is a terminal.
func UnfilteredWriter(out io.Writer) io.Writer {
	if v, ok := out.(visibleWriter); ok {
		return v.to
	}
	return out
}

// UsesColors reports whether to print colors. It returns true if the output is a terminal and the
// user has not set NO_COLOR or set TERM to dumb.
func (c *Console) UsesColors() bool {
	file, is := UnfilteredWriter(c.Out).(*os.File)
	return is && term.IsTerminal(int(file.Fd())) && c.EnvOr("NO_COLOR", "") == "" && c.EnvOr("TERM", "") != "dumb"
}

// WarningLogger returns a logger that prints only warnings and errors.
func (c *Console) WarningLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(c.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
