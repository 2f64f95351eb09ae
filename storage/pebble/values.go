package pebble

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	engine "github.com/cockroachdb/pebble/v2"
)

// valuesSuffix is that of files of values that are kept apart from their keys.
const valuesSuffix = ".blob"

// separation keeps values where they are once written: the tables that refer to
// them may become as mixed as they like. A file that has some that nothing refers
// to, which only erasure brings about, is rewritten while the eraser works; the
// engine would try for ever if it cannot.
func (e *eraser) separation() engine.ValueSeparationPolicy {
	policy := engine.ValueSeparationPolicy{
		Enabled:               true,
		MinimumSize:           leastApart,
		MaxBlobReferenceDepth: math.MaxInt32,
		TargetGarbageRatio:    1,
	}
	if e.working.Load() {
		policy.TargetGarbageRatio = 0
	}
	return policy
}

// valuesInForce reports whether tables refer to all values that the folder holds.
// Nothing but erasure makes others. The engine rewrites a file with some of them,
// or deletes it with nothing else in it. The error is why it could not do that.
func (e *eraser) valuesInForce() (bool, error) {
	e.mu.Lock()
	err := e.unrewritten
	e.unrewritten = nil
	e.mu.Unlock()
	if err != nil {
		return false, fmt.Errorf("rewriting values: %w", err)
	}
	before, err := e.valueFiles()
	if err != nil {
		return false, err
	}
	inForce := e.db.engine.Metrics().BlobFiles
	after, err := e.valueFiles()
	if err != nil {
		return false, err
	}
	// A file that is being written is in the folder and not in force.
	return slices.Equal(before, after) && len(before) == int(inForce.LiveCount) &&
		inForce.ValueSize == inForce.ReferencedValueSize, nil
}

// valueFiles is the names of the files of values in the folder, sorted.
func (e *eraser) valueFiles() ([]string, error) {
	names, err := e.db.space.fs.List(e.db.space.dir)
	if err != nil {
		return nil, fmt.Errorf("looking for old values: %w", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, valuesSuffix) })
	slices.Sort(names)
	return names, nil
}

// rewritten hears from the engine that it has tried to rewrite a file of values.
func (e *eraser) rewritten(err error) {
	if err != nil && !errors.Is(err, engine.ErrCancelledCompaction) {
		e.mu.Lock()
		e.unrewritten = err
		e.mu.Unlock()
	}
	signal(e.files)
}
