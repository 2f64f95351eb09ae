//go:build withoutepoch

package postgres

// A build with this file can lose records: it takes over a ledger by reading the head, and never
// raises the epoch. Its only purpose is to show that the tests in e2e/ha detect such a fault.
const (
	takeFrom   = `SELECT ` + headColumns + ` FROM colophon_heads WHERE ledger = $1 AND $2::text <> '' AND ` + notMigrating
	takeMoving = `SELECT ` + headColumns + ` FROM colophon_heads WHERE ledger = $1 AND $2::text <> ''`
	takeOwn    = takeMoving
)
