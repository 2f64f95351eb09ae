package cli

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Progress shows how far a command has come, on a terminal; elsewhere nothing.
type Progress struct {
	console *Console
	bar     *progressbar.ProgressBar // nil where there is no terminal
}

// NewProgress starts a bar that is full after total steps; -1 means that their
// number is not known.
func NewProgress(c *Console, total int64, what string, options ...progressbar.Option) *Progress {
	file, ok := Unfiltered(c.Err).(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return &Progress{console: c}
	}
	options = append([]progressbar.Option{
		progressbar.OptionSetWriter(file),
		progressbar.OptionSetDescription(what),
		progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionShowCount(),
		progressbar.OptionFullWidth(),
		progressbar.OptionClearOnFinish(),
	}, options...)
	return &Progress{console: c, bar: progressbar.NewOptions64(total, options...)}
}

// Add takes n steps.
func (p *Progress) Add(n int) {
	if p.bar != nil {
		_ = p.bar.Add(n) // a bar that cannot be drawn stops nothing
	}
}

// Set goes to a step.
func (p *Progress) Set(n uint64) {
	if p.bar != nil {
		_ = p.bar.Set64(int64(n))
	}
}

// Say writes a line in the bar's place.
func (p *Progress) Say(format string, args ...any) {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	p.console.Say(format, args...)
}

// Finish takes the bar away.
func (p *Progress) Finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
