// Package query answers questions about a ledger: it lists the families of questions that
// an index keeps rows for.
package query

import "colophon/ledger/index"

// Families are all families of questions, each behind those that it builds on.
func Families() []index.Family {
	return []index.Family{
		index.RecordsFamily(),
		index.ProducersFamily(),
		index.PathsFamily(),
		index.CitationsFamily(),
		index.RundagsFamily(),
		index.GroupsFamily(),
		index.EffectsFamily(),
	}
}

// Open opens an index of all families: see index.Open.
func Open(c index.Config) (*index.Store, error) {
	c.Families = Families()
	return index.Open(c)
}
