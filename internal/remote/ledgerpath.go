package remote

import (
	"net/url"
)

// LedgerPath returns the path of a ledger in the API.
func LedgerPath(name string) string { return "/v1/ledgers/" + url.PathEscape(name) }
