package counters

import "colophon/ledger/index/rowstore"

// counterDimension maps the name of a counter to its value.
const counterDimension rowstore.Dimension = 0x02
