package groups

import (
	"colophon/internal/bloom"
	"colophon/ledger/index/rowstore"
)

// Filter returns a filter that contains the groups that have runs, and the combinations that have rows. If
// filterHasOutputs is set, it also contains the rows of outputs. The first call loads the filter from
// the index, before anything is folded. Most groups and outputs are new, and the filter saves looking
// them up.
func (f *Deriver) Filter() *bloom.Filter {
	if f.runs.filter == nil {
		f.runs.filter = bloom.New(bloom.SharedReserveFunc(f.FilterBytesLeft))
		f.runs.filterHasOutputs = true // stays true only if there is no group yet
		if err := f.load(); err != nil {
			f.Rows.Failf("%w", err)
		}
	}
	return f.runs.filter
}

// loadGroups adds all groups to the filter.
func (f *Deriver) loadGroups() error {
	return f.Rows.ForEachKey(families, func(it *rowstore.Iterator) error {
		for member, err := range it.Versions() {
			if err != nil {
				return err
			}
			id, err := memberOf(member.Value)
			if err != nil {
				return err
			}
			f.runs.filter.Add(id)
			f.runs.filterHasOutputs = false
		}
		return nil
	})
}

// load adds all existing keys that the filter must contain.
func (f *Deriver) load() error {
	if err := f.loadGroups(); err != nil {
		return err
	}
	var last rowstore.Identity
	return f.Rows.ForEachKey(CombinationsDimension, func(it *rowstore.Iterator) error {
		key := it.Key()
		if id := rowstore.Identity(key[len(key)-rowstore.VersionSize-len(last) : len(key)-rowstore.VersionSize]); id != last {
			f.runs.filter.Add(id)
			last = id
		}
		return nil
	})
}
