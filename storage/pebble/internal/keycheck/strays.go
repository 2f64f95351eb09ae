package keycheck

import (
	"errors"
	"fmt"
	"slices"

	"colophon/storage"
	"colophon/storage/pebble/internal/keys"
)

// compare compares the counts of a ledger with its log. If a count differs, it looks for the stray
// key.
func (k *check) compare(l *counts) error {
	k.endHolding(l)
	type part struct {
		has, named uint64
		span       func(keys.LedgerNumber) (start, end []byte)
		kind       storage.StrayKind
		find       func(*counts, keys.ParsedKey, func() ([]byte, error)) error
	}
	for _, p := range []part{
		{l.needs, l.LogSummary.ContentReferenceCount, keys.LocationAndReferenceRange, storage.StrayContent, k.strayNeed},
		{l.contents, l.locations, keys.ContentRange, storage.StrayContent, k.strayContent},
		{l.claims, l.LogSummary.ClaimCount, keys.ClaimRange, storage.StrayClaim, k.strayClaim},
	} {
		if l.stray || p.has == p.named {
			continue
		}
		start, end := p.span(l.Number)
		err := k.pass(start, end, func(key keys.ParsedKey, _ []byte, value func() ([]byte, error)) ([]byte, error) {
			if l.stray { // one stray key per ledger is enough
				return end, nil
			}
			return nil, p.find(l, key, value)
		})
		if err != nil {
			return err
		}
		k.found(l, p.kind, l.Head.Size, "%d keys are stored, but the log accounts for %d", p.has, p.named) // has no effect if the pass has already found a stray key
	}
	return nil
}

// strayNeed records the key of a location or a reference as stray if its record does not need the
// content.
func (k *check) strayNeed(l *counts, key keys.ParsedKey, value func() ([]byte, error)) error {
	seq := key.Seq
	if key.Family == keys.FamilyLocation {
		stored, err := value()
		if err != nil {
			return err
		}
		holding, err := keys.DecodeLocationValue(stored)
		if err != nil || holding.Redacted { // the first pass has already checked redacted locations
			return err
		}
		seq = holding.Seq
	}
	e, err := k.event(l, seq)
	if err != nil {
		return err
	}
	by, err := l.RedactingSeq(k.ctx, seq)
	switch {
	case seq >= l.Head.Size:
		k.found(l, storage.StrayContent, seq, "content %x is kept for the event, but the event is beyond the head (size %d)", key.Digest, l.Head.Size)
	case !slices.Contains(e.ContentDigests, key.Digest):
		k.found(l, storage.StrayContent, seq, "content %x is kept for the event, but the event does not name that content", key.Digest)
	case err == nil:
		k.found(l, storage.StrayContent, seq, "content %x is kept for the event, but event %d has redacted the event", key.Digest, by)
	case !errors.Is(err, storage.ErrNotFound):
		return err
	}
	return nil
}

// strayContent records the key as stray if no location refers to the content that it stores, for
// example because erased content was put back.
func (k *check) strayContent(l *counts, key keys.ParsedKey, _ func() ([]byte, error)) error {
	e, err := k.event(l, key.Location.Seq)
	if err != nil {
		return err
	}
	for _, digest := range e.ContentDigests {
		location, err := l.Location(digest)
		if err == nil && location == key.Location {
			return nil
		}
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
	what := "no record needs them"
	if by, err := l.RedactingSeq(k.ctx, key.Location.Seq); err == nil {
		what = fmt.Sprintf("event %d has redacted the event", by)
	}
	k.found(l, storage.StrayContent, key.Location.Seq, "bytes are stored as content number %d of the event, but %s", key.Location.Slot, what)
	return nil
}

// strayClaim records the key as stray if its event does not claim the idempotency key.
func (k *check) strayClaim(l *counts, key keys.ParsedKey, value func() ([]byte, error)) error {
	stored, err := value()
	if err != nil {
		return err
	}
	claim, err := keys.DecodeClaim(key.Digest, stored)
	if err != nil {
		k.found(l, storage.StrayClaim, l.Head.Size, "cannot decode the claim of idempotency key %x: %v", key.Digest, err)
		return nil
	}
	e, err := k.event(l, claim.Seq)
	if err != nil {
		return err
	}
	if e.IdempotencyKey == nil || *e.IdempotencyKey != key.Digest {
		k.found(l, storage.StrayClaim, claim.Seq, "idempotency key %x refers to the event, but the event does not claim that key; a new record with this key would not be recorded", key.Digest)
	}
	return nil
}
