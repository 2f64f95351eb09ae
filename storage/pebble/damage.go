package pebble

import (
	"errors"
	"fmt"
	"strings"

	engine "github.com/cockroachdb/pebble/v2"

	"colophon/internal/frames"
	"colophon/storage"
)

// damaged converts an error of a read that reports damage to a file to storage.ErrDamaged,
// with a message of one line. It returns other errors unchanged.
func damaged(err error) error {
	corrupt := engine.IsCorruptionError(err) || errors.Is(err, frames.ErrFooter)
	if !corrupt || errors.Is(err, storage.ErrDamaged) {
		return err
	}
	return fmt.Errorf("%w: %s", storage.ErrDamaged, firstLine(err))
}

// firstLine returns the part of the engine's message about damage that is useful to operators.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
