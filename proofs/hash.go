package proofs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// HashSize is the length of a Hash in bytes.
const HashSize = sha256.Size

// Hash is a SHA-256 value.
type Hash = [HashSize]byte

// leafPrefix and nodePrefix separate the domains of leaf hashes and node hashes (RFC 6962, section
// 2.1).
const (
	leafPrefix = 0x00
	nodePrefix = 0x01
)

// EventHash returns the chain hash of an event with the given body (spec: Entry and chain). prev is
// the chain hash of the previous event, or the zero Hash for the first event.
func EventHash(prev Hash, body []byte) Hash {
	return sum(prev[:], body)
}

// LeafHash returns the RFC 6962 leaf hash of an entry, including its prev_event_hash.
func LeafHash(entry []byte) Hash {
	return sum([]byte{leafPrefix}, entry)
}

// sum hashes head followed by tail. It does not allocate if their total length is at most 4,096
// bytes.
func sum(head, tail []byte) Hash {
	var usual [4096]byte
	return sha256.Sum256(append(append(usual[:0], head...), tail...))
}

// NodeHash returns the RFC 6962 hash of an inner node with the given children.
func NodeHash(left, right Hash) Hash {
	var b [1 + 2*HashSize]byte
	b[0] = nodePrefix
	copy(b[1:], left[:])
	copy(b[1+HashSize:], right[:])
	return sha256.Sum256(b[:])
}

// EmptyRoot returns the root of a tree without leaves, which is the hash of the empty string.
func EmptyRoot() Hash {
	return sha256.Sum256(nil)
}

// ParseHash parses a hash, which must consist of exactly 64 lower-case hexadecimal digits. It
// returns ErrMalformed for any other text.
func ParseHash(text string) (Hash, error) {
	var h Hash
	if len(text) == hex.EncodedLen(HashSize) {
		_, err := hex.Decode(h[:], []byte(text))
		if err == nil && hex.EncodeToString(h[:]) == text {
			return h, nil
		}
	}
	return Hash{}, fmt.Errorf("%w: %.100q is not a hash of 64 lower-case hexadecimal digits", ErrMalformed, text)
}
