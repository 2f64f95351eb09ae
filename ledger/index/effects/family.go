// Package effects is the family of questions about effects: what changes if one variable of a
// run changes (spec: Effects of a variable).
package effects

import (
	"colophon/ledger/index"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/rowstore"
)

// conditions: identity of a variable and its value; one version for each combination with that
// value, written by the combination's first run: the length of the list.
const conditions rowstore.Dimension = 0x83

// Family answers questions about the effect of one variable.
func Family() index.Family {
	return index.Family{
		Rows: map[rowstore.Dimension]int{conditions: len(rowstore.Identity{})},
		New: func(f *index.Fold) index.Deriver {
			d := &deriver{Fold: f, groups: index.DeriverOf[*groups.Deriver](f)}
			d.groups.AlsoLoad(conditions)
			return d
		},
	}
}
