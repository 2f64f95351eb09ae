package frames

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// valuesSuffix is the suffix of value files, which store values separately from their keys.
// footerBytes is the length of a value file's footer, which begins with a checksum of its remaining
// bytes.
const (
	valuesSuffix = ".blob"
	footerBytes  = 38
)

// ErrDamagedFooter is wrapped by errors from opening a value file with a damaged footer. Callers
// must check for it separately, because engine.IsCorruptionError does not recognise it.
var ErrDamagedFooter = errors.New("damaged")

// valuesFile is a value file whose footer has been checked.
type valuesFile struct {
	vfs.File
	footer []byte
	at     int64 // offset of the footer
}

// openValues returns f after checking its footer, or closes f and returns an error.
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
		return nil, fmt.Errorf("%w: the file has only %d bytes, too few for a footer", ErrDamagedFooter, info.Size())
	}
	if _, err := f.ReadAt(v.footer, v.at); err != nil {
		return nil, err
	}
	sum := bits.RotateLeft32(crc32.Checksum(v.footer[4:], castagnoli), 17) + crcMaskDelta
	if stored := binary.LittleEndian.Uint32(v.footer); stored != sum {
		return nil, fmt.Errorf("%w: the stored checksum is %08x, but the computed checksum is %08x", ErrDamagedFooter, stored, sum)
	}
	return v, nil
}

// ReadAt implements io.ReaderAt. It returns the footer bytes that openValues checked.
func (v *valuesFile) ReadAt(p []byte, offset int64) (int, error) {
	n, err := v.File.ReadAt(p, offset)
	if from := v.at - offset; n > 0 && from < int64(n) {
		copy(p[max(from, 0):n], v.footer[max(-from, 0):])
	}
	return n, err
}
