package ha_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// mountDisk mounts a small file system at a folder until the test ends. It returns false if the
// system does not allow this.
func mountDisk(t testing.TB, dir, size string) bool {
	t.Helper()
	if err := unix.Mount("none", dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		t.Logf("the disk of %s will not be filled, because a file system cannot be mounted: %v", filepath.Base(dir), err)
		return false
	}
	give(t, dir)
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return true
}

// fill fills the file system that contains dir. Calling empty frees the space again.
func fill(dir string) (empty func(), err error) {
	name := filepath.Join(dir, "ballast")
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return nil, err
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	err = unix.Fallocate(int(file.Fd()), 0, 0, int64(disk.Bavail)*disk.Bsize)
	if errors.Is(err, unix.ENOSPC) { // other processes have used the remaining space
		err = nil
	}
	return func() { _ = os.Remove(name) }, errors.Join(err, file.Close())
}
