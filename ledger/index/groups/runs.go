package groups

import (
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
)

// RunQuery chooses runs: those of one group.
type RunQuery struct {
	records.Value
	Any bool // runs of any state, not only live ones
}

// ID is the identity of the group.
func (q *RunQuery) ID() rowstore.Identity { return rowstore.Identify([]byte(q.Name), []byte(q.Text)) }

// IsRunVersion reports whether a version of a group was made by a run.
func IsRunVersion(r rowstore.Version) bool { return HasFlag(r, records.IsRun) }

// Brings reports whether a version of a group has a flag.
func HasFlag(r rowstore.Version, flag byte) bool {
	return len(r.Value) > 0 && r.Value[0]&flag != 0
}
