// Package rowstore keeps versioned rows in an embedded key-value engine. A row belongs to a
// keyspace and a dimension. Each version of a row is identified by the seq of the event that
// wrote it, and never changes, so rows can be read as of any seq. The package does not know
// what rows mean: a Schema lists the dimensions and the lengths of their rows.
//
// The store is never synced. Each batch also writes the log position that it covers, so after
// a crash the store is in the state after some earlier batch. A damaged store is replaced by
// an empty one.
package rowstore
