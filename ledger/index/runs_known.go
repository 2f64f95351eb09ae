package index

import (
	"errors"

	engine "github.com/cockroachdb/pebble/v2"

	"colophon/internal/bloom"
)

// known are the groups that have runs, and the conditions, and the rows of outputs if
// knowsOutputs. They are read from the index when they are first wanted: before anything
// is folded. Most outputs and seeds are new.
func (f *fold) known() *bloom.Filter {
	if f.runs.known == nil {
		f.runs.known = bloom.New(bloom.Within(f.runs.spare))
		f.runs.knowsOutputs = true // until there is a group
		if err := errors.Join(f.loadGroups(), f.loadConditions()); err != nil {
			f.rows.fail("%w", err)
		}
	}
	return f.runs.known
}

// loadGroups adds the groups that the lists of their families have.
func (f *fold) loadGroups() error {
	return f.each(families, func(it *engine.Iterator) error {
		encoded, err := it.ValueAndErr()
		if err != nil {
			return wrapRead(err)
		}
		s := openStretch(versionOf(it.Key()), encoded)
		for more := s.err == nil; more; more = s.next() {
			id, err := memberOf(s.value)
			if err != nil {
				return err
			}
			f.runs.known.Add(id)
			f.runs.knowsOutputs = false
		}
		return s.err
	})
}

// loadConditions adds the conditions, each of which is a row.
func (f *fold) loadConditions() error {
	var last identity
	return f.each(conditions, func(it *engine.Iterator) error {
		key := it.Key()
		if id := identity(key[len(key)-versionBytes-len(last) : len(key)-versionBytes]); id != last {
			f.runs.known.Add(id)
			last = id
		}
		return nil
	})
}

// each goes through the keys of a dimension that are stored.
func (f *fold) each(d dimension, do func(it *engine.Iterator) error) (err error) {
	it, err := f.rows.engine.NewIter(&engine.IterOptions{LowerBound: f.rows.keys.key(nil, d), UpperBound: f.rows.keys.key(nil, d+1)})
	if err != nil {
		return wrapRead(err)
	}
	defer func() { err = errors.Join(err, wrapRead(it.Close())) }()
	for ok := it.First(); ok; ok = it.Next() {
		if err := do(it); err != nil {
			return err
		}
	}
	return wrapRead(it.Error())
}
