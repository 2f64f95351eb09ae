package main

import (
	"os"
	"path/filepath"

	"colophon/internal/safefile"
)

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
