// Package frames finds damage in write-ahead logs and manifests before Pebble opens them.
//
// Both are sequences of chunks with checksums, in blocks of 32 KiB. After a crash, they can end in
// the middle of a write. Pebble therefore stops silently at the first chunk that it cannot read. A
// changed bit earlier in the file looks the same to Pebble: it treats everything after it as never
// written, and deletes it.
package frames

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"
)

// The layout of a chunk header in Pebble's formats: CRC (4 bytes), payload length (2), and encoding
// (1). In write-ahead logs, two fields follow: the log number (4) and the synced offset (8), up to
// which the log was known to be synced. All fields are little-endian.
const (
	blockBytes     = 32 << 10
	atLength       = 4
	atEncoding     = 6
	atNumber       = 7
	atSynced       = 11
	manifestHeader = 7
	olderHeader    = 11 // header length without the synced offset, in all trailers and in some logs, such as the first log of a new database
	logHeader      = 19
)

// The encodings of chunks: a whole record, or its first, middle, or last part.
const (
	manifestWhole = 1
	manifestFirst = 2
	manifestLast  = 4
	olderWhole    = 5
	olderLast     = 8
	logWhole      = 9
	logLast       = 12
)

// Every manifest except the first of a database has at least two records.
const (
	firstManifest = 1
	leastRecords  = 2
)

// file holds the content of a log or manifest and the properties that its chunks must have.
type file struct {
	text        []byte
	header      int
	minEncoding byte   // smallest valid encoding of a chunk
	maxEncoding byte   // largest valid encoding of a chunk
	number      uint32 // log number, which is repeated in each chunk header; 0 for a manifest
}

// CheckWAL returns an error if text, the write-ahead log with the given number, is damaged before
// its end.
func CheckWAL(text []byte, number uint64) error {
	log := file{text, logHeader, logWhole, logLast, uint32(number)}
	older := file{text, olderHeader, olderWhole, olderLast, uint32(number)}
	switch {
	case log.sound(0, log.length(0)):
		return log.check()
	case older.sound(0, older.length(0)):
		return older.check()
	}
	return errors.Join(log.check(), older.check())
}

// CheckManifest returns an error if text, the manifest with the given number, is damaged before its
// end. Every manifest except the first of a database begins with two records that are synced
// together: the list of tables and the last sequence number. Without the second record, Pebble
// would restart its sequence numbers, and old entries would hide new ones.
func CheckManifest(text []byte, number uint64) error {
	f := file{text, manifestHeader, manifestWhole, manifestLast, 0}
	if err := f.check(); err != nil {
		return err
	}
	if n := f.records(); number > firstManifest && n < leastRecords {
		return fmt.Errorf("damaged: the file has %d records, but must have at least %d", n, leastRecords)
	}
	return nil
}

// records counts the complete records before the first invalid chunk.
func (f file) records() (n int) {
	for at := f.skip(0); f.sound(at, f.length(at)); at = f.skip(at + f.header + f.length(at)) {
		if encoding := f.text[at+atEncoding]; encoding == manifestWhole || encoding == manifestLast {
			n++
		}
	}
	return n
}

// check reads the chunks up to the first invalid one. It returns an error if that chunk was
// damaged, but not if the write of that chunk was interrupted.
func (f file) check() error {
	at := f.skip(0)
	for f.sound(at, f.length(at)) {
		at = f.skip(at + f.header + f.length(at))
	}
	switch {
	case f.ends(at):
		return nil
	case f.oneBitOff(at):
		return fmt.Errorf("damaged at byte %d: one bit has changed", at)
	case f.hasSuccessor(at):
		return fmt.Errorf("damaged at byte %d: the data after that byte is intact, so the damage is not an incomplete write", at)
	}
	return nil
}

// skip returns the offset at which the next chunk can begin. If the block has no room for a header,
// this is the next block; otherwise, it is at.
func (f file) skip(at int) int {
	if left := blockBytes - at%blockBytes; left < f.header {
		return at + left
	}
	return at
}

// length returns the payload length in the header of the chunk at offset at, or 0 if the file ends
// before the end of that header.
func (f file) length(at int) int {
	if at+f.header > len(f.text) {
		return 0
	}
	return int(binary.LittleEndian.Uint16(f.text[at+atLength:]))
}

// fits reports whether a chunk at offset at with the given payload length lies within one block and
// within the file.
func (f file) fits(at, length int) bool {
	end := at + f.header + length
	return end <= len(f.text) && at%blockBytes+f.header+length <= blockBytes
}

// sound reports whether a valid chunk with the given payload length begins at offset at.
func (f file) sound(at, length int) bool {
	return f.fits(at, length) && f.ownsHeader(f.text[at:]) && f.syndrome(at, length) == 0
}

// ownsHeader reports whether a chunk header belongs to this file, that is, whether it has a valid encoding
// and the right log number.
func (f file) ownsHeader(header []byte) bool {
	encoding := header[atEncoding]
	return encoding >= f.minEncoding && encoding <= f.maxEncoding &&
		(f.header == manifestHeader || binary.LittleEndian.Uint32(header[atNumber:]) == f.number)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A CRC is stored rotated by 17 bits, with crcMaskDelta added.
const crcMaskDelta = 0xa282ead8

// sum computes the CRC of the chunk at offset at with the given payload length.
func (f file) sum(at, length int) uint32 {
	return crc32.Checksum(f.text[at+atEncoding:at+f.header+length], castagnoli)
}

// storedCRC returns the CRC in the header of the chunk at offset at, in its stored form.
func (f file) storedCRC(at int) uint32 { return binary.LittleEndian.Uint32(f.text[at:]) }

// syndrome returns the XOR of the CRC in the chunk's header and the computed CRC. The result is 0
// if they match.
func (f file) syndrome(at, length int) uint32 {
	return bits.RotateLeft32(f.storedCRC(at)-crcMaskDelta, 15) ^ f.sum(at, length)
}

// ends reports whether the content can end at offset at. It can end there if the file ends, or if
// zeros (reserved space), the trailer of a log, or the remains of an earlier log follow.
func (f file) ends(at int) bool {
	if at >= len(f.text) {
		return true
	}
	rest := f.text[at:]
	if f.header != manifestHeader && len(rest) >= olderHeader {
		number := binary.LittleEndian.Uint32(rest[atNumber:])
		if rest[atEncoding] == olderWhole && number == f.number+1 {
			return true
		}
		earlier := file{f.text, f.header, f.minEncoding, f.maxEncoding, number}
		if number != f.number && earlier.sound(at, f.length(at)) {
			return true
		}
	}
	for _, b := range rest {
		if b != 0 {
			return false
		}
	}
	return true
}

// oneBitOff reports whether the chunk at offset at would be valid if one bit were flipped. An
// interrupted write does not leave such a chunk behind.
func (f file) oneBitOff(at int) bool {
	if at+f.header > len(f.text) {
		return false
	}
	length := f.length(at)
	for bit := range 16 { // the CRC does not cover the length, so try flipping each bit of the length
		if f.sound(at, length^1<<bit) {
			return true
		}
	}
	if !f.fits(at, length) {
		return false
	}
	syndrome := f.syndrome(at, length)
	if changed := f.storedCRC(at) ^ (bits.RotateLeft32(f.sum(at, length), 17) + crcMaskDelta); f.ownsHeader(f.text[at:]) && bits.OnesCount32(changed) == 1 {
		return true // the flipped bit is in the checksum itself
	}
	place, mask, found := oneBit(length+f.header-atEncoding, syndrome)
	if !found {
		return false
	}
	header := append([]byte(nil), f.text[at:at+f.header]...)
	if place += atEncoding; place < f.header {
		header[place] ^= mask
	}
	return f.ownsHeader(header)
}

// oneBit finds the bit of an n-byte text that changes the CRC by syndrome if it is flipped. place
// is the offset of the byte that contains the bit. found is false if there is no such bit.
func oneBit(n int, syndrome uint32) (place int, mask byte, found bool) {
	var changed [8]uint32 // how each bit of the byte at place changes the CRC
	for bit := range changed {
		changed[bit] = castagnoli[1<<bit]
	}
	for place = n - 1; place >= 0; place-- {
		for bit, by := range changed {
			if by == syndrome {
				return place, 1 << bit, true
			}
			changed[bit] = castagnoli[by&0xff] ^ by>>8
		}
	}
	return 0, 0, false
}

// hasSuccessor reports whether a later chunk proves that the chunk at offset at was once synced. In
// a log, the proof is a chunk whose synced offset is larger than at. In a manifest, whose records
// are synced one by one, it is the start of another record. The search starts where the chunk ends
// according to its header, and again at the start of each later block. A log's trailer proves
// nothing, because it can be written together with the last record. Chunks without a synced offset
// prove nothing either.
func (f file) hasSuccessor(at int) bool {
	if f.fits(at, f.length(at)) && f.proves(f.skip(at+f.header+f.length(at)), at) {
		return true
	}
	for block := at - at%blockBytes + blockBytes; block < len(f.text); block += blockBytes {
		if f.proves(block, at) {
			return true
		}
	}
	return false
}

// proves reports whether any of the consecutive sound chunks that start at offset from shows that
// the chunk at offset damaged was once synced.
func (f file) proves(from, damaged int) bool {
	for ; f.sound(from, f.length(from)); from = f.skip(from + f.header + f.length(from)) {
		encoding := f.text[from+atEncoding]
		switch {
		case f.header == manifestHeader && (encoding == manifestWhole || encoding == manifestFirst):
			return true
		case f.header == logHeader && binary.LittleEndian.Uint64(f.text[from+atSynced:]) > uint64(damaged):
			return true
		}
	}
	return false
}
