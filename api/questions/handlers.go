// Package questions serves the routes that read a ledger's index and content. The questions of
// ledger/query need no handler of their own: Ask serves them all. The other handlers read a
// request body, or return something that is not in the index.
package questions

import (
	"colophon/api/call"
	"colophon/ledger/figures"
	"colophon/ledger/query"
)

// Handlers serves the questions.
type Handlers struct {
	*call.Shared
	Figures *figures.Cache
	totals  query.Totals
}
