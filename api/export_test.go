package api

import (
	"colophon/api/limits"
)

// Weight is weight, for tests that are outside of the package.
var Weight = limits.Weight

// RetrievalMemory is what the chunks of a pinned retrieval weigh besides.
var RetrievalMemory = retrievalMemory
