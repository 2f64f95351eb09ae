package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"colophon/internal/safefile"
	"colophon/storage"
)

// MarkFiles keeps high-water marks in a folder, one file a ledger.
type MarkFiles struct {
	Dir string
}

// Path is the file that holds a ledger's mark.
func (m MarkFiles) Path(ledger string) string { return filepath.Join(m.Dir, ledger+".checkpoint") }

// Mark implements Marks.
func (m MarkFiles) Mark(ledger string) ([]byte, error) {
	text, err := readWhole(m.Path(ledger))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", m.Path(ledger), storage.ErrNotFound)
	}
	return text, err
}

// SetMark implements Marks. It survives the loss of power.
func (m MarkFiles) SetMark(ledger string, checkpoint []byte) error {
	return writeWhole(m.Path(ledger), checkpoint)
}

// readWhole reads a file, from a folder, that others than the owner cannot change.
func readWhole(path string) ([]byte, error) {
	text, err := safefile.Read(path)
	if err == nil {
		err = safefile.CheckFolder(filepath.Dir(path))
	}
	return text, err
}

// writeWhole replaces a file, whole or not at all, durably; its folder is made if absent.
func writeWhole(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := safefile.CheckFolder(filepath.Dir(path)); err != nil {
		return err
	}
	// Always the same name: what a crash leaves there, the next write takes.
	temporary := path + ".new"
	f, err := safefile.Create(temporary)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}
