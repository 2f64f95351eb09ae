package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"

	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// The functions in this file read events without using the code under test.

// count parses an integer from 0 to 2^64-1. It returns false for any other value.
func count(v pyjson.Value) (uint64, bool) {
	raw := v.Raw()
	if v.Kind() != pyjson.Integer || raw[0] == '-' {
		return 0, false
	}
	if len(raw) < len("10000000000000000000") { // a longer number might not fit in 64 bits
		n := uint64(0)
		for _, digit := range raw {
			n = n*10 + uint64(digit-'0')
		}
		return n, true
	}
	n, err := strconv.ParseUint(string(raw), 10, 64)
	return n, err == nil
}

// digestOf returns the SHA-256 of a record's canonical form, leaving out the members whose names
// are listed in but.
func digestOf(r pyjson.Value, but ...string) proofs.Hash {
	covered := []byte{'{'}
	for name, value := range r.Members() {
		if !slices.Contains(but, string(name.Text())) {
			covered = append(append(append(append(covered, name.Raw()...), ':'), value.Raw()...), ',')
		}
	}
	if len(covered) > 1 {
		covered = covered[:len(covered)-1]
	}
	return sha256.Sum256(append(covered, '}'))
}

// parseDigest parses a SHA-256 in hexadecimal.
func parseDigest(text []byte) (h proofs.Hash, ok bool) {
	if len(text) != hex.EncodedLen(len(h)) {
		return h, false
	}
	_, err := hex.Decode(h[:], text)
	return h, err == nil
}
