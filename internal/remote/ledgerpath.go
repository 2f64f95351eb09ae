package remote

import (
	"net/url"
)

// LedgerPath is where the API keeps a ledger.
func LedgerPath(name string) string { return "/v1/ledgers/" + url.PathEscape(name) }
