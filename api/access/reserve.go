package access

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"colophon/internal/safefile"
)

// DiskReserveFileName is the name of the file with which the token store reserves disk space for
// revocations. The file is in the folder of the store. With it, a token can be revoked even if the
// disk is full. Backups leave the file out.
const DiskReserveFileName = "tokens.reserve"

// The reserve file is mostReserve bytes longer than the tokens file. If the disk lacks room, the
// difference is smaller, but it is always at least leastReserve bytes. A revocation adds fewer than
// leastReserve bytes to the tokens file.
const (
	mostReserve  = 64 << 10
	leastReserve = 4 << 10
)

// releaseReserve frees the reserved disk space. The caller must hold the lock of the token store.
func releaseReserve(dir string) error {
	if err := os.Remove(filepath.Join(dir, DiskReserveFileName)); err != nil {
		return err
	}
	return safefile.SyncDir(dir) // some file systems free the space only after a sync
}

// reserved reports whether the reserve has room for a tokens file of the given length, in bytes,
// and one more revocation.
func reserved(dir string, length int64) bool {
	info, err := os.Lstat(filepath.Join(dir, DiskReserveFileName))
	return err == nil && info.Mode().IsRegular() && info.Size() >= length+leastReserve
}

// makeReserve creates the reserve if it is missing or too small. The caller must hold the lock of
// the token store.
func makeReserve(dir string, length int64) (err error) {
	if reserved(dir, length) {
		return nil
	}
	room := make([]byte, length+mostReserve)
	_, _ = rand.Read(room) // never fails; the bytes are random because some file systems compress data
	for ; int64(len(room)) >= length+leastReserve; room = room[:length+(int64(len(room))-length)/2] {
		if err = replaceFile(filepath.Join(dir, DiskReserveFileName), room, true); !isFull(err) {
			return err
		}
	}
	return err
}

// keepReserve creates the reserve if there are tokens and the reserve is missing or too small.
func (s TokenStore) keepReserve() (err error) {
	info, err := os.Lstat(filepath.Join(s.Dir, tokensFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || reserved(s.Dir, info.Size()) {
		return err
	}
	release, err := lock(s.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	return makeReserve(s.Dir, info.Size())
}
