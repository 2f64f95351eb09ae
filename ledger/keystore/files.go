// Package keystore keeps the signing keys and the high-water marks of ledgers in files and
// environment variables (spec: Key rotation; High-water mark). It implements ledger.KeyStore,
// ledger.RotatingKeyStore, and highwater.Store.
package keystore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"colophon/internal/safefile"
	"colophon/ledger"
	"colophon/proofs"
	"colophon/storage"
)

// KeyFiles stores signing keys in a folder, one file per ledger. Only the owner can read the files;
// on Windows, the folder's access control list protects them.
type KeyFiles struct {
	Dir string // path of the folder
}

// Path returns the path of the file that holds a ledger's confirmed key.
func (k KeyFiles) Path(name string) string { return filepath.Join(k.Dir, name+".key") }

// StagedKeyPath returns the path of the file that holds the key of a ledger that does not exist
// yet.
func (k KeyFiles) StagedKeyPath(name string) string { return k.Path(name) + ".new" }

// Load implements ledger.KeyStore. It refuses a file that others can read.
func (k KeyFiles) Load(name string) (*proofs.Signer, error) { return readKey(k.Path(name)) }

// LoadStaged implements ledger.KeyStore. It refuses a file that others can read.
func (k KeyFiles) LoadStaged(name string) (*proofs.Signer, error) {
	return readKey(k.StagedKeyPath(name))
}

// pathInData returns the path of a key file relative to the data folder. Error messages that
// clients can see contain this path.
func pathInData(path string) string { return filepath.Join("keys", filepath.Base(path)) }

// readKey reads a key. It refuses a file that others can read, and a folder that others can
// change.
func readKey(path string) (*proofs.Signer, error) {
	text, err := safefile.ReadPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the key %s: %w", path, storage.ErrNotFound)
	}
	if err == nil {
		err = safefile.CheckFolder(filepath.Dir(path))
	}
	if err != nil {
		return nil, err
	}
	signer, err := proofs.ParseSigner(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("parsing the key %s: %w: %w", path, ledger.ErrBadKey, err)
	}
	return signer, nil
}

// Stage implements ledger.KeyStore.
func (k KeyFiles) Stage(name string, signer *proofs.Signer) error {
	return k.write(name, k.StagedKeyPath(name), signer)
}

// write writes a key file atomically and durably. It never replaces a file.
func (k KeyFiles) write(name, path string, signer *proofs.Signer) error {
	if err := safefile.MkdirAll(k.Dir); err != nil {
		return err
	}
	if err := safefile.CheckFolder(k.Dir); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(k.Dir, name+".key.*")
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

// ConfirmStaged implements ledger.KeyStore.
func (k KeyFiles) ConfirmStaged(name string) error {
	err := move(k.StagedKeyPath(name), k.Path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("confirming the key %s: %w", k.Path(name), storage.ErrNotFound)
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
