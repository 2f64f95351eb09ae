// Package proofs is what makes the ledger checkable by others: the hashes of
// the chain and the tree (spec: Entry and chain), the RFC 6962 tree kept as C2SP
// tiles, signed checkpoints (spec: Checkpoints), inclusion and consistency proofs, receipts
// (spec: Receipts) and their verification without the ledger.
//
// It is pure: bytes and reader functions in, values out. Auditors import this
// package alone.
package proofs
