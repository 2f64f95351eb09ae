// Package reference computes the answers that a correct server gives, from a copy of its log. Log is
// the copy: it answers what follows from entries and tree alone, such as receipts, proofs, and
// events. Reference adds the index of the copy, and answers the questions to it. Package replay
// compares the answers with those of a server.
package reference
