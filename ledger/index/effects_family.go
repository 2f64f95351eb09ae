package index

import "colophon/ledger/index/rowstore"

// conditions: identity of a variable and its value; a version for every ipc_id with that
// value, by the first run that shows it.
const conditions rowstore.Dimension = 0x83

// EffectsFamily is which ipc_ids have which values.
func EffectsFamily() Family {
	return Family{
		Rows: map[rowstore.Dimension]int{conditions: len(rowstore.Identity{})},
		New: func(f *Fold) Deriver {
			d := &effectsDeriver{Fold: f, groups: DeriverOf[*GroupsDeriver](f)}
			d.groups.OnLoad(d.loadConditions)
			return d
		},
	}
}
