// Package producers indexes the sequence numbers that producers have delivered, and answers queries
// about them.
package producers

import (
	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
)

// Dimensions of producers. In a key, a producer is represented by the rowstore.Identity of its id.
const (
	// producerStates maps a producer to what it has delivered so far.
	producerStates rowstore.Dimension = 0x98
	// producerNumbers maps a producer, a level (1 byte), and a block's index (8 bytes) to the
	// block. The block records which of its numbers, or which blocks of the level below, have been
	// delivered.
	producerNumbers rowstore.Dimension = 0x99
	// producerRepeats has one row for each producer, with one version for each record that repeats
	// a number.
	producerRepeats rowstore.Dimension = 0x9a
	// producerList has a single row, whose key is a zero byte, with one version for each new
	// producer.
	producerList rowstore.Dimension = 0x9b
	// producersMissing has a single row, whose key is a zero byte. Its value is the total count of
	// missing numbers across all producers.
	producersMissing rowstore.Dimension = 0x9c
)

// Family returns the index family for the sequence numbers that producers have delivered: its
// dimensions and its deriver.
func Family() index.Family {
	const identity = len(rowstore.Identity{})
	return index.Family{
		RowBytes: map[rowstore.Dimension]int{
			producerStates: identity, producerNumbers: identity + 1 + rowstore.SeqSize, producerRepeats: identity,
			producerList: 1, producersMissing: 1,
		},
		New: func(f *index.Fold) index.Deriver { return &deriver{Fold: f} },
	}
}
