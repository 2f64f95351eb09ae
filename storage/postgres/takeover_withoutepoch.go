//go:build withoutepoch

package postgres

// A build that loses records: it takes a ledger over by reading the head, and never raises the
// epoch. Tests in e2e/ha show that they find this.
const (
	takeFrom   = `SELECT ` + headColumns + ` FROM colophon_heads WHERE ledger = $1 AND $2::text <> '' AND ` + notMoved
	takeMoving = `SELECT ` + headColumns + ` FROM colophon_heads WHERE ledger = $1 AND $2::text <> ''`
	takeOwn    = takeMoving
)
