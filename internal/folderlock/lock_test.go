package folderlock

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHeldElsewhere(t *testing.T) {
	onPath := func(err error) error { return &fs.PathError{Op: "open", Path: "LOCK", Err: err} }
	for _, err := range []error{
		syscall.EAGAIN, syscall.EACCES, errors.New("lock held by current process"),
		errors.New("fcntl: resource temporarily unavailable"),
	} {
		require.True(t, heldElsewhere(err), err)
	}
	for _, err := range []error{onPath(syscall.EACCES), onPath(syscall.ENOENT), syscall.ENOLCK, syscall.EROFS} {
		require.False(t, heldElsewhere(err), err)
	}
}
