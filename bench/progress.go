package main

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows the progress of a command on a terminal. Without a terminal it shows nothing.
type progress struct {
	bar *progressbar.ProgressBar // nil without a terminal
}

func newProgress(total int, what string) *progress {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return new(progress)
	}
	return &progress{progressbar.NewOptions(total,
		progressbar.OptionSetWriter(os.Stderr),
		progressbar.OptionSetDescription(what),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionFullWidth(),
		progressbar.OptionClearOnFinish(),
	)}
}

// A progress bar that cannot be shown is not an error.

func (p *progress) describe(what string) {
	if p.bar != nil {
		p.bar.Describe(what)
	}
}

func (p *progress) step() { p.add(1) }

func (p *progress) add(steps int) {
	if p.bar != nil {
		_ = p.bar.Add(steps)
	}
}

// clear removes the bar until the next step, so that lines can be printed.
func (p *progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
