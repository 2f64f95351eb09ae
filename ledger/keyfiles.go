package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"colophon/internal/safefile"
	"colophon/proofs"
	"colophon/storage"
)

// KeyFiles stores signing keys in a folder, one file per ledger. Only the owner can read the
// files; on Windows the access list of the folder protects them.
type KeyFiles struct {
	Dir string
}

// Path returns the path of the file that holds a ledger's confirmed key.
func (k KeyFiles) Path(ledger string) string { return filepath.Join(k.Dir, ledger+".key") }

// StagedPath returns the path of the file that holds the key of a ledger to be created.
func (k KeyFiles) StagedPath(ledger string) string { return k.Path(ledger) + ".new" }

// Load implements Keys. It refuses a file that others can read.
func (k KeyFiles) Load(ledger string) (*proofs.Signer, error) { return readKey(k.Path(ledger)) }

// Staged implements Keys. It refuses a file that others can read.
func (k KeyFiles) Staged(ledger string) (*proofs.Signer, error) {
	return readKey(k.StagedPath(ledger))
}

// pathInData returns the path of a key file relative to the data folder. Clients may see it.
func pathInData(path string) string { return filepath.Join("keys", filepath.Base(path)) }

// readKey reads a key. It refuses a file that others can read, and a folder that others can
// change.
func readKey(path string) (*proofs.Signer, error) {
	text, err := safefile.ReadPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", path, storage.ErrNotFound)
	}
	if err == nil {
		err = safefile.CheckFolder(filepath.Dir(path))
	}
	if err != nil {
		return nil, err
	}
	signer, err := proofs.ParseSigner(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, errBadKey, err)
	}
	return signer, nil
}

// Stage implements Keys.
func (k KeyFiles) Stage(ledger string, signer *proofs.Signer) error {
	return k.write(ledger, k.StagedPath(ledger), signer)
}

// write writes a key file atomically and durably. It never replaces a file.
func (k KeyFiles) write(ledger, path string, signer *proofs.Signer) error {
	if err := os.MkdirAll(k.Dir, 0o700); err != nil {
		return err
	}
	if err := safefile.CheckFolder(k.Dir); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(k.Dir, ledger+".key.*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.WriteString(signer.Secret() + "\n")
	if err := errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	return move(temporary.Name(), path)
}

// Confirm implements Keys.
func (k KeyFiles) Confirm(ledger string) error {
	err := move(k.StagedPath(ledger), k.Path(ledger))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", k.Path(ledger), storage.ErrNotFound)
	}
	return err
}

// move renames a file within its folder, durably. Unlike os.Rename it never replaces a file.
func move(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return err
	}
	if err := os.Remove(from); err != nil {
		return err
	}
	return safefile.SyncDir(filepath.Dir(to))
}
