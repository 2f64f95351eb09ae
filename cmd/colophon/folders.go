package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"colophon/internal/cli"
	"colophon/internal/safefile"
)

// checkFolders refuses a data folder in which other users can replace what the program
// reads or signs with. What is not there yet is fine.
func checkFolders(data string) error {
	if err := safefile.CheckDataFolder(data); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return cli.Refused("data: %w", err)
	}
	for _, dir := range []string{
		databaseDir(data), indexDir(data), spoolDir(data), snapshots(data).dir, restoring(data),
		keyFiles(data).Dir, markFiles(data).Dir, accessDir(data),
	} {
		if err := safefile.CheckFolder(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return cli.Refused("data: %w", err)
		}
	}
	return nil
}

// readNamed reads a file that the operator has named, unless everybody can change it.
func readNamed(path string) ([]byte, error) {
	if err := safefile.CheckNamed(path, false); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// checkInFolder refuses a folder that others can change, or that is a link: dir is one
// that the program makes in a folder of the user's.
func checkInFolder(dir string) error {
	if err := safefile.CheckNoLink(dir); err != nil {
		return err
	}
	return safefile.CheckFolder(filepath.Clean(dir))
}
