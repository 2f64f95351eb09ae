// Package effects answers questions about effects: what changes if one variable of a run changes
// (spec: Effects of a variable).
package effects

import (
	"encoding/hex"

	"colophon/ledger/index"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record/members"
)

const (
	// valueCombinations lists the combinations with a given value of a variable. The key of a row is the
	// identity of the variable and the value. The first run of each combination adds an empty version to
	// the row.
	valueCombinations rowstore.Dimension = 0x83
	// memberCombinations is like valueCombinations, but for payload members. The key of a row is the
	// digest of a member, which covers the member's pointer.
	memberCombinations rowstore.Dimension = 0x86
)

// Family returns the rows and the deriver that answer questions about the effect of one
// variable.
func Family() index.Family {
	return index.Family{
		RowBytes: map[rowstore.Dimension]int{valueCombinations: len(rowstore.Identity{}), memberCombinations: len(rowstore.Identity{})},
		New: func(f *index.Fold) index.Deriver {
			return &deriver{Fold: f, groups: index.DeriverOf[*groups.Deriver](f)}
		},
	}
}

// memberID returns the key in memberCombinations for a member with the given hex digest. It returns
// zero if the length is not that of a digest.
func memberID(digest []byte) (id rowstore.Identity) {
	if len(digest) == hex.EncodedLen(len(id)) {
		_, _ = hex.Decode(id[:], digest)
	}
	return id
}

// This declaration fails to compile if a member digest and an identity differ in length.
var _ [members.DigestSize]byte = rowstore.Identity{}
