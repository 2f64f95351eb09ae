package cli

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Progress shows the progress of a command on a terminal. If standard error is not a terminal, it
// shows nothing.
type Progress struct {
	console *Console
	bar     *progressbar.ProgressBar // nil if standard error is not a terminal
}

// NewProgress starts a progress bar that is full after total steps. If total is -1, the number of
// steps is unknown.
func NewProgress(c *Console, total int64, description string, options ...progressbar.Option) *Progress {
	file, ok := UnfilteredWriter(c.Err).(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return &Progress{console: c}
	}
	options = append([]progressbar.Option{
		progressbar.OptionSetWriter(file),
		progressbar.OptionSetDescription(description),
		progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionShowCount(),
		progressbar.OptionFullWidth(),
		progressbar.OptionClearOnFinish(),
	}, options...)
	return &Progress{console: c, bar: progressbar.NewOptions64(total, options...)}
}

// Add advances the bar by n steps.
func (p *Progress) Add(n int) {
	if p.bar != nil {
		_ = p.bar.Add(n) // a failure to draw the bar must not stop the command
	}
}

// Set moves the bar to step n.
func (p *Progress) Set(n uint64) {
	if p.bar != nil {
		_ = p.bar.Set64(int64(n))
	}
}

// SetDescription changes the text in front of the bar.
func (p *Progress) SetDescription(description string) {
	if p.bar != nil {
		p.bar.Describe(description)
	}
}

// Clear removes the bar until the next step, so that other lines can be printed.
func (p *Progress) Clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

// Printf prints a line above the bar.
func (p *Progress) Printf(format string, args ...any) {
	p.Clear()
	p.console.PrintErrf(format, args...)
}

// Finish removes the bar.
func (p *Progress) Finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
