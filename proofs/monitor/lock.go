package monitor

import (
	"errors"
	"io/fs"
	"os"

	"colophon/internal/cli"
	"colophon/internal/folderlock"
	"colophon/internal/safefile"
	"colophon/storage"
)

// LockState locks the folder beside the state file against other audits, until the lock is
// closed or the process ends. It makes the folder if absent.
func (m *State) LockState() error {
	if err := os.Mkdir(m.Dir(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return cli.Refused("--state: %w", err)
	}
	if err := errors.Join(safefile.CheckNoLink(m.Dir()), safefile.CheckFolder(m.Dir())); err != nil {
		return cli.Refused("--state: %w", err)
	}
	var err error
	switch m.lock, err = folderlock.Take(m.Dir()); {
	case errors.Is(err, storage.ErrInUse):
		return cli.Exitf(cli.ExitInUse, "--state: another audit has %s: %w\nWait for it, or name another file", m.File, err)
	case err != nil:
		return cli.Refused("--state: %w", err)
	}
	return nil
}
