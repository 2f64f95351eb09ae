package effects

import (
	"colophon/ledger/index"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/rowstore"
)

// conditions: identity of a variable and its value; a version for every ipc_id with that
// value, by the first run that shows it.
const conditions rowstore.Dimension = 0x83

// Family is which ipc_ids have which values.
func Family() index.Family {
	return index.Family{
		Rows: map[rowstore.Dimension]int{conditions: len(rowstore.Identity{})},
		New: func(f *index.Fold) index.Deriver {
			d := &deriver{Fold: f, groups: index.DeriverOf[*groups.Deriver](f)}
			d.groups.OnLoad(d.loadConditions)
			return d
		},
	}
}
