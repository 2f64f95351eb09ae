// Package proofs is what makes the ledger checkable by others: the hashes of
// the chain and the tree (specification 1.7), the RFC 6962 tree kept as C2SP
// tiles, signed checkpoints (2.9), inclusion and consistency proofs, receipts
// (3.1) and their verification without the ledger.
//
// It is pure: bytes and reader functions in, values out. Auditors import this
// package alone.
package proofs
