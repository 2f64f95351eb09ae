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
	// A row of conditions has the identity of a variable and its value, and one empty version
	// for each combination with that value. The first run of the combination writes the
	// version.
	conditions rowstore.Dimension = 0x83
	// memberConditions is like conditions, for payload members. A row has the digest of a
	// member, which covers the member's pointer.
	memberConditions rowstore.Dimension = 0x86
)

// Family returns the rows and the deriver that answer questions about the effect of one
// variable.
func Family() index.Family {
	return index.Family{
		Rows: map[rowstore.Dimension]int{conditions: len(rowstore.Identity{}), memberConditions: len(rowstore.Identity{})},
		New: func(f *index.Fold) index.Deriver {
			d := &deriver{Fold: f, groups: index.DeriverOf[*groups.Deriver](f)}
			d.groups.AddFilterDimensions(conditions, memberConditions)
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

// The next line fails to compile unless a digest of a payload member is as long as an identity.
var _ [members.DigestBytes]byte = rowstore.Identity{}
