// Package query answers questions about a ledger: it lists the families of questions that
// an index keeps rows for.
package query

import (
	"colophon/ledger/index"
	"colophon/ledger/index/citations"
	"colophon/ledger/index/effects"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/paths"
	"colophon/ledger/index/producers"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rundags"
)

// Families are all families of questions, each behind those that it builds on.
func Families() []index.Family {
	return []index.Family{
		records.Family(),
		producers.Family(),
		paths.Family(),
		citations.Family(),
		rundags.Family(),
		groups.Family(),
		effects.Family(),
	}
}

// Open opens an index of all families: see index.Open.
func Open(c index.Config) (*index.Store, error) {
	c.Families = Families()
	return index.Open(c)
}
