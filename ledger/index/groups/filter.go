package groups

import (
	"colophon/internal/bloom"
	"colophon/ledger/index/rowstore"
)

// Filter returns the filter of groups that have runs, of combinations, of what AlsoLoad adds,
// and, if filterHasOutputs, of rows of outputs. It is loaded from the index at its first use,
// before anything is folded. It saves the lookup of most outputs and seeds, which are new.
func (f *Deriver) Filter() *bloom.Filter {
	if f.runs.filter == nil {
		f.runs.filter = bloom.New(bloom.Within(f.FilterBytes))
		f.runs.filterHasOutputs = true // until there is a group
		if err := f.load(); err != nil {
			f.Rows.Fail("%w", err)
		}
	}
	return f.runs.filter
}

// loadGroups adds all groups.
func (f *Deriver) loadGroups() error {
	return f.Rows.Each(families, func(it *rowstore.Iterator) error {
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

// load adds all that the filter must contain.
func (f *Deriver) load() error {
	if err := f.loadGroups(); err != nil {
		return err
	}
	for _, d := range append(f.loads, Combinations) {
		var last rowstore.Identity
		if err := f.Rows.Each(d, func(it *rowstore.Iterator) error {
			key := it.Key()
			if id := rowstore.Identity(key[len(key)-rowstore.VersionBytes-len(last) : len(key)-rowstore.VersionBytes]); id != last {
				f.runs.filter.Add(id)
				last = id
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
