package ledger

import (
	"context"
	"fmt"

	"colophon/ledger/event"
	"colophon/ledger/record/seqs"
	"colophon/proofs"
)

// RedactionPlan describes the effect of redacting a set of records.
type RedactionPlan struct {
	RecordCount           uint64        // number of records whose content would be redacted
	AlreadyRedactedCount  uint64        // number of records that an earlier event redacted
	EventsWithoutContent  uint64        // number of events that refer to no content
	ErasedContent         ContentTotals // content that Redact would erase
	KeptContent           ContentTotals // content that Redact would keep, because records outside the set need it
	RecordsSharingContent uint64        // number of records outside the set that need KeptContent
	// FirstRecordSeqs lists the seqs of the first records to redact. EarlierRedactions lists the
	// first records that are already redacted. Each list has at most MaxListedRecords elements.
	FirstRecordSeqs   []uint64
	EarlierRedactions []EarlierRedaction
}

// MaxListedRecords is the maximum length of each list in a RedactionPlan.
const MaxListedRecords = 100

// ContentTotals holds the number of pieces of content and their total length in bytes. Each piece
// is counted once, even if several records refer to it.
type ContentTotals struct{ Pieces, Bytes uint64 }

// EarlierRedaction holds the seqs of an already redacted record and of the event that redacted it.
type EarlierRedaction struct{ RecordSeq, RedactionSeq uint64 }

// PlanRedaction returns what Redact would currently do to a set of records. For each piece of
// content, it reads all records that need it. It calls rest between steps, so that the caller can
// let other work proceed. If rest returns an error, PlanRedaction stops and returns that error.
func (l *Ledger) PlanRedaction(ctx context.Context, of *seqs.Set, rest func() error) (*RedactionPlan, error) {
	p := planning{reader: l.reader, of: of, rest: rest, uses: make(map[proofs.Hash]pieceUse)}
	for seq := range of.All() {
		if err := rest(); err != nil {
			return nil, err
		}
		if err := p.record(ctx, seq); err != nil {
			return nil, err
		}
	}
	p.plan.RecordsSharingContent = p.others.Len()
	return &p.plan, nil
}

// planning is the state of one call to PlanRedaction.
type planning struct {
	reader  reader
	of      *seqs.Set
	rest    func() error
	others  seqs.Set                 // records outside the set that need content of records in the set
	uses    map[proofs.Hash]pieceUse // pieces of content that several records need, keyed by digest
	decoder event.Decoder
	plan    RedactionPlan
}

// pieceUse describes which records need a piece of content.
type pieceUse struct {
	first  uint64 // seq of the first record in the set that needs the piece; only this record counts the piece
	shared bool   // a record outside the set also needs the piece
	single bool   // only one record needs the piece
}

// maxPieceUses is the maximum length of planning.uses. When the map is full, it is cleared. It does
// not contain pieces that only one record needs. This leaves room for shared pieces, which would
// otherwise be looked up again more often.
var maxPieceUses = 1 << 16

func (p *planning) record(ctx context.Context, seq uint64) error {
	by, redacted, err := p.reader.redactedBy(ctx, seq)
	if err != nil {
		return err
	}
	if redacted {
		p.plan.AlreadyRedactedCount++
		if len(p.plan.EarlierRedactions) < MaxListedRecords {
			p.plan.EarlierRedactions = append(p.plan.EarlierRedactions, EarlierRedaction{seq, by})
		}
		return nil
	}
	contents, err := p.reader.contents(ctx, &p.decoder, seq)
	if err != nil {
		return err
	}
	if len(contents) == 0 {
		p.plan.EventsWithoutContent++
		return nil
	}
	p.plan.RecordCount++
	if len(p.plan.FirstRecordSeqs) < MaxListedRecords {
		p.plan.FirstRecordSeqs = append(p.plan.FirstRecordSeqs, seq)
	}
	for _, c := range contents {
		if err := p.piece(ctx, seq, c); err != nil {
			return err
		}
	}
	return nil
}

func (p *planning) piece(ctx context.Context, seq uint64, c event.Content) error {
	f, known := p.uses[c.Digest]
	if !known {
		var err error
		if f, err = p.use(ctx, c.Digest); err != nil {
			return fmt.Errorf("finding the records that need content %q of event %d: %w", c.Name, seq, err)
		}
		if len(p.uses) == maxPieceUses {
			clear(p.uses)
		}
		if !f.single {
			p.uses[c.Digest] = f
		}
	}
	if f.first != seq {
		return nil
	}
	counted := &p.plan.ErasedContent
	if f.shared {
		counted = &p.plan.KeptContent
	}
	counted.Pieces++
	counted.Bytes += c.Size
	return nil
}

func (p *planning) use(ctx context.Context, digest proofs.Hash) (pieceUse, error) {
	var f pieceUse
	found, needed := false, 0
	for seq, err := range p.reader.References(ctx, digest) {
		if needed++; needed%restEach == 0 && err == nil {
			err = p.rest()
		}
		switch {
		case err != nil:
			return pieceUse{}, err
		case !p.of.Has(seq):
			f.shared = true
			p.others.Add(seq)
		case !found:
			f.first, found = seq, true
		}
	}
	f.single = needed == 1
	return f, nil
}

// restEach is the number of records that planning reads for a single piece between two calls to
// rest.
const restEach = 1 << 10
