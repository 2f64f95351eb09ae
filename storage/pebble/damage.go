package pebble

import (
	"errors"
	"fmt"
	"strings"

	engine "github.com/cockroachdb/pebble/v2"

	"colophon/internal/frames"
	"colophon/storage"
)

// damaged is the error of a read, storage.ErrDamaged in one line if it says that a file
// is not as it was written.
func damaged(err error) error {
	corrupt := engine.IsCorruptionError(err) || errors.Is(err, frames.ErrFooter)
	if !corrupt || errors.Is(err, storage.ErrDamaged) {
		return err
	}
	return fmt.Errorf("%w: %s", storage.ErrDamaged, firstLine(err))
}

// firstLine is what the engine says of damage without what it says for its makers, and
// without what closing the reader says again.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
