// Package effects is the family of questions about effects: what changes if one variable of a
// run changes (spec: Effects of a variable).
package effects

import (
	"encoding/hex"

	"colophon/ledger/index"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record/members"
)

const (
	// conditions: identity of a variable and its value; one empty version for each combination
	// with that value, written by its first run.
	conditions rowstore.Dimension = 0x83
	// memberConditions: the same for a payload member. The digest of the member, which covers
	// its pointer, identifies it.
	memberConditions rowstore.Dimension = 0x86
)

// Family answers questions about the effect of one variable.
func Family() index.Family {
	return index.Family{
		Rows: map[rowstore.Dimension]int{conditions: len(rowstore.Identity{}), memberConditions: len(rowstore.Identity{})},
		New: func(f *index.Fold) index.Deriver {
			d := &deriver{Fold: f, groups: index.DeriverOf[*groups.Deriver](f)}
			d.groups.AlsoLoad(conditions, memberConditions)
			return d
		},
	}
}

// memberID returns the identity of a digest in memberConditions, which is the digest's bytes.
// It returns zero for a text that is not a digest.
func memberID(digest []byte) (id rowstore.Identity) {
	if len(digest) == hex.EncodedLen(len(id)) {
		_, _ = hex.Decode(id[:], digest)
	}
	return id
}

// This fails to compile unless a digest of a payload member is as long as an identity.
var _ [members.DigestBytes]byte = rowstore.Identity{}
