// Package questions answers what a ledger's index and content say. The questions of
// ledger/query need no handler of their own: Ask answers them all. The other handlers read a
// body, or answer what is not a row of the index.
package questions

import (
	"colophon/api/call"
	"colophon/ledger/figures"
	"colophon/ledger/query"
)

// Handlers answers questions.
type Handlers struct {
	*call.Shared
	Figures *figures.Cache
	totals  query.Totals
}
