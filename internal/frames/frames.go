// Package frames looks for damage in the two sorts of files that Pebble reads by
// stopping, without a word, at the first thing that it cannot read: write-ahead logs and
// manifests. Both are sequences of chunks with checksums, in blocks of 32 KiB. They may
// end in the midst of a write that was under way when the power failed, which is how
// they end after a crash; a bit that has changed before the end looks the same to Pebble,
// which then takes what follows for never written, and deletes it.
package frames

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"
)

// The layout of a chunk, of Pebble's formats: CRC (4 bytes), length of the payload (2),
// encoding (1); in write-ahead logs then the number of the log (4) and how much of it was
// known to be synced (8). All are little-endian.
const (
	blockBytes     = 32 << 10
	atLength       = 4
	atEncoding     = 6
	atNumber       = 7
	atSynced       = 11
	manifestHeader = 7
	olderHeader    = 11 // of logs that do not say what is synced, as a new database's first, and of all trailers
	logHeader      = 19
)

// The encodings of chunks: the whole of a record, or the first, the middle, the last of
// its parts.
const (
	manifestWhole = 1
	manifestFirst = 2
	manifestLast  = 4
	olderWhole    = 5
	olderLast     = 8
	logWhole      = 9
	logLast       = 12
)

// What a manifest has at least, but for the first of a database.
const (
	firstManifest = 1
	leastRecords  = 2
)

// file is a file that is looked at.
type file struct {
	text   []byte
	header int
	least  byte // encodings of its chunks, from
	most   byte // to
	number uint32
}

// CheckLog is an error if a write-ahead log of that number is damaged before its end.
func CheckLog(text []byte, number uint64) error {
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

// CheckManifest is an error if a manifest of that number is damaged before its end. All
// but the first of a database come into force with two records, which are synced
// together: which tables there are, and the sequence number that writes have come to.
// Without the second one Pebble would number what it writes from the beginning again,
// and what is there already would hide that.
func CheckManifest(text []byte, number uint64) error {
	f := file{text, manifestHeader, manifestWhole, manifestLast, 0}
	if err := f.check(); err != nil {
		return err
	}
	if n := f.records(); number > firstManifest && n < leastRecords {
		return fmt.Errorf("damaged: it has %d records of at least %d", n, leastRecords)
	}
	return nil
}

// records counts the whole records from the beginning on.
func (f file) records() (n int) {
	for at := f.skip(0); f.sound(at, f.length(at)); at = f.skip(at + f.header + f.length(at)) {
		if encoding := f.text[at+atEncoding]; encoding == manifestWhole || encoding == manifestLast {
			n++
		}
	}
	return n
}

// check goes through the chunks.
func (f file) check() error {
	at := f.skip(0)
	for f.sound(at, f.length(at)) {
		at = f.skip(at + f.header + f.length(at))
	}
	switch {
	case f.ends(at):
		return nil
	case f.oneBitOff(at):
		return fmt.Errorf("damaged at byte %d: one bit of what was written there has changed", at)
	case f.goesOn(at):
		return fmt.Errorf("damaged at byte %d: what was written after it is there", at)
	}
	return nil
}

// skip is at, or the next block if this one has no room for a header.
func (f file) skip(at int) int {
	if left := blockBytes - at%blockBytes; left < f.header {
		return at + left
	}
	return at
}

// length is that of the payload of the chunk at a place, as it says; 0 at the end.
func (f file) length(at int) int {
	if at+f.header > len(f.text) {
		return 0
	}
	return int(binary.LittleEndian.Uint16(f.text[at+atLength:]))
}

// fits reports whether a chunk with a payload of that length is within its block and
// the file.
func (f file) fits(at, length int) bool {
	end := at + f.header + length
	return end <= len(f.text) && at%blockBytes+f.header+length <= blockBytes
}

// sound reports whether there is a chunk of this file with a payload of that length.
func (f file) sound(at, length int) bool {
	return f.fits(at, length) && f.own(f.text[at:]) && f.syndrome(at, length) == 0
}

// own reports whether a header is one of this file.
func (f file) own(header []byte) bool {
	encoding := header[atEncoding]
	return encoding >= f.least && encoding <= f.most &&
		(f.header == manifestHeader || binary.LittleEndian.Uint32(header[atNumber:]) == f.number)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// What is stored of a CRC is rotated by 17 bits, and this added.
const delta = 0xa282ead8

// sum is the CRC of a chunk with a payload of that length.
func (f file) sum(at, length int) uint32 {
	return crc32.Checksum(f.text[at+atEncoding:at+f.header+length], castagnoli)
}

// stored is what a chunk says of its CRC.
func (f file) stored(at int) uint32 { return binary.LittleEndian.Uint32(f.text[at:]) }

// syndrome is how the CRC of a chunk differs from the one that it has; 0 if they agree.
func (f file) syndrome(at, length int) uint32 {
	return bits.RotateLeft32(f.stored(at)-delta, 15) ^ f.sum(at, length)
}

// ends reports whether the file ends well at a place: with it, with zeros, which is room
// that was kept, with the trailer of a log, or with what an earlier log left in the file.
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
		earlier := file{f.text, f.header, f.least, f.most, number}
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

// oneBitOff reports whether the chunk at a place was sound before one bit of it changed:
// that is no write that was cut short.
func (f file) oneBitOff(at int) bool {
	if at+f.header > len(f.text) {
		return false
	}
	length := f.length(at)
	for bit := range 16 { // of the length, which the checksum does not cover
		if f.sound(at, length^1<<bit) {
			return true
		}
	}
	if !f.fits(at, length) {
		return false
	}
	syndrome := f.syndrome(at, length)
	if changed := f.stored(at) ^ (bits.RotateLeft32(f.sum(at, length), 17) + delta); f.own(f.text[at:]) && bits.OnesCount32(changed) == 1 {
		return true // of the checksum
	}
	place, mask, found := oneBit(length+f.header-atEncoding, syndrome)
	if !found {
		return false
	}
	header := append([]byte(nil), f.text[at:at+f.header]...)
	if place += atEncoding; place < f.header {
		header[place] ^= mask
	}
	return f.own(header)
}

// oneBit is where the one bit is, in a text of n bytes, that has changed its CRC by
// syndrome; false if no bit does that.
func oneBit(n int, syndrome uint32) (place int, mask byte, found bool) {
	var changed [8]uint32 // by each bit of a byte, when all behind it is taken in
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

// goesOn reports whether something stands behind the chunk at a place that can only have
// been written when that was safe: of a log a chunk that says so, of a manifest, whose
// records are synced one by one, the beginning of another record. It is looked for where
// that chunk ends, by its length, and at the beginning of each block after it. (The
// trailer of a log shows nothing: it may be written together with the last record. Nor
// do chunks of a log that do not say what is synced.)
func (f file) goesOn(at int) bool {
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

// proves goes through the sound chunks from a place on, and reports whether one shows
// that the one at damaged was there.
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
