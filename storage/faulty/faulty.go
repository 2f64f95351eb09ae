// Package faulty makes storage go wrong on command, for tests of what is built on
// it: Database wraps the storage contract, of which each call can fail, and Files a
// file system under an embedded database. Which calls go wrong, and how, is a Plan.
package faulty

import (
	"errors"
	"path"
	"slices"
	"sync"
	"syscall"
	"time"
)

// ErrInjected is in every error that this package makes up, but for NoSpace's.
var ErrInjected = errors.New("faulty: injected fault")

// Mode is a way to go wrong.
type Mode string

// The modes. A call for which a mode makes no sense goes wrong as with Fail.
const (
	// Fail: nothing is done, and that is said.
	Fail Mode = "fail"
	// Lie: all is done, and an error returned all the same.
	Lie Mode = "lie"
	// NoSpace: the disk is full. Of a write the first half is done.
	NoSpace Mode = "no space"
	// Short: of a write the first half is done, and an error returned.
	Short Mode = "short"
	// Slow: all is done, after Plan.Pause.
	Slow Mode = "slow"
	// Garble: what was read has one bit changed; of a store, the checksum of what was
	// read is wrong, which is an error.
	Garble Mode = "garble"
)

// Plan says which calls go wrong. It can be sent to another process as JSON.
type Plan struct {
	Mode Mode
	// Calls are the names of the calls that may go wrong; none means all.
	Calls []string
	// Path is a pattern, as path.Match has it, for the name in its folder of the file
	// that a call is about; empty means any.
	Path string
	// Skip is how many of these calls are done as usual first.
	Skip int
	// Count is how many go wrong then; 0 means one, negative all that follow.
	Count int
	Pause time.Duration
	// Bit is the bit that Garble changes, counted from the first that was read, and
	// again from there at the end.
	Bit int
}

// Faults carries out a plan. It is safe for concurrent use.
type Faults struct {
	plan Plan
	// Tell, if set before the first call, is told of each that goes wrong before it
	// does, and of the file that it is about; of those without end only of the first.
	Tell func(call, file string)

	mu       sync.Mutex
	seen     int            // calls that the plan is about; under mu
	injected map[string]int // calls that went wrong, by name; under mu
	over     bool           // no more do; under mu
}

// New makes faults by a plan.
func New(plan Plan) *Faults {
	if plan.Count == 0 {
		plan.Count = 1
	}
	return &Faults{plan: plan, injected: make(map[string]int)}
}

// Stop ends the plan: from now on all goes well.
func (f *Faults) Stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
}

// Injected is how many calls went wrong so far, by name.
func (f *Faults) Injected() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	injected := make(map[string]int, len(f.injected))
	for call, n := range f.injected {
		injected[call] = n
	}
	return injected
}

// next is how a call goes wrong; empty if it goes well. Slow is dealt with here.
func (f *Faults) next(call, file string) Mode {
	mode, first := f.count(call, file)
	if mode != "" && f.Tell != nil && (first || f.plan.Count > 0) {
		f.Tell(call, file)
	}
	if mode == Slow {
		time.Sleep(f.plan.Pause)
		return ""
	}
	return mode
}

// count is how a call goes wrong, and whether it is the first that does.
func (f *Faults) count(call, file string) (mode Mode, first bool) {
	if len(f.plan.Calls) > 0 && !slices.Contains(f.plan.Calls, call) {
		return "", false
	}
	if f.plan.Path != "" {
		if matched, err := path.Match(f.plan.Path, path.Base(file)); err != nil || !matched {
			return "", false
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.seen - f.plan.Skip
	f.seen++
	if f.over || n < 0 || f.plan.Count > 0 && n >= f.plan.Count {
		return "", false
	}
	f.injected[call]++
	return f.plan.Mode, n == 0
}

// refused is the error of a call that is not done, and of one that is done and lied
// about; nil if the mode has none.
func refused(mode Mode) error {
	switch mode {
	case "", Garble:
		return nil
	case NoSpace:
		return syscall.ENOSPC
	}
	return ErrInjected
}
