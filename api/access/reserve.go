package access

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// ReserveFile is in the folder of the token store and holds nothing. It keeps room on the
// disk: a revocation gives it up where the disk is full. It is in no backup.
const ReserveFile = "tokens.reserve"

// Room in the reserve beyond the length of the tokens file, in bytes. Where there is no
// room for most, less is kept, but not less than least: revoking a token makes the file
// longer, though never by that much.
const (
	mostReserve  = 64 << 10
	leastReserve = 4 << 10
)

// giveUpReserve frees the room that the reserve keeps. The caller has the lock.
func giveUpReserve(dir string) error {
	if err := os.Remove(filepath.Join(dir, ReserveFile)); err != nil {
		return err
	}
	return syncFolder(dir) // some file systems free the room only then
}

// reserved reports whether the reserve has room for a tokens file of that length and one
// revocation more.
func reserved(dir string, length int64) bool {
	info, err := os.Lstat(filepath.Join(dir, ReserveFile))
	return err == nil && info.Mode().IsRegular() && info.Size() >= length+leastReserve
}

// makeReserve makes the reserve unless it is there. The caller has the lock.
func makeReserve(dir string, length int64) (err error) {
	if reserved(dir, length) {
		return nil
	}
	room := make([]byte, length+mostReserve)
	_, _ = rand.Read(room) // never fails; some file systems keep no room for what compresses
	for ; int64(len(room)) >= length+leastReserve; room = room[:length+(int64(len(room))-length)/2] {
		if err = replaceFile(filepath.Join(dir, ReserveFile), room, true); !isFull(err) {
			return err
		}
	}
	return err
}

// keepReserve makes the reserve, unless it is there or there are no tokens.
func (s Store) keepReserve() (err error) {
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
