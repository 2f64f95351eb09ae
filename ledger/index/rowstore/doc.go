// Package rowstore keeps versioned rows in an embedded key-value engine. A row belongs to a
// keyspace and a dimension. A version of a row is the seq of the event that wrote it, and
// never changes, so rows can be read as of any seq. The package does not know what rows mean:
// a Schema says which dimensions there are and how long their rows are.
//
// The store is never synced. Each batch also writes the position that it brings the rows to,
// so after a crash the store is as it was after some earlier batch. A damaged store is
// replaced by an empty one.
package rowstore
