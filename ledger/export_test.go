package ledger

// SetMaxPieceUses sets maxPieceUses to most until reset is called.
func SetMaxPieceUses(most int) (reset func()) {
	before := maxPieceUses
	maxPieceUses = most
	return func() { maxPieceUses = before }
}
