// Package proofs lets others verify the ledger. It has the hashes of the chain and the tree
// (spec: Entry and chain), the RFC 6962 tree in C2SP tiles, signed checkpoints (spec:
// Checkpoints), inclusion and consistency proofs, and receipts (spec: Receipts), which verify
// without the ledger.
//
// The package does no I/O: callers pass bytes and reader functions. Auditors need to import
// only this package.
package proofs
