// Package reference computes the answers that a correct server would give, from a copy of its log.
// Log is the copy. It computes what follows from the entries and the tree alone, such as receipts,
// proofs, and events. Reference adds an index of the copy and answers questions from it. Package
// replay compares these answers with those of a server.
package reference
