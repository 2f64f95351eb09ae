// Package storeaudit lets audits read stored logs, and checks that the logs account for every key
// in their database.
package storeaudit

import (
	"context"
	"errors"
	"iter"

	"colophon/ledger"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/storage"
)

// NewSource returns an audit.Source that reads from a stored log. It does not copy the log. It is not safe
// for concurrent use.
func NewSource(log storage.Reader) audit.Source {
	if pages := storage.PageReaderOf(log); pages != nil {
		return &pagedSource{source: source{log}, pages: pages}
	}
	return source{log}
}

type source struct{ storage.Reader }

// Head implements audit.Source.
func (s source) Head(ctx context.Context) (audit.Head, error) {
	head, err := s.Reader.Head(ctx)
	return audit.Head(head), err
}

// Entries implements audit.Source.
func (s source) Entries(ctx context.Context, from uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for entry, err := range s.Reader.Entries(ctx, from) {
			if !yield(entry.Bytes, err) {
				return
			}
		}
	}
}

// KeyClaim implements audit.Source.
func (s source) KeyClaim(ctx context.Context, key proofs.Hash) (audit.Claim, error) {
	claim, err := s.Reader.KeyClaim(ctx, key)
	return audit.Claim{Seq: claim.Seq, RecordDigest: claim.RecordDigest}, err
}

// Content implements audit.Source.
func (s source) Content(ctx context.Context, digest proofs.Hash) ([]byte, error) {
	content, err := s.Reader.Content(ctx, digest)
	return content, auditError(err)
}

// PayloadMemberSecret implements audit.Source.
func (s source) PayloadMemberSecret(ctx context.Context) ([]byte, error) {
	secret, err := s.Setting(ctx, ledger.PayloadMemberSecretSetting)
	return secret, auditError(err)
}

// FirstReference implements audit.Source.
func (s source) FirstReference(ctx context.Context, digest proofs.Hash) (uint64, error) {
	for seq, err := range s.References(ctx, digest) {
		return seq, err
	}
	return 0, audit.ErrNotFound
}

// RedactingSeq implements audit.Source.
func (s source) RedactingSeq(ctx context.Context, seq uint64) (uint64, error) {
	by, err := s.Reader.RedactingSeq(ctx, seq)
	return by, auditError(err)
}

// Redactions implements audit.Source.
func (s source) Redactions(ctx context.Context) iter.Seq2[audit.Redaction, error] {
	return func(yield func(audit.Redaction, error) bool) {
		for r, err := range s.Reader.Redactions(ctx) {
			if !yield(audit.Redaction{RecordSeq: r.Seq, RedactingSeq: r.RedactingSeq}, err) {
				return
			}
		}
	}
}

// auditError returns audit.ErrNotFound if err is storage.ErrNotFound, and err otherwise.
func auditError(err error) error {
	if errors.Is(err, storage.ErrNotFound) {
		return audit.ErrNotFound
	}
	return err
}
