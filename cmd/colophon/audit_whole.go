package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
	"colophon/proofs/audit"
)

// walkAll walks the whole log once more, or for the first time, for what needs all of it: the
// content, and what the server answers.
func (a *auditor) walkAll(ctx context.Context, log *publishedLog) (err error) {
	dir, err := os.MkdirTemp("", "colophon-audit-")
	if err != nil {
		return fmt.Errorf("making a temporary folder (TMPDIR says where): %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	w := &wholeWalk{auditor: a, log: log, past: a.memory.past, redacts: make(map[uint64]uint64)}
	a.report.Walked, a.report.KeyUses = 0, 0
	if a.memory.at.Size > 0 {
		if w.past, err = newPast(dir); err != nil {
			return err
		}
		defer w.past.Close()
	}
	if a.content {
		w.content = newContentChecker(ctx, a.fetch, w.past, a.parallel)
		defer w.content.stop()
	}
	if a.replayIndex {
		if w.replica, err = newReplica(dir, a.ledger, w.redacts); err != nil {
			return err
		}
		defer w.replica.Close()
	}
	if err := w.run(ctx); err != nil || !a.replayIndex {
		return err
	}
	return a.replay(ctx, w, dir)
}

// wholeWalk is a walk over the whole log.
type wholeWalk struct {
	*auditor
	log     *publishedLog
	at      audit.Position // the end of what was walked
	past    *pastFiles
	content *contentChecker   // nil unless content is checked
	replica *replica          // nil unless answers are
	redacts map[uint64]uint64 // the event that redacts a record
}

func (w *wholeWalk) run(ctx context.Context) error {
	at, err := w.walk(ctx, w.log, audit.Extension{Past: w.past, Seen: w.seen(), Each: w.each})
	if err != nil && w.past == w.memory.past {
		err = errors.Join(err, w.memory.rewind())
	}
	if err != nil {
		return err
	}
	w.at = at
	if w.past == w.memory.past {
		if err := w.remember(w.log, at); err != nil {
			return err
		}
	}
	if w.content == nil {
		return nil
	}
	if err := w.content.finish(w.report); err != nil {
		return err
	}
	if w.content.last >= w.at.Size {
		if err := w.catchUp(ctx); err != nil {
			return err
		}
	}
	return w.compareRedactions(ctx, w.at.Size)
}

// each takes an entry that was found good.
func (w *wholeWalk) each(e audit.Walked) error {
	if err := w.copy(e); err != nil || w.content == nil {
		return err
	}
	return w.content.add(e)
}

// copy keeps an entry for later comparisons.
func (w *wholeWalk) copy(e audit.Walked) error {
	if e.Body.Kind == record.ContentRedacted {
		for seq := range e.Body.Redaction.Seqs.All() {
			if _, before := w.redacts[seq]; !before {
				w.redacts[seq] = e.Seq
			}
		}
	}
	if w.replica == nil {
		return nil
	}
	return w.replica.add(e)
}

// compareRedactions compares what of the first size records was served and what was
// said to be erased with what the events redact.
func (w *wholeWalk) compareRedactions(ctx context.Context, size uint64) error {
	for seq := range size {
		facts, err := w.past.Facts(seq)
		if err != nil {
			return err
		}
		redacted := facts&audit.IsRedacted != 0
		switch {
		case facts&audit.WasGone != 0 && !redacted:
			return &audit.Damage{Kind: audit.KindRedaction, Seq: seq, Message: "its content is said to be erased, but no event redacts it"}
		case facts&audit.WasGone != 0 && w.content.goneBy[seq] != w.redacts[seq]:
			return w.anotherRedaction(seq, w.content.goneBy[seq])
		case facts&audit.WasServed != 0 && redacted:
			if err := w.mustBeGone(ctx, seq); err != nil {
				return err
			}
		}
		if redacted {
			w.report.Redacted++
		}
	}
	return nil
}

// anotherRedaction is the damage of a record that is redacted, by another event than the
// server says.
func (w *wholeWalk) anotherRedaction(seq, said uint64) error {
	return &audit.Damage{Kind: audit.KindRedaction, Seq: seq, Message: fmt.Sprintf("its content is said to be erased by event %d, it is event %d that redacts it", said, w.redacts[seq])}
}

// mustBeGone asks again for the content of a record that was served before, and that
// an event redacts, which may have come between.
func (w *wholeWalk) mustBeGone(ctx context.Context, seq uint64) error {
	event, err := w.eventAgain(ctx, seq)
	if err != nil {
		return err
	}
	named, _, err := namedPieces(seq, event)
	if err != nil {
		return err
	}
	for _, piece := range named {
		_, goneBy, err := w.content.piece(ctx, seq, piece)
		if err != nil {
			return err
		}
		if goneBy != nil && *goneBy != w.redacts[seq] {
			return w.anotherRedaction(seq, *goneBy)
		}
		if goneBy == nil {
			return contentDamage(seq, piece.name, "it is served, though an event redacts it")
		}
	}
	return nil
}

// eventAgain reads an event once more that was walked.
func (w *wholeWalk) eventAgain(ctx context.Context, seq uint64) (pyjson.Value, error) {
	tile, err := w.past.Tile(0, seq/proofs.FullTile)
	at := seq % proofs.FullTile * proofs.HashSize
	if err == nil && uint64(len(tile)) < at+proofs.HashSize {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return pyjson.Value{}, fmt.Errorf("what is remembered of entry %d: %w", seq, err)
	}
	var document pyjson.Document
	return audit.EventAt(ctx, w.log, seq, proofs.Hash(tile[at:at+proofs.HashSize]), &document)
}
