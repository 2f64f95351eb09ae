// Package datadir defines the layout of a data folder. It creates, opens, and locks data
// folders, and checks that other users cannot change them.
package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"colophon/internal/cli"
	"colophon/ledger/keystore"
)

// ResolveSymlinks resolves the symbolic links in path. If that fails, for example because path does
// not exist, it returns path unchanged.
func ResolveSymlinks(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// DatabaseFolder returns the folder of the storage engine, which holds the log.
func DatabaseFolder(data string) string { return filepath.Join(data, "db") }

// ExternalStoreMarker returns the folder whose presence means that the log is stored in another
// database and not in the data folder. In that case, the lock on this folder serves as the lock on
// the data folder.
func ExternalStoreMarker(data string) string { return filepath.Join(data, "store") }

// PublishedCopyFolder returns the folder into which a server that runs with --from loads the log.
func PublishedCopyFolder(data string) string { return filepath.Join(data, "copy") }

// IncomingDatabaseFolder returns the folder of the database into which the migrate command copies
// ledgers.
func IncomingDatabaseFolder(data string) string { return filepath.Join(data, "incoming") }

// MovedDatabaseFolder returns the folder of a database whose ledgers the migrate command has moved
// elsewhere.
func MovedDatabaseFolder(data string) string { return filepath.Join(data, "db.moved") }

// IndexFolder returns the folder of the index, which can be rebuilt from the log.
func IndexFolder(data string) string { return filepath.Join(data, "index") }

// SpoolFolder returns the folder for batch results that clients have not read yet.
func SpoolFolder(data string) string { return filepath.Join(data, "spool") }

// WebhookFolder returns the folder that holds the webhook cursors. A webhook without a cursor starts
// at the head of the log.
func WebhookFolder(data string) string { return filepath.Join(data, "webhooks") }

// TokenFolder returns the folder that holds the tokens.
func TokenFolder(data string) string { return filepath.Join(data, "access") }

// KeyFiles returns the store for the signing keys, which are files in the data folder.
func KeyFiles(data string) keystore.KeyFiles {
	return keystore.KeyFiles{Dir: filepath.Join(data, "keys")}
}

// LedgersWithKeys returns the names of the ledgers whose signing keys are in the data folder, sorted.
func LedgersWithKeys(data string) ([]string, error) {
	entries, err := os.ReadDir(KeyFiles(data).Dir)
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

// SigningKeys returns the signing keys in environment variables and in files of the data folder. If
// a key is in both, the variable takes precedence.
func SigningKeys(c *cli.Console, data string) keystore.EnvKeys {
	return keystore.EnvKeys{KeyFiles: KeyFiles(data), Lookup: c.LookupEnv}
}

// HighWaterMarkFiles returns the store for the high-water marks. Backups do not include the marks,
// because the marks must reveal that an old backup was restored.
func HighWaterMarkFiles(data string) keystore.HighWaterMarkFiles {
	return keystore.HighWaterMarkFiles{Dir: filepath.Join(data, "marks")}
}

// RestoreFolder returns the folder in which the restore command puts all files until they are
// complete and verified.
func RestoreFolder(data string) string { return filepath.Join(data, "restoring") }
