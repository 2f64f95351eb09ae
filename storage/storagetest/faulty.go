package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"colophon/storage"
)

// ErrInjected is wrapped by every error that FaultyStore injects.
var ErrInjected = errors.New("storagetest: injected fault")

// Fault says how a commit fails.
type Fault int

// The faults. To the caller they look the same: the outcome of the commit is unknown.
const (
	// FaultBeforeWrite makes the commit fail before it writes anything.
	FaultBeforeWrite Fault = iota + 1
	// FaultAfterWrite makes the commit write everything durably and still return an error.
	FaultAfterWrite
)

// FaultyStore is a Store whose commits can be made to fail. It passes all other calls to the underlying
// Store.
type FaultyStore struct {
	storage.Store

	mu       sync.Mutex
	commits  int           // number of calls to Commit so far; guarded by mu
	faults   map[int]Fault // keyed by the number of the call to Commit; guarded by mu
	writable error         // the error for CheckWritable to return, if not nil; guarded by mu
}

// NewFaultyStore returns a FaultyStore that wraps s. Nothing fails until FailCommit or
// SetWritableError is called.
func NewFaultyStore(s storage.Store) *FaultyStore {
	return &FaultyStore{Store: s, faults: make(map[int]Fault)}
}

// FailCommit injects fault into a future call to Commit: the next call if n is 1, the one after
// that if n is 2, and so on.
func (f *FaultyStore) FailCommit(n int, fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[f.commits+n] = fault
}

// SetWritableError makes CheckWritable return err. If err is nil, CheckWritable returns the
// underlying Store's result again.
func (f *FaultyStore) SetWritableError(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writable = err
}

// CommitCount returns the number of calls to Commit so far.
func (f *FaultyStore) CommitCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.commits
}

// Commit calls the underlying Store, unless FaultBeforeWrite was set for this call. If the
// underlying Store returns an error, Commit returns that error and not the injected one.
func (f *FaultyStore) Commit(ctx context.Context, old storage.Head, b storage.Batch) error {
	n, fault := f.count()
	if fault == FaultBeforeWrite {
		return fmt.Errorf("commit %d wrote nothing: %w", n, ErrInjected)
	}
	if err := f.Store.Commit(ctx, old, b); err != nil {
		return err
	}
	if fault == FaultAfterWrite {
		return fmt.Errorf("commit %d wrote everything: %w", n, ErrInjected)
	}
	return nil
}

// count counts a call to Commit. It returns the number of the call and its fault; the fault is 0 if
// the call must not fail.
func (f *FaultyStore) count() (int, Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.commits++
	fault := f.faults[f.commits]
	delete(f.faults, f.commits)
	return f.commits, fault
}

// CheckWritable returns the error set with SetWritableError, or else the result of the underlying
// Store.
func (f *FaultyStore) CheckWritable(ctx context.Context) error {
	f.mu.Lock()
	err := f.writable
	f.mu.Unlock()
	if err != nil {
		return err
	}
	return f.Store.CheckWritable(ctx)
}
