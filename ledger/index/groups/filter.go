package groups

import (
	"colophon/internal/bloom"
	"colophon/ledger/index/rowstore"
)

// Known are the groups that have runs, and the conditions, and the rows of outputs if
// filterHasOutputs. They are read from the index when they are first wanted: before anything
// is folded. Most outputs and seeds are new.
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

// loadGroups adds the groups that the lists of their families have.
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

// load reads all that the filter must know.
func (f *Deriver) load() error {
	if err := f.loadGroups(); err != nil {
		return err
	}
	for _, load := range f.loaders {
		if err := load(f.runs.filter); err != nil {
			return err
		}
	}
	return nil
}
