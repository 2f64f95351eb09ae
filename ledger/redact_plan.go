package ledger

import (
	"context"
	"fmt"

	"colophon/ledger/event"
	"colophon/proofs"
)

// Erasure is what redacting the records of a set does.
type Erasure struct {
	Records         uint64 // those whose content is redacted
	AlreadyRedacted uint64 // records that are left as they are
	WithoutContent  uint64 // events that name no content
	Erased          Pieces // what no other record needs
	Kept            Pieces // what others need
	NeededBy        uint64 // the other records that need something of it
	// The first of those records, and the first of those that were redacted before,
	// at most MaxListed of each.
	First        []uint64
	FirstAlready []AlreadyRedacted
}

// MaxListed bounds the lists of an Erasure.
const MaxListed = 100

// Pieces counts pieces of content, each once however many records name it.
type Pieces struct{ Count, Bytes uint64 }

// AlreadyRedacted is a record and the event that has redacted it.
type AlreadyRedacted struct{ Seq, By uint64 }

// PlanRedaction says what Redact would do to the records of a set at this moment. It
// reads, for each piece of content, all records that need it.
func (l *Ledger) PlanRedaction(ctx context.Context, of *SeqSet) (*Erasure, error) {
	p := planning{ledger: l, of: of, fates: make(map[proofs.Hash]fate)}
	for seq := range of.All() {
		if err := p.record(ctx, seq); err != nil {
			return nil, err
		}
	}
	p.plan.NeededBy = p.others.Len()
	return &p.plan, nil
}

// planning is a PlanRedaction under way.
type planning struct {
	ledger  *Ledger
	of      *SeqSet
	others  SeqSet // records that need what is kept
	fates   map[proofs.Hash]fate
	decoder event.Decoder
	plan    Erasure
}

// fate is what becomes of a piece of content.
type fate struct {
	first uint64 // the record of the set that needs it first: there it is counted
	kept  bool
}

// maxFates bounds how many pieces are remembered, so that those which very many
// records share are looked into now and then only.
const maxFates = 1 << 16

func (p *planning) record(ctx context.Context, seq uint64) error {
	by, redacted, err := p.ledger.redactedBy(ctx, seq)
	if err != nil {
		return err
	}
	if redacted {
		p.plan.AlreadyRedacted++
		if len(p.plan.FirstAlready) < MaxListed {
			p.plan.FirstAlready = append(p.plan.FirstAlready, AlreadyRedacted{seq, by})
		}
		return nil
	}
	contents, err := p.ledger.contents(ctx, &p.decoder, seq)
	if err != nil {
		return err
	}
	if len(contents) == 0 {
		p.plan.WithoutContent++
		return nil
	}
	p.plan.Records++
	if len(p.plan.First) < MaxListed {
		p.plan.First = append(p.plan.First, seq)
	}
	for _, c := range contents {
		if err := p.piece(ctx, seq, c); err != nil {
			return err
		}
	}
	return nil
}

func (p *planning) piece(ctx context.Context, seq uint64, c event.Content) error {
	f, known := p.fates[c.Digest]
	if !known {
		var err error
		if f, err = p.fate(ctx, c.Digest); err != nil {
			return fmt.Errorf("content %q of event %d: %w", c.Name, seq, err)
		}
		if len(p.fates) == maxFates {
			clear(p.fates)
		}
		p.fates[c.Digest] = f
	}
	if f.first != seq {
		return nil
	}
	counted := &p.plan.Erased
	if f.kept {
		counted = &p.plan.Kept
	}
	counted.Count++
	counted.Bytes += c.Size
	return nil
}

func (p *planning) fate(ctx context.Context, digest proofs.Hash) (fate, error) {
	var f fate
	found := false
	for seq, err := range p.ledger.store.References(ctx, digest) {
		switch {
		case err != nil:
			return fate{}, err
		case !p.of.Has(seq):
			f.kept = true
			p.others.Add(seq)
		case !found:
			f.first, found = seq, true
		}
	}
	return f, nil
}
