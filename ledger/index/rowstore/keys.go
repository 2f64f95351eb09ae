package rowstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	engine "github.com/cockroachdb/pebble/v2"
)

// Dimension is one kind of row, or of key. A key is the number of a keyspace (2 bytes), a
// dimension (1), and what the dimension is ordered by. Keys of dimensions with VersionedBit
// end in a version: the seq of an event that wrote the row, inverted, so that the newest
// comes first. Such a key holds a version run and ends in the oldest version of it. What
// stands between has one length in each dimension.
type Dimension byte

// VersionedBit marks the dimensions whose keys end in a version.
const VersionedBit = 0x80

// numberDimension, in keyspace 0 only, leads from a name to the number of its keyspace.
const numberDimension Dimension = 0x00

// Schema is, by dimension, the length of what stands before a version.
type Schema [256]int

// VersionBytes is the length of a version, SeqBytes that of a seq.
const (
	VersionBytes = 8
	SeqBytes     = 8
)

// Keyspace is the part of the index that belongs to one ledger: the bytes that
// all its keys begin with. Number 0 is the index's own.
type Keyspace [2]byte

func KeyspaceNumbered(n uint16) Keyspace {
	var k Keyspace
	binary.BigEndian.PutUint16(k[:], n)
	return k
}

// End is beyond all keys of the keyspace. The last number has none.
func (k Keyspace) End() []byte {
	next := KeyspaceNumbered(binary.BigEndian.Uint16(k[:]) + 1)
	return next[:]
}

// Key appends the beginning that all keys of a dimension share.
func (k Keyspace) Key(dst []byte, d Dimension) []byte {
	return append(append(dst, k[:]...), byte(d))
}

// AppendVersion appends a seq so that later ones come first.
func AppendVersion(dst []byte, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(dst, math.MaxUint64-seq)
}

// VersionOf is the seq that a key ends in.
func VersionOf(key []byte) uint64 {
	return math.MaxUint64 - binary.BigEndian.Uint64(key[len(key)-VersionBytes:])
}

func AppendSeq(dst []byte, seq uint64) []byte { return binary.BigEndian.AppendUint64(dst, seq) }

func DecodeSeq(value []byte) (uint64, error) {
	if len(value) != 8 {
		return 0, fmt.Errorf("a sequence number of %d bytes", len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}

// Identity stands for texts of any length in keys: half a SHA-256, which nobody
// finds a second text for.
type Identity [16]byte

// Identify is the identity of some texts, in that order.
func Identify(parts ...[]byte) Identity {
	var scratch [256]byte
	b := scratch[:0]
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	sum := sha256.Sum256(b)
	return Identity(sum[:len(Identity{})])
}

// split is the length of a key without its version.
func (s *Schema) split(key []byte) int {
	const head = len(Keyspace{}) + 1
	if len(key) > head+VersionBytes && len(key) == head+s[key[head-1]]+VersionBytes {
		return len(key) - VersionBytes
	}
	return len(key)
}

// comparer orders keys by their bytes, and tells the engine where the version
// begins, so that its filters answer whether a row has any version at all.
func (s *Schema) comparer() *engine.Comparer {
	c := *engine.DefaultComparer
	c.Name = "colophon.index.1"
	c.Split = s.split
	// Keys between others keep their form, for split.
	c.Separator = func(dst, a, _ []byte) []byte { return append(dst, a...) }
	c.Successor = func(dst, a []byte) []byte { return append(dst, a...) }
	return &c
}

// Behind is a key behind all that have so many bytes after a prefix.
func UpperBound(prefix []byte, more int) []byte {
	return append(append(prefix[:len(prefix):len(prefix)], bytes.Repeat([]byte{0xff}, more)...), 0)
}
