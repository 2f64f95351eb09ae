package datadir

import (
	"errors"
	"io/fs"

	"colophon/internal/cli"
	"colophon/internal/safefile"
)

// Check refuses a data folder in which other users can replace files that the program reads or
// signs with. Missing files and folders pass.
func Check(data string) error {
	if err := safefile.CheckDataFolder(data); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return cli.Refused("data: %w", err)
	}
	for _, dir := range []string{
		Database(data), Incoming(data), Moved(data), Index(data), Spool(data), SnapshotsOf(data).Dir, Restoring(data),
		Keys(data).Dir, Marks(data).Dir, Access(data),
	} {
		if err := safefile.CheckFolder(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return cli.Refused("data: %w", err)
		}
	}
	return nil
}
