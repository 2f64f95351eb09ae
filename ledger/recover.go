package ledger

import (
	"context"
	"crypto/sha256"
	"fmt"

	"colophon/ledger/record"
	"colophon/proofs"
)

// recover loads the stored head and verifies that head, chain tip, tree edge and signature fit
// together. It repairs nothing. Open calls it before run.
func (s *sequencer) recover(ctx context.Context) error {
	stored, err := s.reader.Head(ctx)
	if err != nil {
		return fmt.Errorf("reading the head: %w", err)
	}
	s.tree, err = proofs.OpenTree(stored.Size, s.reader.tiles(ctx), s.reader.cache)
	if err != nil {
		return fmt.Errorf("%w: tree edge at size %d: %w", ErrDamaged, stored.Size, err)
	}
	s.tip, s.time = stored.Tip, stored.Time
	view := s.tree.Snapshot()
	s.head.Store(&Head{Head: stored, Root: view.Root(), view: view})
	if s.ring, err = s.signing.recover(ctx, s.reader); err != nil {
		return err
	}
	if stored.Size == 0 {
		return nil
	}
	if err := s.verifyCheckpoint(); err != nil {
		return err
	}
	return s.verifyTip(ctx)
}

func (s *sequencer) verifyCheckpoint() error {
	head := s.head.Load()
	checkpoint, err := proofs.OpenCheckpoint(head.Checkpoint, s.ring.history.Verifiers()...)
	if err != nil {
		return fmt.Errorf("%w: stored checkpoint: %w", ErrDamaged, err)
	}
	if checkpoint.Size != head.Size || checkpoint.Root != head.Root {
		return fmt.Errorf("%w: the checkpoint signs size %d and root %x, but the tree has size %d and root %x",
			ErrDamaged, checkpoint.Size, checkpoint.Root, head.Size, head.Root)
	}
	return nil
}

// verifyTip checks that the last entry is the chain's tip and the last leaf.
func (s *sequencer) verifyTip(ctx context.Context) error {
	head := s.head.Load()
	last := head.Size - 1
	entry, err := s.reader.Entry(ctx, last)
	if err != nil {
		return fmt.Errorf("%w: last entry, %d: %w", ErrDamaged, last, err)
	}
	if sha256.Sum256(entry) != head.Tip {
		return fmt.Errorf("%w: entry %d does not hash to the stored chain tip", ErrDamaged, last)
	}
	path, err := s.reader.prover(ctx, head).Inclusion(last, head.Size)
	if err != nil {
		return fmt.Errorf("%w: path of leaf %d: %w", ErrDamaged, last, err)
	}
	if err := proofs.VerifyInclusion(proofs.LeafHash(entry), last, head.Size, path, head.Root); err != nil {
		return fmt.Errorf("%w: entry %d is not the last leaf: %w", ErrDamaged, last, err)
	}
	return nil
}

// appendFirstEvent writes the ledger's first event (spec: Ledger creation).
func (l *Ledger) appendFirstEvent(ctx context.Context) error {
	if err := l.makeMemberSecret(ctx); err != nil {
		return err
	}
	body := record.AppendLedgerCreated(nil, record.Event{Actor: l.config.Creator, Ledger: l.info.Name}, l.info.Origin, l.VerifierKey(), l.members)
	_, err := l.Submit(Submission{Body: body})
	return err
}

// Anonymous is the actor of events from requests without authentication.
const Anonymous = "anonymous"
