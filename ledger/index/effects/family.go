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
	// The key of a row in valueCombinations is the identity of a variable and its value. The row has one
	// empty version for each combination with that value, written by the first run of the
	// combination.
	valueCombinations rowstore.Dimension = 0x83
	// memberCombinations is like valueCombinations, but for payload members. The key of a row is the
	// digest of a member, which covers the member's pointer.
	memberCombinations rowstore.Dimension = 0x86
)

// Family returns the rows and the deriver that answer questions about the effect of one
// variable.
func Family() index.Family {
	return index.Family{
		Rows: map[rowstore.Dimension]int{valueCombinations: len(rowstore.Identity{}), memberCombinations: len(rowstore.Identity{})},
		New: func(f *index.Fold) index.Deriver {
			d := &deriver{Fold: f, groups: index.DeriverOf[*groups.Deriver](f)}
			d.groups.AddFilterDimensions(valueCombinations, memberCombinations)
			return d
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

// The next line fails to compile unless a digest of a payload member is as long as an identity.
var _ [members.DigestBytes]byte = rowstore.Identity{}
