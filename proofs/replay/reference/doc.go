// Package reference computes the answers that a correct server would return, using a copy of its
// log. A Log is the copy. It computes answers that need only the entries and the tree, such as
// receipts, proofs, and events. An Answerer adds an index of the copy and answers questions from
// it. Package replay compares these answers with those of a server.
package reference
