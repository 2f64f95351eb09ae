package main

import (
	"path/filepath"

	"colophon/internal/safefile"
)

// checkInFolder refuses a folder that others can change, or that is a link: dir is one
// that the program makes in a folder of the user's.
func checkInFolder(dir string) error {
	if err := safefile.CheckNoLink(dir); err != nil {
		return err
	}
	return safefile.CheckFolder(filepath.Clean(dir))
}
