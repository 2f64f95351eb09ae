package index

import (
	"encoding/binary"
	"fmt"

	"colophon/storage"
)

// A key is the ledger's name behind a byte with its length, a dimension, and
// what the dimension is ordered by.
type dimension byte

const (
	// cursorDimension has one key, whose value is a state.
	cursorDimension dimension = 0x01
	// hashDimension leads from event_hash to seq (8 bytes, big-endian).
	hashDimension dimension = 0x02
	// endDimension is beyond all others.
	endDimension dimension = 0xff
)

// keyspace is the part of the index that belongs to one ledger: the bytes that
// all its keys begin with.
type keyspace []byte

func newKeyspace(ledger string) keyspace {
	return append(keyspace{byte(len(ledger))}, ledger...)
}

// key appends the beginning that all keys of a dimension share.
func (k keyspace) key(dst []byte, d dimension) []byte {
	return append(append(dst, k...), byte(d))
}

func (k keyspace) eventHash(dst []byte, hash storage.Hash) []byte {
	return append(k.key(dst, hashDimension), hash[:]...)
}

func appendSeq(dst []byte, seq uint64) []byte { return binary.BigEndian.AppendUint64(dst, seq) }

func decodeSeq(value []byte) (uint64, error) {
	if len(value) != 8 {
		return 0, fmt.Errorf("a sequence number of %d bytes", len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}
