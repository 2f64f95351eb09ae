package keystore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"colophon/internal/safefile"
	"colophon/storage"
)

// HighWaterMarkFiles stores high-water marks in a folder, one file per ledger.
type HighWaterMarkFiles struct {
	Dir string // path of the folder
}

// Path returns the path of the file that contains a ledger's high-water mark.
func (m HighWaterMarkFiles) Path(name string) string { return filepath.Join(m.Dir, name+".checkpoint") }

// Mark implements highwater.Store.
func (m HighWaterMarkFiles) Mark(name string) ([]byte, error) {
	text, err := readWhole(m.Path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the high-water mark %s: %w", m.Path(name), storage.ErrNotFound)
	}
	return text, err
}

// SetMark implements highwater.Store. The change is durable.
func (m HighWaterMarkFiles) SetMark(name string, checkpoint []byte) error {
	return writeWhole(m.Path(name), checkpoint)
}

// readWhole reads a file. It refuses a file or a folder that others can change.
func readWhole(path string) ([]byte, error) {
	text, err := safefile.Read(path)
	if err == nil {
		err = safefile.CheckFolder(filepath.Dir(path))
	}
	return text, err
}

// writeWhole replaces a file atomically and durably. It durably creates the folder if necessary.
func writeWhole(path string, text []byte) error {
	if err := safefile.MkdirAll(filepath.Dir(path)); err != nil {
		return err
	}
	if err := safefile.CheckFolder(filepath.Dir(path)); err != nil {
		return err
	}
	// Use a fixed name, so that the next write replaces any file that a crash left behind.
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
	return safefile.SyncDir(filepath.Dir(path))
}
