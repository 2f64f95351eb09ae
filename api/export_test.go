package api

// Weight is weight, for tests that are outside of the package.
var Weight = weight

// RetrievalMemory is what the chunks of a pinned retrieval weigh besides.
var RetrievalMemory = retrievalMemory
