package erase

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	engine "github.com/cockroachdb/pebble/v2"
)

// ValueFileSuffix is the suffix of the names of value files, which contain values that are stored
// apart from their keys.
const ValueFileSuffix = ".blob"

// ValueSeparationPolicy returns the engine's policy for value files. Values stay in the file to
// which they were first written, even if many tables refer to the file. Only erasure leaves
// unreferenced values in a file. The engine rewrites such a file only while the eraser works.
// Otherwise the engine would retry a failed rewrite forever.
func (e *Eraser) ValueSeparationPolicy() engine.ValueSeparationPolicy {
	policy := engine.ValueSeparationPolicy{
		Enabled:               true,
		MinimumSize:           e.Config.MinSeparateValueBytes,
		MaxBlobReferenceDepth: math.MaxInt32,
		TargetGarbageRatio:    1,
	}
	if e.working.Load() {
		policy.TargetGarbageRatio = 0
	}
	return policy
}

// allValuesReferenced reports whether tables refer to all values in the folder. Only an erasure
// leaves values that no table refers to. The engine then rewrites their file, or deletes the file
// if all its values are unreferenced. If the engine's last rewrite failed, allValuesReferenced
// returns an error.
func (e *Eraser) allValuesReferenced() (bool, error) {
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
	inForce := e.engine.Metrics().BlobFiles
	after, err := e.valueFiles()
	if err != nil {
		return false, err
	}
	// A file that is being written is in the folder but not yet in use, so compare the file counts.
	return slices.Equal(before, after) && len(before) == int(inForce.LiveCount) &&
		inForce.ValueSize == inForce.ReferencedValueSize, nil
}

// valueFiles returns the sorted names of the value files in the folder.
func (e *Eraser) valueFiles() ([]string, error) {
	names, err := e.Config.Space.FS.List(e.Config.Space.Dir)
	if err != nil {
		return nil, fmt.Errorf("looking for value files: %w", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ValueFileSuffix) })
	slices.Sort(names)
	return names, nil
}

// rewritten is called when the engine has tried to rewrite a value file. It records the error,
// unless the attempt was cancelled.
func (e *Eraser) rewritten(err error) {
	if err != nil && !errors.Is(err, engine.ErrCancelledCompaction) {
		e.mu.Lock()
		e.unrewritten = err
		e.mu.Unlock()
	}
	signal(e.files)
}
