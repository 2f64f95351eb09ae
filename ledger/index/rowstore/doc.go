// Package rowstore keeps versioned rows in an embedded key-value engine. A row belongs to
// a keyspace and a dimension; each of its versions is the seq of the event that wrote it,
// and none ever changes, so that rows can be read as of any seq. It knows nothing of what
// the rows mean: what dimensions there are, and how long their rows are, is a Schema.
//
// The store is never synced: a batch carries whatever says how far it brings the rows, so
// what a crash leaves is the store as it was after some earlier batch. A damaged store is
// replaced by an empty one.
package rowstore
