package ledger

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"colophon/ledger/event"
	"colophon/ledger/highwater"
	"colophon/ledger/record"
	"colophon/ledger/record/members"
	"colophon/ledger/record/rules"
	"colophon/proofs"
	"colophon/storage"
)

// recover loads the stored head and publishes it. Open calls it before the sequencer starts.
func (s *sequencer) recover(ctx context.Context) error {
	head, err := s.load(ctx)
	if err == nil {
		s.head.Store(head)
	}
	return err
}

// load reads the stored head, and verifies that the head, the chain tip, the tree edge, and the
// signature are consistent. It does not repair anything.
func (s *sequencer) load(ctx context.Context) (*Head, error) {
	stored, err := s.reader.Head(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the head: %w", err)
	}
	s.tree, err = proofs.OpenTree(stored.Size, s.reader.tiles(ctx), s.reader.cache)
	if err != nil {
		return nil, fmt.Errorf("%w: reading the right edge of the tree at size %d: %w", ErrDamaged, stored.Size, err)
	}
	s.tip, s.time = stored.Tip, stored.TimeMicros
	view := s.tree.Snapshot()
	head := &Head{Head: stored, Root: view.Root(), view: view}
	if s.ring, err = s.signing.recover(ctx, s.reader); err != nil {
		return nil, err
	}
	if stored.Size == 0 {
		return head, nil
	}
	if err := s.verifyCheckpoint(head); err != nil {
		return nil, err
	}
	return head, s.verifyTip(ctx, head)
}

func (s *sequencer) verifyCheckpoint(head *Head) error {
	checkpoint, err := proofs.OpenCheckpoint(head.Checkpoint, s.ring.history.Verifiers()...)
	if err != nil {
		return fmt.Errorf("%w: verifying the stored checkpoint: %w", ErrDamaged, err)
	}
	if checkpoint.Size != head.Size || checkpoint.Root != head.Root {
		return fmt.Errorf("%w: the checkpoint has size %d and root %x, but the tree has size %d and root %x",
			ErrDamaged, checkpoint.Size, checkpoint.Root, head.Size, head.Root)
	}
	return nil
}

// verifyTip checks that the last entry matches both the chain tip and the last leaf of the tree.
func (s *sequencer) verifyTip(ctx context.Context, head *Head) error {
	last := head.Size - 1
	entry, err := s.reader.Entry(ctx, last)
	if err != nil {
		return fmt.Errorf("%w: reading entry %d, the last entry: %w", ErrDamaged, last, err)
	}
	if sha256.Sum256(entry) != head.Tip {
		return fmt.Errorf("%w: entry %d does not hash to the stored chain tip", ErrDamaged, last)
	}
	path, err := s.reader.prover(ctx, head).InclusionProof(last, head.Size)
	if err != nil {
		return fmt.Errorf("%w: computing the inclusion path of leaf %d: %w", ErrDamaged, last, err)
	}
	if err := proofs.VerifyInclusion(proofs.LeafHash(entry), last, head.Size, path, head.Root); err != nil {
		return fmt.Errorf("%w: entry %d does not match the last leaf of the tree: %w", ErrDamaged, last, err)
	}
	return nil
}

// Refresh loads and publishes the latest head of a ledger that this server only reads, and reloads
// the ledger's settings. It does nothing if this server writes the ledger, or if the ledger is
// closed. Concurrent calls share one refresh: a call returns once any refresh that began after the
// call has succeeded.
func (h *Host) Refresh(ctx context.Context, name string) error {
	l, err := h.Ledger(name)
	if err != nil || !l.standby {
		return err
	}
	begun := l.refreshes.Load()
	l.refreshing.Lock()
	defer l.refreshing.Unlock()
	if l.queue.IsClosed() || l.refreshed > begun {
		return nil
	}
	number := l.refreshes.Add(1)
	before := l.Head()
	head, err := l.sequencer.load(ctx)
	if err == nil {
		err = l.reader.checkExtends(ctx, head, before)
	}
	if err != nil {
		return fmt.Errorf("loading the changes to ledger %q that another server made: %w", name, err)
	}
	info, err := l.store.Info(ctx)
	if err := errors.Join(err, recoverSettings(ctx, l)); err != nil {
		return fmt.Errorf("loading the changes to ledger %q that another server made: %w", name, err)
	}
	froze := info.Frozen && l.queue.SetFrozen(true)
	if head.Size > before.Size {
		l.shown.Add(before.Size, before.Checkpoint)
	}
	l.sequencer.head.Store(head)
	l.refreshed = number
	l.mark.Write(false)
	if froze || head.Size > before.Size {
		l.sequencer.notify(Commit{EventCount: int(head.Size - before.Size), Time: time.UnixMicro(head.TimeMicros), ByOtherServer: true})
	}
	return nil
}

// checkExtends checks that the log at head extends the log at an earlier head, before. If it does
// not, the error is highwater.ErrRollback.
func (r reader) checkExtends(ctx context.Context, head, before *Head) error {
	if head.Size < before.Size {
		return fmt.Errorf("%w: the ledger had %d events, but the store now has only %d", highwater.ErrRollback, before.Size, head.Size)
	}
	root, err := r.prover(ctx, head).Root(before.Size)
	if err != nil {
		return fmt.Errorf("computing the root at size %d: %w", before.Size, err)
	}
	if root != before.Root {
		return fmt.Errorf("%w: the root at size %d was %x, but is now %x in the store", highwater.ErrRollback, before.Size, before.Root, root)
	}
	return nil
}

// appendFirstEvent writes the ledger's first event (spec: Ledger creation).
func (l *Ledger) appendFirstEvent(ctx context.Context) error {
	secret, err := makeMemberSecret(ctx, l.store)
	if err != nil {
		return err
	}
	l.members = secret
	body := record.AppendLedgerCreated(nil, record.EventContext{Actor: l.config.Creator, Ledger: l.info.Name}, l.info.Origin, l.VerifierKey(), l.members)
	_, err = l.Submit(Submission{Body: body})
	return err
}

// AnonymousActor is the actor of events from requests without authentication.
const AnonymousActor = "anonymous"

// PayloadMemberSecretSetting names the setting that stores the secret from which the digests of
// payload members are computed. The database stores it, so that neither the secret nor the ledger
// can be lost alone. Backups of the database contain the secret, just as they contain the payloads.
const PayloadMemberSecretSetting = "member_secret"

// PayloadMemberSecret returns the secret from which the digests of payload members are computed
// (spec: Payload members). It is nil if an earlier version of the program created the ledger, or if
// the store is a copy without secrets.
func (l *Ledger) PayloadMemberSecret() *members.Secret { return l.members }

// recoverMemberSecret loads the payload-member secret and checks it against the first event.
func (l *Ledger) recoverMemberSecret(ctx context.Context) error {
	if l.Head() == nil || l.Head().Size == 0 {
		return nil
	}
	first, err := l.store.Entry(ctx, 0)
	if err != nil {
		return fmt.Errorf("reading the first entry: %w", err)
	}
	var decoder event.Decoder
	e, err := decoder.Decode(first)
	if err != nil {
		return fmt.Errorf("%w: decoding the first event: %w", ErrDamaged, err)
	}
	commitment := e.LedgerCreation().MemberSecretHash
	if commitment == nil {
		return nil
	}
	secret, err := readMemberSecret(ctx, l.store)
	switch {
	case errors.Is(err, storage.ErrLogOnly):
		return nil
	case errors.Is(err, storage.ErrNotFound):
		return fmt.Errorf("%w: the first event commits to a payload-member secret, but the secret is missing", ErrDamaged)
	case err != nil:
		return err
	case string(rules.AppendHex(nil, secret.Commitment())) != string(commitment):
		return fmt.Errorf("%w: the payload-member secret does not match the commitment in the first event", ErrDamaged)
	}
	l.members = secret
	return nil
}

// makeMemberSecret generates a random payload-member secret and stores it durably, before the
// first event commits to it. If an interrupted creation of the ledger has already stored a secret,
// makeMemberSecret returns that secret.
func makeMemberSecret(ctx context.Context, store storage.Store) (*members.Secret, error) {
	secret, err := readMemberSecret(ctx, store)
	if errors.Is(err, storage.ErrNotFound) {
		secret = members.NewSecret()
		err = store.SetSetting(ctx, PayloadMemberSecretSetting, secret.Bytes())
	}
	if err != nil {
		return nil, fmt.Errorf("reading or creating the payload-member secret: %w", err)
	}
	return secret, nil
}

func readMemberSecret(ctx context.Context, store storage.Reader) (*members.Secret, error) {
	stored, err := store.Setting(ctx, PayloadMemberSecretSetting)
	if err != nil {
		return nil, fmt.Errorf("reading the payload-member secret: %w", err)
	}
	secret, err := members.ParseSecret(stored)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return secret, nil
}
