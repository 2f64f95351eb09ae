package query

import (
	"colophon/client/wire"
	"colophon/ledger/figures"
)

// named returns a name, or nil if the answer has no names. tree returns the error.
func named[N any](v *View, find func(*figures.Names) (*N, error)) *N {
	if v.Names == nil || v.err != nil {
		return nil
	}
	name, err := find(v.Names)
	if err != nil {
		v.err = err
		return nil
	}
	return name
}

// groupName names the value that records have in common. first and last are two of the records.
func (v *View) groupName(by string, first, last uint64) *wire.Name {
	return named(v, func(n *figures.Names) (*wire.Name, error) { return n.Group(v.Context, by, first, last) })
}

// runNames names what an IPC record was made from, and its output.
func (v *View) runNames(seq uint64) *wire.RunNames {
	return named(v, func(n *figures.Names) (*wire.RunNames, error) { return n.Run(v.Context, seq) })
}

// textName names a text of a record by the name of its hash.
func (v *View) textName(seq uint64, hash string) *wire.Name {
	return named(v, func(n *figures.Names) (*wire.Name, error) { return n.Text(v.Context, seq, hash) })
}

// recordName names a record.
func (v *View) recordName(seq uint64) *wire.Name {
	return named(v, func(n *figures.Names) (*wire.Name, error) { return n.Record(v.Context, seq) })
}
