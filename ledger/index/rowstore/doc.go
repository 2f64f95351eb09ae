// Package rowstore keeps versioned rows in an embedded key-value engine. A row belongs to a
// keyspace and a dimension. Each version of a row is identified by the seq of the event that
// wrote it. Versions never change, so rows can be read as of any seq. The package does not
// know what rows mean. A Schema lists the dimensions and the lengths of their rows.
//
// Batches are not synced. A crash can lose the latest batches, but never a part of a batch.
// Each batch also stores the log position that it covers, so that the fold can continue from
// there. A damaged store is replaced by an empty one.
package rowstore
