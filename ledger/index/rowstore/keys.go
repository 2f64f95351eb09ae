package rowstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	engine "github.com/cockroachdb/pebble/v2"
)

// Dimension is the kind of a row or key. A key consists of a keyspace number (2 bytes), a dimension
// (1 byte), and a row. If the dimension has VersionedBit, a version (8 bytes) follows. A version is
// the inverted seq of the event that wrote it, so that newer versions sort first. The value of a
// versioned key is a version run, which contains one or more versions of the row. The key ends with
// the oldest version of the run. All rows of a versioned dimension have the same length.
type Dimension byte

// VersionedBit is set in dimensions whose keys end in a version.
const VersionedBit = 0x80

// numberDimension exists only in keyspace 0. It maps a name to the number of its keyspace.
const numberDimension Dimension = 0x00

// Schema maps a dimension to the length, in bytes, of the row within its keys.
type Schema [256]int

// Lengths of the parts of a key, in bytes.
const (
	VersionSize = 8 // length of the version at the end of a key
	SeqSize     = 8 // length of a seq
)

// Keyspace identifies the part of the index that belongs to one ledger. All keys in that part begin
// with the two bytes of the Keyspace. Number 0 is for the index's own keys.
type Keyspace [2]byte

// KeyspaceFromNumber returns the keyspace with the given number.
func KeyspaceFromNumber(n uint16) Keyspace {
	var k Keyspace
	binary.BigEndian.PutUint16(k[:], n)
	return k
}

func (k Keyspace) number() uint16 { return binary.BigEndian.Uint16(k[:]) }

// UpperBound returns a key that sorts after all keys of the keyspace. The keyspace with the highest
// possible number has no such key, but nextKeyspace never returns it.
func (k Keyspace) UpperBound() []byte {
	next := KeyspaceFromNumber(k.number() + 1)
	return next[:]
}

// AppendPrefix appends the prefix that all keys of a dimension share.
func (k Keyspace) AppendPrefix(dst []byte, d Dimension) []byte {
	return append(append(dst, k[:]...), byte(d))
}

// AppendVersion appends the part of a key that identifies a version of a row: the seq of the event
// that wrote the version, encoded so that later seqs sort first.
func AppendVersion(dst []byte, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(dst, math.MaxUint64-seq)
}

// DecodeVersion decodes the seq from the version at the end of a key.
func DecodeVersion(key []byte) uint64 {
	return math.MaxUint64 - binary.BigEndian.Uint64(key[len(key)-VersionSize:])
}

// AppendSeq appends a seq, encoded so that later seqs sort last.
func AppendSeq(dst []byte, seq uint64) []byte { return binary.BigEndian.AppendUint64(dst, seq) }

// DecodeSeq decodes a seq that AppendSeq encoded.
func DecodeSeq(value []byte) (uint64, error) {
	if len(value) != 8 {
		return 0, fmt.Errorf("a sequence number has %d bytes, but must have 8", len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}

// Identity is a hash that stands for a list of texts in a key. It is half of a SHA-256, so
// collisions are not expected.
type Identity [16]byte

// IdentityOf returns the Identity of a list of parts. It is the first half of a SHA-256 hash of the
// parts in order, each preceded by its length as a varint.
func IdentityOf(parts ...[]byte) Identity {
	var scratch [768]byte
	b := scratch[:0]
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	sum := sha256.Sum256(b)
	return Identity(sum[:len(Identity{})])
}

// split returns the length of a key without its version.
func (s *Schema) split(key []byte) int {
	const head = len(Keyspace{}) + 1
	if len(key) > head+VersionSize && len(key) == head+s[key[head-1]]+VersionSize {
		return len(key) - VersionSize
	}
	return len(key)
}

// comparer returns a comparer that orders keys by their bytes. It tells the engine where the
// version begins, so that the engine's filters can tell whether a row has any version.
func (s *Schema) comparer() *engine.Comparer {
	c := *engine.DefaultComparer
	c.Name = "colophon.index.1"
	c.Split = s.split
	// Shortened keys would confuse split, so keys are never shortened.
	c.Separator = func(dst, a, _ []byte) []byte { return append(dst, a...) }
	c.Successor = func(dst, a []byte) []byte { return append(dst, a...) }
	return &c
}

// UpperBound returns a key that sorts after every key that begins with prefix. more is the maximum
// number of bytes that such keys have after the prefix.
func UpperBound(prefix []byte, more int) []byte {
	return append(append(prefix[:len(prefix):len(prefix)], bytes.Repeat([]byte{0xff}, more)...), 0)
}
