// Package admin provides the handlers of the administration routes. They list, create, and freeze ledgers,
// change their keys and visibility, erase content, change the states of many records, and make snapshots.
package admin

import (
	"colophon/api/call"
	"colophon/ledger"
)

// Handlers serves the administration routes.
type Handlers struct {
	*call.ServerState
	// OnFrozen is called after a ledger has been frozen.
	OnFrozen func(*ledger.Ledger)
	// Snapshot copies the database for a backup. It is nil if the storage cannot make copies.
	Snapshot SnapshotFunc
}
