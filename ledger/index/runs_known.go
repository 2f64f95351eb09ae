package index

import (
	"errors"

	"colophon/internal/bloom"
	"colophon/ledger/index/rowstore"
)

// known are the groups that have runs, and the conditions, and the rows of outputs if
// knowsOutputs. They are read from the index when they are first wanted: before anything
// is folded. Most outputs and seeds are new.
func (f *fold) known() *bloom.Filter {
	if f.runs.known == nil {
		f.runs.known = bloom.New(bloom.Within(f.runs.spare))
		f.runs.knowsOutputs = true // until there is a group
		if err := errors.Join(f.loadGroups(), f.loadConditions()); err != nil {
			f.rows.Fail("%w", err)
		}
	}
	return f.runs.known
}

// loadGroups adds the groups that the lists of their families have.
func (f *fold) loadGroups() error {
	return f.each(families, func(it *rowstore.Iterator) error {
		for member, err := range it.Versions() {
			if err != nil {
				return err
			}
			id, err := memberOf(member.Value)
			if err != nil {
				return err
			}
			f.runs.known.Add(id)
			f.runs.knowsOutputs = false
		}
		return nil
	})
}

// loadConditions adds the conditions, each of which is a row.
func (f *fold) loadConditions() error {
	var last rowstore.Identity
	return f.each(conditions, func(it *rowstore.Iterator) error {
		key := it.Key()
		if id := rowstore.Identity(key[len(key)-rowstore.VersionBytes-len(last) : len(key)-rowstore.VersionBytes]); id != last {
			f.runs.known.Add(id)
			last = id
		}
		return nil
	})
}

// each goes through the keys of a dimension that are stored.
func (f *fold) each(d rowstore.Dimension, do func(it *rowstore.Iterator) error) (err error) {
	it, err := f.rows.Iterate(f.rows.Keys.Key(nil, d), f.rows.Keys.Key(nil, d+1))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		if err := do(it); err != nil {
			return err
		}
	}
	return it.Error()
}
