// Package producers answers questions about the sequence numbers that producers have delivered.
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
	// producerList has one row, a byte 0, with one version for each new producer.
	producerList rowstore.Dimension = 0x9b
	// producersMissing has one row, a byte 0. Its value is the number of missing numbers of all
	// producers together.
	producersMissing rowstore.Dimension = 0x9c
)

// Family returns the rows and the deriver that answer questions about the sequence numbers that
// producers have delivered.
func Family() index.Family {
	const identity = len(rowstore.Identity{})
	return index.Family{
		Rows: map[rowstore.Dimension]int{
			producerStates: identity, producerNumbers: identity + 1 + rowstore.SeqBytes, producerRepeats: identity,
			producerList: 1, producersMissing: 1,
		},
		New: func(f *index.Fold) index.Deriver { return &deriver{Fold: f} },
	}
}
