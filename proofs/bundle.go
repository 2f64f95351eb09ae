package proofs

import (
	"encoding/binary"
	"fmt"
)

// AppendBundleEntry appends an entry to an entry bundle (tlog-tiles) as its length, in a big-endian
// uint16, followed by its bytes. It returns ErrTooLong if the entry is longer than MaxEntryBytes.
func AppendBundleEntry(dst, entry []byte) ([]byte, error) {
	if len(entry) > MaxEntryBytes {
		return dst, fmt.Errorf("%w: the entry has %d bytes, but the limit is %d", ErrTooLong, len(entry), MaxEntryBytes)
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(entry)))
	return append(dst, entry...), nil
}

// ParseBundle splits an entry bundle into its 1 to 256 entries. The entries share the
// bundle's memory.
func ParseBundle(bundle []byte) ([][]byte, error) {
	var entries [][]byte
	for rest := bundle; len(rest) > 0; {
		if len(entries) == FullTileWidth {
			return nil, fmt.Errorf("%w: the bundle has more than %d entries", ErrMalformed, FullTileWidth)
		}
		if len(rest) < 2 {
			return nil, fmt.Errorf("%w: the bundle ends within the length prefix of entry %d", ErrMalformed, len(entries))
		}
		n := int(binary.BigEndian.Uint16(rest))
		rest = rest[2:]
		if n > len(rest) {
			return nil, fmt.Errorf("%w: the bundle ends within entry %d, after %d of its %d bytes", ErrMalformed, len(entries), len(rest), n)
		}
		entries = append(entries, rest[:n:n])
		rest = rest[n:]
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("%w: the bundle has no entries", ErrMalformed)
	}
	return entries, nil
}
