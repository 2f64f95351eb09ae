package frames

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Files of values that are kept apart from their keys, and the length of the footer that
// they end with. It begins with a checksum of the rest.
const (
	valuesSuffix = ".blob"
	footerBytes  = 38
)

// ErrFooter is wrapped by the error of a file of values whose footer is not as it was
// written. engine.IsCorruptionError does not know it: it is what the engine panics at,
// since it has no description of the file to hand on.
var ErrFooter = errors.New("damaged")

// valuesFile is a file of values whose footer is sound.
type valuesFile struct {
	vfs.File
	footer []byte
	at     int64 // where the footer is
}

// openValues looks at the footer of a file of values, which it closes if that is damaged.
func openValues(f vfs.File, name string) (vfs.File, error) {
	v, err := readFooter(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading the footer of %s: %w", name, err), f.Close())
	}
	return v, nil
}

func readFooter(f vfs.File) (*valuesFile, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	v := &valuesFile{f, make([]byte, footerBytes), info.Size() - footerBytes}
	if v.at < 0 {
		return nil, fmt.Errorf("%w: the file has %d bytes", ErrFooter, info.Size())
	}
	if _, err := f.ReadAt(v.footer, v.at); err != nil {
		return nil, err
	}
	sum := bits.RotateLeft32(crc32.Checksum(v.footer[4:], castagnoli), 17) + delta
	if stored := binary.LittleEndian.Uint32(v.footer); stored != sum {
		return nil, fmt.Errorf("%w: its checksum is %08x, that of its bytes %08x", ErrFooter, stored, sum)
	}
	return v, nil
}

// ReadAt implements io.ReaderAt. What is read of the footer is what was looked at.
func (v *valuesFile) ReadAt(p []byte, offset int64) (int, error) {
	n, err := v.File.ReadAt(p, offset)
	if from := v.at - offset; n > 0 && from < int64(n) {
		copy(p[max(from, 0):n], v.footer[max(-from, 0):])
	}
	return n, err
}
