package pebble

import (
	"errors"
	"fmt"
	"strings"

	engine "github.com/cockroachdb/pebble/v2"

	"colophon/internal/frames"
	"colophon/storage"
)

// damaged converts an engine error that reports a damaged file. The result wraps storage.ErrDamaged
// and has a one-line message. It returns other errors unchanged.
func damaged(err error) error {
	corrupt := engine.IsCorruptionError(err) || errors.Is(err, frames.ErrDamagedFooter)
	if !corrupt || errors.Is(err, storage.ErrDamaged) {
		return err
	}
	return fmt.Errorf("%w: %s", storage.ErrDamaged, firstLine(err))
}

// firstLine returns the first line of the engine's message about damage. The other lines are of no
// use to operators.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
