// Package proofs lets third parties verify the ledger. It implements the hashes of the chain and
// the tree (spec: Entry and chain), the RFC 6962 tree in C2SP tiles, signed checkpoints (spec:
// Checkpoints), inclusion and consistency proofs, and receipts that verify without access to the
// ledger (spec: Receipts).
//
// The package does no I/O. Callers pass in bytes, and functions that read tiles. A program that
// verifies receipts needs to import only this package.
package proofs
