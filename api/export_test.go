package api

import (
	"colophon/api/limits"
)

// Weight is limits.Weight, for tests outside the package.
var Weight = limits.Weight

// RetrievalMemory is the memory of the chunks of a pinned retrieval beyond their bytes.
var RetrievalMemory = retrievalMemory
