// Package questions serves the routes that query a ledger's index and read its content.
// QueryHandler serves every query of ledger/query that has a path. The other handlers read a
// request body, or return something that is not in the index.
package questions

import (
	"colophon/api/call"
	"colophon/ledger/figures"
	"colophon/ledger/index/effects"
)

// Handlers serves the query routes.
type Handlers struct {
	*call.ServerState
	// FiguresCache keeps the similarity and lengths of compared texts, and readable names, for
	// later answers.
	FiguresCache *figures.Cache
	totals       effects.Cache
}
