//go:build !withoutepoch

package postgres

// Statements that take over a ledger. Each raises the epoch (see the package comment).
const (
	takeFrom = `UPDATE colophon_heads SET epoch = epoch + 1, writer = $2 WHERE ledger = $1 AND ` + notMigrating + ` RETURNING ` + headColumns
	// takeMoving is like takeFrom, but also works while a migration has locked the database.
	takeMoving = `UPDATE colophon_heads SET epoch = epoch + 1, writer = $2 WHERE ledger = $1 RETURNING ` + headColumns
	// takeOwn updates nothing if another process has taken over the ledger.
	takeOwn = `UPDATE colophon_heads SET epoch = epoch + 1 WHERE ledger = $1 AND writer = $2 RETURNING ` + headColumns
)
