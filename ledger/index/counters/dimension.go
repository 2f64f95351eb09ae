package counters

import "colophon/ledger/index/rowstore"

// counterDimension leads from the name of a counter to its value.
const counterDimension rowstore.Dimension = 0x02
