package monitor

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

// walkAll walks the whole log for checks that need all of it: content and answers.
func (a *Auditor) walkAll(ctx context.Context, log *PublishedLog) (err error) {
	dir, err := os.MkdirTemp("", "colophon-audit-")
	if err != nil {
		return fmt.Errorf("making a temporary folder (TMPDIR says where): %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	w := &WholeWalk{Auditor: a, Log: log, Past: a.Memory.Past, Redacts: make(map[uint64]uint64)}
	a.Report.Walked, a.Report.KeyUses = 0, 0
	if a.Memory.At.Size > 0 {
		if w.Past, err = NewPast(dir); err != nil {
			return err
		}
		defer w.Past.Close()
	}
	if a.Content {
		w.content = newContentChecker(ctx, a.Fetch, w.Past, a.Parallel)
		defer w.content.stop()
	}
	if a.ReplayIndex {
		if w.Replica, err = NewReplica(dir, a.Ledger, w.Redacts); err != nil {
			return err
		}
		defer w.Replica.Close()
	}
	if err := w.Run(ctx); err != nil || !a.ReplayIndex {
		return err
	}
	return a.replay(ctx, w, dir)
}

// WholeWalk is one walk over the whole log.
type WholeWalk struct {
	*Auditor
	Log     *PublishedLog
	At      audit.Position // the end of the walk
	Past    *pastFiles
	content *contentChecker   // nil unless content is checked
	Replica *replica          // nil unless answers are checked
	Redacts map[uint64]uint64 // the redacting event of each redacted record
}

func (w *WholeWalk) Run(ctx context.Context) error {
	at, err := w.walk(ctx, w.Log, audit.Extension{Past: w.Past, Seen: w.Seen(), Each: w.each})
	if err != nil && w.Past == w.Memory.Past {
		err = errors.Join(err, w.Memory.Rewind())
	}
	if err != nil {
		return err
	}
	w.At = at
	if w.Past == w.Memory.Past {
		if err := w.Remember(w.Log, at); err != nil {
			return err
		}
	}
	if w.content == nil {
		return nil
	}
	if err := w.content.finish(w.Report); err != nil {
		return err
	}
	if w.content.last >= w.At.Size {
		if err := w.catchUp(ctx); err != nil {
			return err
		}
	}
	return w.compareRedactions(ctx, w.At.Size)
}

// each receives every valid entry.
func (w *WholeWalk) each(e audit.Walked) error {
	if err := w.copy(e); err != nil || w.content == nil {
		return err
	}
	return w.content.add(e)
}

// copy stores an entry for later comparisons.
func (w *WholeWalk) copy(e audit.Walked) error {
	if e.Body.Kind == record.ContentRedacted {
		for seq := range e.Body.Redaction.Seqs.All() {
			if _, before := w.Redacts[seq]; !before {
				w.Redacts[seq] = e.Seq
			}
		}
	}
	if w.Replica == nil {
		return nil
	}
	return w.Replica.Add(e)
}

// compareRedactions compares the content that the server served or reported as erased, for the
// first size records, with the redactions in the log.
func (w *WholeWalk) compareRedactions(ctx context.Context, size uint64) error {
	for seq := range size {
		facts, err := w.Past.Facts(seq)
		if err != nil {
			return err
		}
		redacted := facts&audit.IsRedacted != 0
		switch {
		case facts&audit.WasGone != 0 && !redacted:
			return &audit.Damage{Kind: audit.KindRedaction, Seq: seq, Message: "its content is said to be erased, but no event redacts it"}
		case facts&audit.WasGone != 0 && w.content.goneBy[seq] != w.Redacts[seq]:
			return w.anotherRedaction(seq, w.content.goneBy[seq])
		case facts&audit.WasServed != 0 && redacted:
			if err := w.mustBeGone(ctx, seq); err != nil {
				return err
			}
		}
		if redacted {
			w.Report.Redacted++
		}
	}
	return nil
}

// anotherRedaction is the damage of a record that another event redacts than the server says.
func (w *WholeWalk) anotherRedaction(seq, said uint64) error {
	return &audit.Damage{Kind: audit.KindRedaction, Seq: seq, Message: fmt.Sprintf("its content is said to be erased by event %d, it is event %d that redacts it", said, w.Redacts[seq])}
}

// mustBeGone fetches again the content of a record that was served before and that an event
// redacts: the redaction may be newer.
func (w *WholeWalk) mustBeGone(ctx context.Context, seq uint64) error {
	event, err := w.eventAgain(ctx, seq)
	if err != nil {
		return err
	}
	named, _, err := NamedPieces(seq, event)
	if err != nil {
		return err
	}
	for _, piece := range named {
		_, goneBy, err := w.content.piece(ctx, seq, piece)
		if err != nil {
			return err
		}
		if goneBy != nil && *goneBy != w.Redacts[seq] {
			return w.anotherRedaction(seq, *goneBy)
		}
		if goneBy == nil {
			return contentDamage(seq, piece.name, "it is served, though an event redacts it")
		}
	}
	return nil
}

// eventAgain reads a walked event again.
func (w *WholeWalk) eventAgain(ctx context.Context, seq uint64) (pyjson.Value, error) {
	tile, err := w.Past.Tile(0, seq/proofs.FullTile)
	at := seq % proofs.FullTile * proofs.HashSize
	if err == nil && uint64(len(tile)) < at+proofs.HashSize {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return pyjson.Value{}, fmt.Errorf("what is remembered of entry %d: %w", seq, err)
	}
	var document pyjson.Document
	return audit.EventAt(ctx, w.Log, seq, proofs.Hash(tile[at:at+proofs.HashSize]), &document)
}
