package frames

import (
	"errors"
	"fmt"
	"io"
	"strings"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// Files has the engine open no manifest and no write-ahead log that is damaged. It
// reads them up to the first thing that it cannot read, and takes that for the end: one
// changed bit, and it deletes all tables that it has not read of, or goes on from an
// older state, over what was acknowledged. What it reads is what was looked at. A
// damaged file is an error of the opening, one that engine.IsCorruptionError knows, and
// nothing has changed. Of files of values it opens none whose end is damaged, at which it
// would panic.
type Files struct{ vfs.FS }

// Open implements vfs.FS.
func (s Files) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	check := soundness(s.PathBase(name))
	f, err := s.FS.Open(name, options...)
	if err == nil && strings.HasSuffix(name, valuesSuffix) {
		return openValues(f, name)
	}
	if err != nil || check == nil {
		return f, err
	}
	text, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if err := check(text); err != nil {
		return nil, fmt.Errorf("%s is %w: %w", name, err, engine.ErrCorruption)
	}
	return vfs.NewMemFile(text), nil
}

// soundness is how a file of that name is looked at; nil if it is not.
func soundness(name string) func(text []byte) error {
	if number, _, ok := wal.ParseLogFilename(name); ok {
		return func(text []byte) error { return CheckLog(text, uint64(number)) }
	}
	var number uint64
	if n, err := fmt.Sscanf(name, "MANIFEST-%d", &number); n == 1 && err == nil {
		return func(text []byte) error { return CheckManifest(text, number) }
	}
	return nil
}

// Unwrap implements vfs.FS.
func (s Files) Unwrap() vfs.FS { return s.FS }
