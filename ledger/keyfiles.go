package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"colophon/internal/safefile"
	"colophon/proofs"
	"colophon/storage"
)

// KeyFiles keeps signing keys in a folder, one file a ledger, readable by the
// owner alone.
type KeyFiles struct {
	Dir string
}

// Path is the file that holds a ledger's key.
func (k KeyFiles) Path(ledger string) string { return filepath.Join(k.Dir, ledger+".key") }

// StagedPath is the file that holds a key whose ledger is to be made.
func (k KeyFiles) StagedPath(ledger string) string { return k.Path(ledger) + ".new" }

// Load implements Keys. A file that others may read is refused.
func (k KeyFiles) Load(ledger string) (*proofs.Signer, error) { return readKey(k.Path(ledger)) }

// Staged implements Keys. A file that others may read is refused.
func (k KeyFiles) Staged(ledger string) (*proofs.Signer, error) {
	return readKey(k.StagedPath(ledger))
}

// hasModes: files have an owner and modes, and folders can be synced. Elsewhere the
// folder's access list is what keeps the keys.
const hasModes = runtime.GOOS != "windows"

// inKeys is the path of a key file from the data folder on, which clients may see.
func inKeys(path string) string { return filepath.Join("keys", filepath.Base(path)) }

// readKey reads a key from a file, and a folder, that others than the owner cannot change.
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

// write makes a key file, whole or not at all, durably. It never replaces one.
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

// move gives a file another name in its folder, durably. Unlike os.Rename it
// never replaces a file.
func move(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return err
	}
	if err := os.Remove(from); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(to))
}

// SyncDir makes the names in a folder survive the loss of power.
func SyncDir(dir string) error {
	if !hasModes {
		return nil // Windows keeps names in the journal of its file system
	}
	return syncOpened(os.Open(dir))
}

// SyncDirIn is SyncDir for a folder in a root.
func SyncDirIn(root *os.Root, name string) error {
	if !hasModes {
		return nil
	}
	return syncOpened(root.Open(name))
}

func syncOpened(d *os.File, err error) error {
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
