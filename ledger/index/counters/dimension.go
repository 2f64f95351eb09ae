package counters

import "colophon/ledger/index/rowstore"

// counterDimension: the name of a counter; its value.
const counterDimension rowstore.Dimension = 0x02
