package main

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows on a terminal how far a command has come; elsewhere nothing.
type progress struct {
	bar *progressbar.ProgressBar // nil where there is no terminal
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

// A bar that cannot be drawn stops nothing.

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

// clear takes the bar away until the next step, so that lines can be printed.
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
