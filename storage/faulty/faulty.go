// Package faulty injects faults into storage, for tests. Database wraps an implementation of the
// storage contract, and FS wraps the file system of an embedded database. A Plan selects the
// calls that fail, and says how they fail.
package faulty

import (
	"errors"
	"path"
	"slices"
	"sync"
	"syscall"
	"time"
)

// ErrInjected is wrapped by every injected error, except in mode ModeNoSpace.
var ErrInjected = errors.New("faulty: injected fault")

// Mode says how a call fails.
type Mode string

// Possible modes. A mode that does not apply to a call acts like ModeFail, except that ModeFlipBit
// then has no effect on files.
const (
	// ModeFail makes the call do nothing and return an error.
	ModeFail Mode = "fail"
	// ModeFailAfterSuccess makes the call succeed and still return an error.
	ModeFailAfterSuccess Mode = "fail after success"
	// ModeNoSpace makes the call fail as if the disk were full. A write to a file writes only the first
	// half of its data.
	ModeNoSpace Mode = "no space"
	// ModeShortWrite makes a write to a file write only the first half of its data and return an
	// error. A walk over a store fails after its first item.
	ModeShortWrite Mode = "short"
	// ModeSlow makes the call succeed, but only after Plan.Pause.
	ModeSlow Mode = "slow"
	// ModeFlipBit makes a read from a file return data with one bit flipped. A read from a store
	// returns a checksum error instead.
	ModeFlipBit Mode = "flip bit"
)

// Plan selects the calls that fail. It can be sent to another process as JSON.
type Plan struct {
	Mode Mode
	// Calls lists the names of the calls that can fail; empty means all calls.
	Calls []string
	// FilePattern is a path.Match pattern for the base name of the file that a call concerns; ""
	// means any file.
	FilePattern string
	// SkipCount is the number of matching calls that succeed first.
	SkipCount int
	// FailCount is the number of matching calls that fail after the skipped ones. 0 means one, and
	// a negative number means all.
	FailCount int
	// Pause is how long ModeSlow delays each selected call.
	Pause time.Duration
	// BitIndex is the index of the bit that ModeFlipBit flips, counted from 0. An index past the
	// end of the data wraps around to its beginning.
	BitIndex int
}

// Injector executes a Plan. It is safe for concurrent use.
type Injector struct {
	plan Plan
	// OnFault, if not nil, is called before each fault, with the names of the call and its file. If
	// Plan.FailCount is negative, OnFault is called only before the first fault. Set OnFault before
	// the first call.
	OnFault func(call, file string)

	mu       sync.Mutex
	seen     int            // number of calls that match the plan; guarded by mu
	injected map[string]int // number of failed calls, keyed by the name of the call; guarded by mu
	over     bool           // whether StopInjecting was called; guarded by mu
}

// New returns an Injector that executes the plan.
func New(plan Plan) *Injector {
	if plan.FailCount == 0 {
		plan.FailCount = 1
	}
	return &Injector{plan: plan, injected: make(map[string]int)}
}

// StopInjecting ends the plan: all later calls succeed.
func (f *Injector) StopInjecting() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
}

// FaultCounts returns the number of failed calls so far, keyed by the name of the call.
func (f *Injector) FaultCounts() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	injected := make(map[string]int, len(f.injected))
	for call, n := range f.injected {
		injected[call] = n
	}
	return injected
}

// next returns the mode in which the call must fail, or "" if it must succeed. In mode ModeSlow,
// next pauses and returns "".
func (f *Injector) next(call, file string) Mode {
	mode, first := f.count(call, file)
	if mode != "" && f.OnFault != nil && (first || f.plan.FailCount > 0) {
		f.OnFault(call, file)
	}
	if mode == ModeSlow {
		time.Sleep(f.plan.Pause)
		return ""
	}
	return mode
}

// count counts a call if it matches the plan. It returns the mode in which the call must fail, or
// "" if the call must succeed. first reports whether this is the first call to fail.
func (f *Injector) count(call, file string) (mode Mode, first bool) {
	if len(f.plan.Calls) > 0 && !slices.Contains(f.plan.Calls, call) {
		return "", false
	}
	if f.plan.FilePattern != "" {
		if matched, err := path.Match(f.plan.FilePattern, path.Base(file)); err != nil || !matched {
			return "", false
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.seen - f.plan.SkipCount
	f.seen++
	if f.over || n < 0 || f.plan.FailCount > 0 && n >= f.plan.FailCount {
		return "", false
	}
	f.injected[call]++
	return f.plan.Mode, n == 0
}

// injectedError returns the error for a call that fails in the given mode, or nil if the mode is ModeFlipBit
// or "".
func injectedError(mode Mode) error {
	switch mode {
	case "", ModeFlipBit:
		return nil
	case ModeNoSpace:
		return syscall.ENOSPC
	}
	return ErrInjected
}
