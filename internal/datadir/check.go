package datadir

import (
	"errors"
	"io/fs"

	"colophon/internal/cli"
	"colophon/internal/safefile"
)

// CheckPermissions returns an error if other users could replace files that the program reads from
// the data folder, such as signing keys. Missing files and folders are not an error.
func CheckPermissions(data string) error {
	if err := safefile.CheckDataFolder(data); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return cli.FileStateErrorf("data: %w", err)
	}
	for _, dir := range []string{
		DatabaseFolder(data), ExternalStoreMarker(data), PublishedCopyFolder(data), IncomingDatabaseFolder(data), MovedDatabaseFolder(data),
		IndexFolder(data), SpoolFolder(data), SnapshotFolderOf(data).Dir, RestoreFolder(data),
		KeyFiles(data).Dir, HighWaterMarkFiles(data).Dir, TokenFolder(data), WebhookFolder(data),
	} {
		if err := safefile.CheckFolder(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return cli.FileStateErrorf("data: %w", err)
		}
	}
	return nil
}
