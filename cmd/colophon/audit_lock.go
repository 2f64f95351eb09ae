package main

import (
	"errors"
	"io/fs"
	"os"

	"colophon/internal/cli"
	"colophon/internal/folderlock"
	"colophon/internal/safefile"
	"colophon/storage"
)

// lockState keeps other audits out of the folder beside the state file, which is made
// if it is not there, until the lock is closed or the process ends.
func (m *auditMemory) lockState() error {
	if err := os.Mkdir(m.dir(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return cli.Refused("--state: %w", err)
	}
	if err := errors.Join(safefile.CheckNoLink(m.dir()), safefile.CheckFolder(m.dir())); err != nil {
		return cli.Refused("--state: %w", err)
	}
	var err error
	switch m.lock, err = folderlock.Take(m.dir()); {
	case errors.Is(err, storage.ErrInUse):
		return cli.Exitf(cli.ExitInUse, "--state: another audit has %s: %w\nWait for it, or name another file", m.file, err)
	case err != nil:
		return cli.Refused("--state: %w", err)
	}
	return nil
}
