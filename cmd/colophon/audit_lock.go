package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lockState keeps other audits out of the folder beside the state file, which is made
// if it is not there, until the lock is closed or the process ends.
func (m *auditMemory) lockState() error {
	if err := os.Mkdir(m.dir(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return refused("--state: %w", err)
	}
	var onPath *fs.PathError
	var err error
	switch m.lock, err = vfs.Default.Lock(filepath.Join(m.dir(), "lock")); {
	case errors.As(err, &onPath):
		return refused("--state: %w", err)
	case err != nil:
		return exitf(exitInUse, "--state: another audit has %s: %w\nWait for it, or name another file", m.file, err)
	}
	return nil
}
