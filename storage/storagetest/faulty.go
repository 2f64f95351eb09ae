package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"colophon/storage"
)

// ErrInjected is in every error that Faulty makes up.
var ErrInjected = errors.New("storagetest: injected fault")

// Fault is a way for a commit to fail.
type Fault int

// The two ways. The caller cannot tell them apart: the outcome is unknown.
const (
	// Before: nothing is written.
	Before Fault = iota + 1
	// After: everything is written, durably, and an error returned all the same.
	After
)

// Faulty is a Store of which chosen commits fail. All else goes to the Store
// underneath.
type Faulty struct {
	storage.Store

	mu       sync.Mutex
	commits  int           // calls of Commit so far; under mu
	faults   map[int]Fault // by the number of the call; under mu
	writable error         // answer of Writable if not nil; under mu
}

// NewFaulty wraps a Store. Nothing fails yet.
func NewFaulty(s storage.Store) *Faulty {
	return &Faulty{Store: s, faults: make(map[int]Fault)}
}

// FailCommit makes the n-th call of Commit from now on fail, once; 1 is the
// next one.
func (f *Faulty) FailCommit(n int, fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[f.commits+n] = fault
}

// SetWritable makes Writable answer err, until nil is set.
func (f *Faulty) SetWritable(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writable = err
}

// Commits is the number of calls of Commit so far.
func (f *Faulty) Commits() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.commits
}

// Commit passes on to the Store underneath unless it is to fail. A commit that
// fails there gives that error, whatever the fault.
func (f *Faulty) Commit(ctx context.Context, old storage.Head, b storage.Batch) error {
	n, fault := f.count()
	if fault == Before {
		return fmt.Errorf("commit %d, nothing written: %w", n, ErrInjected)
	}
	if err := f.Store.Commit(ctx, old, b); err != nil {
		return err
	}
	if fault == After {
		return fmt.Errorf("commit %d, all written: %w", n, ErrInjected)
	}
	return nil
}

// count counts a call and takes the fault that is meant for it.
func (f *Faulty) count() (int, Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.commits++
	fault := f.faults[f.commits]
	delete(f.faults, f.commits)
	return f.commits, fault
}

// Writable is what SetWritable set, else the answer of the Store underneath.
func (f *Faulty) Writable(ctx context.Context) error {
	f.mu.Lock()
	err := f.writable
	f.mu.Unlock()
	if err != nil {
		return err
	}
	return f.Store.Writable(ctx)
}
