package main

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how far a command has come, on a terminal; elsewhere nothing.
type progress struct {
	console *console
	bar     *progressbar.ProgressBar // nil where there is no terminal
}

// newProgress starts a bar that is full after total steps; -1 means that their
// number is not known.
func newProgress(c *console, total int64, what string, options ...progressbar.Option) *progress {
	file, ok := unfiltered(c.err).(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return &progress{console: c}
	}
	options = append([]progressbar.Option{
		progressbar.OptionSetWriter(file),
		progressbar.OptionSetDescription(what),
		progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionShowCount(),
		progressbar.OptionFullWidth(),
		progressbar.OptionClearOnFinish(),
	}, options...)
	return &progress{console: c, bar: progressbar.NewOptions64(total, options...)}
}

// add takes n steps.
func (p *progress) add(n int) {
	if p.bar != nil {
		_ = p.bar.Add(n) // a bar that cannot be drawn stops nothing
	}
}

// set goes to a step.
func (p *progress) set(n uint64) {
	if p.bar != nil {
		_ = p.bar.Set64(int64(n))
	}
}

// say writes a line in the bar's place.
func (p *progress) say(format string, args ...any) {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	p.console.say(format, args...)
}

// finish takes the bar away.
func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
