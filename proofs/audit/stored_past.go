package audit

import (
	"iter"

	"colophon/ledger/record"
	"colophon/proofs"
)

// storedPast is the History of a stored log. It keeps only the registered sources in memory. It
// reads earlier events and tiles from the log, and compares each use of an idempotency key with the
// stored keys as soon as the use is added.
type storedPast struct {
	*target
	stored  Source
	reread  *rereader
	sources map[proofs.Hash]bool // the registered sources, keyed by the SHA-256 of their ids
}

// AppendFlags implements History.
func (*storedPast) AppendFlags(EventFlags) error { return nil }

// Flags implements History.
func (p *storedPast) Flags(seq uint64) (EventFlags, error) {
	e, err := p.reread.walked(seq)
	if err != nil {
		return 0, err
	}
	flags := flagsOfKind(e.Kind)
	for range e.Contents() {
		flags |= hasContent
	}
	return flags, nil
}

// OrFlags implements History.
func (*storedPast) OrFlags(uint64, EventFlags) error { return nil }

// AddKeyUse implements History. The error is a *Damage if the use contradicts the stored keys or the
// registered sources.
func (p *storedPast) AddKeyUse(u KeyUse) error {
	switch u.Role {
	case KeyUseClaim:
		return p.checkKey(&u, u.Seq)
	case KeyUseRefusal:
		return p.checkKey(&u, u.ReferencedSeq)
	case KeyUseSourceRegistration:
		p.sources[u.Key] = true
	case KeyUseSourceRevocation:
		if !p.sources[u.Key] {
			return u.notRegistered()
		}
	}
	return nil
}

// checkKey checks that storage names holder as the event that holds the idempotency key of u. The
// stored record must be that of u if u claims the key, and a different one if u is a refusal.
func (p *storedPast) checkKey(u *KeyUse, holder uint64) error {
	got, err := p.stored.KeyClaim(p.ctx, u.Key)
	if err != nil {
		return readDamage(err, damaged(DamageKindKey, u.Seq, "idempotency key %x is missing: %v", u.Key, err))
	}
	about := record.DigestWithKind(u.Kind, u.Digest)
	switch {
	case got.Seq != holder:
		return damaged(DamageKindKey, u.Seq, "according to storage, event %[2]d claims the idempotency key %[1]x, but according to the log, event %[3]d claims this key", u.Key, got.Seq, holder)
	case u.Role == KeyUseClaim && got.RecordDigest != about:
		return damaged(DamageKindKey, u.Seq, "according to storage, idempotency key %x belongs to record %x, but the event's record is %x", u.Key, got.RecordDigest, about)
	case u.Role == KeyUseRefusal && got.RecordDigest == about:
		return damaged(DamageKindKey, u.Seq, "the event refuses a record because event %d claims the idempotency key %x, but both events have the same record", u.ReferencedSeq, u.Key)
	}
	return nil
}

// KeyUses implements History.
func (*storedPast) KeyUses() iter.Seq2[[]KeyUse, error] { return func(func([]KeyUse, error) bool) {} }

// StoreTile implements History.
func (*storedPast) StoreTile(proofs.Tile) error { return nil }

// Tile implements History.
func (p *storedPast) Tile(level uint8, index uint64) ([]byte, error) {
	return p.source.Tile(p.ctx, level, index)
}
