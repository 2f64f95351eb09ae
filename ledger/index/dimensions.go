package index

import "colophon/ledger/index/rowstore"

// Dimensions that do not belong to any family.
const (
	// cursorDimension has one key. Its value is a cursor.
	cursorDimension rowstore.Dimension = 0x01
	// hashDimension locates events by event_hash. A key consists of the first hashBytes bytes of an
	// event_hash, followed by the seq (8 bytes) of the event.
	hashDimension rowstore.Dimension = 0x03
	// recordedMarks locates events by time. A key consists of the time of an event followed by its
	// seq (8 bytes). Only the first event of each block has a key.
	recordedMarks rowstore.Dimension = 0x20
	// recordedTimes maps the number of a block of events (8 bytes) to the times when these events
	// were recorded.
	recordedTimes rowstore.Dimension = 0x22
)

// SchemaOf returns the lengths of the rows of all families, by dimension.
func SchemaOf(families []Family) *rowstore.Schema {
	var schema rowstore.Schema
	for _, family := range families {
		for dimension, bytes := range family.RowBytes {
			schema[dimension] = bytes
		}
	}
	return &schema
}
