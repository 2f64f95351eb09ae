// Package datadir knows the layout of a data folder: what is where, how it is made, opened,
// locked, and checked against other users.
package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"colophon/internal/cli"
	"colophon/ledger"
)

// Resolve follows the links of a path. It returns the path itself if that leads nowhere.
func Resolve(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// Database is the folder of the engine that holds the log.
func Database(data string) string { return filepath.Join(data, "db") }

// Index is the folder of the derived rows, which can be made again from the log.
func Index(data string) string { return filepath.Join(data, "index") }

// Spool is the folder of answers that wait for slow clients.
func Spool(data string) string { return filepath.Join(data, "spool") }

// Access is where the data folder keeps its tokens.
func Access(data string) string { return filepath.Join(data, "access") }

// Keys are the files of the signing keys.
func Keys(data string) ledger.KeyFiles {
	return ledger.KeyFiles{Dir: filepath.Join(data, "keys")}
}

// KeyNames are the names of the ledgers whose signing keys are in the data folder, sorted.
func KeyNames(data string) ([]string, error) {
	entries, err := os.ReadDir(Keys(data).Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if name, isKey := strings.CutSuffix(entry.Name(), ".key"); isKey {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// SigningKeys are in variables of the environment, or else in files of the data folder.
func SigningKeys(c *cli.Console, data string) ledger.KeyVariables {
	return ledger.KeyVariables{KeyFiles: Keys(data), Lookup: c.Env}
}

// Marks are beside the database, and never part of a backup: what they are for is to
// notice that a backup was restored.
func Marks(data string) ledger.MarkFiles {
	return ledger.MarkFiles{Dir: filepath.Join(data, "marks")}
}

// Restoring is where a restore puts everything until all of it is there and verified.
func Restoring(data string) string { return filepath.Join(data, "restoring") }
