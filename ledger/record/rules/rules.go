// Package rules implements the rules for texts, JSON, and hashes (spec: Hashes) as pure functions.
// Each rule has one implementation. The ledger uses it to hash records before it logs them. Audits,
// nested proofs, and offline verification use it to recompute what a log claims. Tests compare each
// implementation with CPython and with the vectors in testdata.
package rules

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"colophon/ledger/record/pyjson"
)

// Version is the version of the rules that this package implements.
const Version = 1

// Hash is a SHA-256 value.
type Hash = [sha256.Size]byte

// AppendHex appends h in lower-case hexadecimal digits.
func AppendHex(dst []byte, h Hash) []byte { return hex.AppendEncode(dst, h[:]) }

// JSONHash returns the SHA-256 of v in compact canonical JSON, encoded as WTF-8 (spec: Run-DAG
// hashes). It uses scratch as a buffer and returns it so that the next call can reuse it.
func JSONHash(scratch []byte, v pyjson.Value) (Hash, []byte) {
	scratch = v.AppendCanonical(scratch[:0], pyjson.CompactForm)
	return sha256.Sum256(scratch), scratch
}

// objectHash returns the JSON hash of an object. It calls members to write the object's members.
func objectHash(members func(w *pyjson.Builder)) Hash {
	w := new(pyjson.Builder)
	w.BeginObject()
	members(w)
	w.EndObject()
	return sha256.Sum256(w.Buf)
}

// notHex is 0 for the lower-case hexadecimal digits and 1 for all other bytes.
var notHex = func() (table [256]byte) {
	for c := range table {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			table[c] = 1
		}
	}
	return table
}()

// IsHexDigits reports whether text consists of exactly n lower-case hexadecimal digits.
func IsHexDigits(text []byte, n int) bool {
	bad := byte(0)
	for _, c := range text {
		bad |= notHex[c]
	}
	return len(text) == n && bad == 0
}

// IsDigest reports whether text is a SHA-256 in 64 lower-case hexadecimal digits (spec: Canonical
// JSON). It tests eight bytes at a time, because an event contains many digests (BenchmarkExtend in
// proofs/audit).
func IsDigest(text []byte) bool {
	const each = 0x0101010101010101 // multiplying by it copies a byte into all eight bytes
	if len(text) != hex.EncodedLen(sha256.Size) {
		return false
	}
	bad := uint64(0)
	for ; len(text) > 0; text = text[8:] {
		x := binary.LittleEndian.Uint64(text)
		low := x & (0x7f * each) // because the top bits are cleared, no sum carries into the next byte
		digit := (low + (0x80-'0')*each) &^ (low + (0x80-'9'-1)*each)
		letter := (low + (0x80-'a')*each) &^ (low + (0x80-'f'-1)*each)
		bad |= x | ^(digit | letter)
	}
	return bad&(0x80*each) == 0
}

// IsChunkHash reports whether text is a chunk hash with ChunkHashPrefix (spec: Citation hashes).
func IsChunkHash(text []byte) bool {
	digits, ok := bytes.CutPrefix(text, []byte(ChunkHashPrefix))
	return ok && IsDigest(digits)
}

// rawHash decodes a hash from hexadecimal digits. The caller must make sure that IsDigest(digits)
// is true; otherwise rawHash panics.
func rawHash(digits []byte) Hash {
	var raw Hash
	if len(digits) != hex.EncodedLen(len(raw)) {
		panic("rules: unchecked hash: wrong length")
	}
	if _, err := hex.Decode(raw[:], digits); err != nil {
		panic("rules: unchecked hash: " + err.Error())
	}
	return raw
}
