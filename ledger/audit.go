package ledger

import (
	"context"
	"iter"

	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/storage"
)

// AuditSource is a stored log as proofs/audit walks it.
func AuditSource(log storage.Reader) audit.Source { return auditSource{log} }

type auditSource struct{ storage.Reader }

// Head implements audit.Source.
func (s auditSource) Head(ctx context.Context) (audit.Head, error) {
	head, err := s.Reader.Head(ctx)
	return audit.Head(head), err
}

// Entries implements audit.Source.
func (s auditSource) Entries(ctx context.Context, from uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for entry, err := range s.Reader.Entries(ctx, from) {
			if !yield(entry.Bytes, err) {
				return
			}
		}
	}
}

// Key implements audit.Source.
func (s auditSource) Key(ctx context.Context, key proofs.Hash) (audit.Claim, error) {
	claim, err := s.Reader.Key(ctx, key)
	return audit.Claim{Seq: claim.Seq, Record: claim.Record}, err
}
