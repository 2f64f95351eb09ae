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

// CheckedFS is a file system that refuses to open a damaged manifest or write-ahead log. The engine
// would read such a file up to the damage, and mistake the damage for the end of the file. A single
// changed bit could make it delete tables that are in use, or continue from an older state and
// overwrite acknowledged records. The engine reads the checked bytes from memory. Opening a damaged
// file fails with an error that engine.IsCorruptionError recognises, and changes nothing. Open also
// refuses value files with a damaged footer, because the engine panics on them.
type CheckedFS struct{ vfs.FS }

// Open implements vfs.FS.
func (s CheckedFS) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	check := checkFor(s.PathBase(name))
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

// checkFor returns the function that checks the content of a file with the given name, or nil if
// no check is needed.
func checkFor(name string) func(text []byte) error {
	if number, _, ok := wal.ParseLogFilename(name); ok {
		return func(text []byte) error { return CheckWAL(text, uint64(number)) }
	}
	var number uint64
	if n, err := fmt.Sscanf(name, "MANIFEST-%d", &number); n == 1 && err == nil {
		return func(text []byte) error { return CheckManifest(text, number) }
	}
	return nil
}

// Unwrap implements vfs.FS.
func (s CheckedFS) Unwrap() vfs.FS { return s.FS }
