package index

import "colophon/ledger/index/rowstore"

// Dimensions that do not belong to any family.
const (
	// cursorDimension has one key. Its value is a cursor.
	cursorDimension rowstore.Dimension = 0x01
	// A key in hashDimension consists of the first hashBytes bytes of an event_hash, followed by
	// the seq (8 bytes).
	hashDimension rowstore.Dimension = 0x03
	// A key in recordedMarks consists of the time of an event followed by its seq (8 bytes). There
	// is one key for each block of events.
	recordedMarks rowstore.Dimension = 0x20
	// recordedTimes maps the number of a block of events (8 bytes) to the times when these events
	// were recorded.
	recordedTimes rowstore.Dimension = 0x22
)

// SchemaOf returns the lengths of the rows of all families, by dimension.
func SchemaOf(families []Family) *rowstore.Schema {
	var schema rowstore.Schema
	for _, family := range families {
		for dimension, bytes := range family.Rows {
			schema[dimension] = bytes
		}
	}
	return &schema
}
