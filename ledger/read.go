package ledger

import (
	"context"
	"fmt"
	"iter"

	"colophon/proofs"
	"colophon/storage"
)

// reader reads the stored log, and proves that what it reads is in the tree.
type reader struct {
	storage.Reader
	cache *proofs.TileCache
}

func (r reader) tiles(ctx context.Context) proofs.TileReader {
	return func(level uint8, index uint64) ([]byte, error) { return r.Tile(ctx, level, index) }
}

// prover returns a prover for the tree at head and at every smaller size.
func (r reader) prover(ctx context.Context, head *Head) *proofs.Prover {
	return proofs.NewProver(head.view, r.cache, r.tiles(ctx))
}

// Reader returns the ledger's store, for reading only. Reads see the last durable state and never
// wait for the sequencer.
func (l *Ledger) Reader() storage.Reader { return l.store }

// DeleteArchivedEntries deletes archived entries from the ledger's store, except for those in keep (see
// storage.Archiver). It returns an error if the store cannot archive entries.
func DeleteArchivedEntries(ctx context.Context, l *Ledger, a storage.ArchivedRange, keep []uint64) error {
	archiver, can := l.store.(storage.Archiver)
	if !can {
		return fmt.Errorf("archiving ledger %q: the ledger's store cannot archive entries", l.info.Name)
	}
	return archiver.Archive(ctx, a, keep)
}

// PublishedLog returns the log up to the published head, for use by an index. A commit reaches the
// store shortly before its head is published, so an index that read the store directly could return
// answers for a size that no proof or checkpoint covers yet.
func (l *Ledger) PublishedLog() PublishedLog { return PublishedLog{l} }

// PublishedLog is the log of a ledger up to its published head.
type PublishedLog struct{ ledger *Ledger }

// Head returns the published head.
func (p PublishedLog) Head(ctx context.Context) (storage.Head, error) {
	return p.ledger.Head().Head, ctx.Err()
}

// Entry returns the entry of the event at seq.
func (p PublishedLog) Entry(ctx context.Context, seq uint64) ([]byte, error) {
	return p.ledger.store.Entry(ctx, seq)
}

// Entries yields the entries starting at seq from and ending at the head that is published when the
// iteration begins.
func (p PublishedLog) Entries(ctx context.Context, from uint64) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		size := p.ledger.Head().Size
		for entry, err := range p.ledger.store.Entries(ctx, from) {
			if err == nil && entry.Seq >= size || !yield(entry, err) {
				return
			}
		}
	}
}

// Prover returns a prover for the tree at head and at every smaller size.
func (l *Ledger) Prover(ctx context.Context, head *Head) *proofs.Prover {
	return l.reader.prover(ctx, head)
}

// Checkpoint returns the signed checkpoint of the given size, which must not exceed the size of
// head. Smaller checkpoints are not stored, but signed again with the current keys. The result has
// the same bytes as before unless the keys have changed. A ledger on standby cannot sign, so it
// remembers some of the checkpoints that it has published, and returns storage.ErrLeaseNotHeld for all
// others.
func (l *Ledger) Checkpoint(ctx context.Context, head *Head, size uint64) ([]byte, error) {
	if size == head.Size {
		return head.Checkpoint, nil
	}
	if err := l.signing.check(); err != nil {
		if note := l.shown.Get(size); note != nil {
			return note, nil
		}
		return nil, fmt.Errorf("signing the checkpoint of size %d: %w", size, err)
	}
	root, err := l.Prover(ctx, head).Root(size)
	if err != nil {
		return nil, fmt.Errorf("computing the root at size %d: %w", size, err)
	}
	return proofs.SignCheckpoint(proofs.Checkpoint{Origin: l.info.Origin, Size: size, Root: root}, l.signing.keys.Load().signers...)
}

// CheckSigningKeys returns nil if this server currently signs for the ledger. It returns
// storage.ErrLeaseNotHeld if another server writes the ledger. Any other error says why this server
// cannot sign.
func (p PublishedLog) CheckSigningKeys() error { return p.ledger.signing.check() }

// SignExport returns the export manifest as a note signed with the keys that will sign the next
// checkpoint. If this server does not sign for the ledger, it returns the error from CheckSigningKeys.
func (p PublishedLog) SignExport(m *proofs.ExportManifest) ([]byte, error) {
	if err := p.CheckSigningKeys(); err != nil {
		return nil, fmt.Errorf("signing an export: %w", err)
	}
	return proofs.SignExport(m, p.ledger.signing.keys.Load().signers...)
}
