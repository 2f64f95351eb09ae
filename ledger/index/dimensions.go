package index

import "colophon/ledger/index/rowstore"

// Dimensions that belong to no family. The comment of each lists the parts of its key after
// the colon, and its value after the semicolon.
const (
	// cursorDimension: one key; a cursor.
	cursorDimension rowstore.Dimension = 0x01
	// hashDimension: the first hashBytes of an event_hash, and the seq (8).
	hashDimension rowstore.Dimension = 0x03
	// recordedMarks: the time of an event and its seq (8), stored for one event in each block.
	recordedMarks rowstore.Dimension = 0x20
	// recordedTimes: the number of a block of events (8); the times at which they were
	// recorded.
	recordedTimes rowstore.Dimension = 0x22
)

// SchemaOf returns the lengths of the rows of all families.
func SchemaOf(families []Family) *rowstore.Schema {
	var schema rowstore.Schema
	for _, family := range families {
		for dimension, bytes := range family.Rows {
			schema[dimension] = bytes
		}
	}
	return &schema
}
