// Package admin administers a server: it lists, creates, and freezes ledgers, changes their
// keys and visibility, erases content, changes the states of many records, and makes snapshots.
package admin

import (
	"colophon/api/call"
	"colophon/ledger"
)

// Handlers serves the routes of administration.
type Handlers struct {
	*call.Shared
	// Frozen is called after a ledger was frozen.
	Frozen func(*ledger.Ledger)
	// Snapshots copies the database for a backup. nil if the storage cannot.
	Snapshots Snapshot
}
