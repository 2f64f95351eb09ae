package monitor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/proofs/monitor/fetch"
)

// stepWalk is the name of the walk in calls to Options.Progress.
const stepWalk = "auditing"

// walk verifies the log and copies its totals into the report. If there is damage, the error is an
// *audit.Damage. After any error, the checkpoint is stored as evidence (storeFailed).
func (a *Auditor) walk(ctx context.Context, log *fetch.Log, x audit.ExtendOptions) (audit.Position, error) {
	at, err := a.extend(ctx, log, x)
	if err != nil {
		if err := a.storeFailed(ctx, log, err); err != nil {
			a.options.Logger.Warn("cannot save the checkpoint of the log that failed the audit", "error", err) // not returned, because the failure is more important
		}
	}
	return at, err
}

func (a *Auditor) extend(ctx context.Context, log *fetch.Log, x audit.ExtendOptions) (audit.Position, error) {
	a.options.Progress(stepWalk, 0, log.Size())
	options := audit.Options{Verifiers: a.bounded(), Successors: a.keys, Ledger: a.options.Ledger, Now: time.Now(),
		Progress: func(done, _ uint64) { a.options.Progress(stepWalk, done, log.Size()) }}
	report, at, err := audit.ExtendWalk(ctx, log, options, x)
	if err != nil {
		return at, err
	}
	a.report.WalkedEntries += report.Size - x.Start.Size
	a.report.KeyUses += report.KeyUses
	a.report.signed(report.Checkpoint)
	if report.Damage != nil {
		return at, report.Damage
	}
	a.takeKeys(at.Keys, nil)
	a.report.walked(at)
	return at, a.checkOlder(at, x.History)
}

// walkOn verifies the log from where the last audit ended, and remembers the result.
func (a *Auditor) walkOn(ctx context.Context, log *fetch.Log) error {
	x := audit.ExtendOptions{Start: a.state.at, History: a.state.past, SeenCheckpoints: a.seenCheckpoints(), OnVerified: func(at audit.Position) error { return a.storeProgress(ctx, log, at) }}
	at, err := a.walk(ctx, log, x)
	if err != nil {
		return errors.Join(err, a.state.rewind())
	}
	return a.storeVerified(log, at)
}

// temporaryFolder creates a folder for the files of one audit. The caller must remove it.
func temporaryFolder() (string, error) {
	dir, err := os.MkdirTemp("", "colophon-audit-")
	if err != nil {
		return "", fmt.Errorf("creating a temporary folder (set TMPDIR to use a different location): %w", err)
	}
	return dir, nil
}

// walkAll verifies the log from its beginning, for the checks that need every entry: content
// and answers.
func (a *Auditor) walkAll(ctx context.Context, log *fetch.Log) (err error) {
	w := &Walk{Auditor: a, log: log, past: a.state.past, redactedBy: make(map[uint64]uint64)}
	a.report.WalkedEntries, a.report.KeyUses = 0, 0
	if a.state.at.Size > 0 {
		dir, err := temporaryFolder()
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if w.past, err = newPast(dir); err != nil {
			return err
		}
		defer w.past.Close()
	}
	if a.options.CheckContent {
		w.content = newContentChecker(ctx, a.client, w.past, a.options.Concurrency)
		defer w.content.stop()
	}
	if err := w.run(ctx); err != nil || a.options.AnswerChecker == nil {
		return err
	}
	return a.options.AnswerChecker.Finish(ctx, w)
}

func (w *Walk) run(ctx context.Context) error {
	at, err := w.walk(ctx, w.log, audit.ExtendOptions{History: w.past, SeenCheckpoints: w.seenCheckpoints(), OnEntry: w.each})
	if err != nil && w.past == w.state.past {
		err = errors.Join(err, w.state.rewind())
	}
	if err != nil {
		return err
	}
	w.at, w.contentSize = at, at.Size
	if w.past == w.state.past {
		if err := w.storeVerified(w.log, at); err != nil {
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
		if err := w.CatchUp(ctx); err != nil {
			return err
		}
	}
	return w.compareRedactions(ctx, w.at.Size)
}

// CatchUp verifies the entries that were added to the log after the walk, and passes them to
// the AnswerChecker. If it fails, every later call returns the same error, because the AnswerChecker has
// already received some of the entries.
func (w *Walk) CatchUp(ctx context.Context) error {
	if w.failed == nil {
		w.failed = w.catchUp(ctx)
	}
	return w.failed
}

func (w *Walk) catchUp(ctx context.Context) error {
	if err := w.followKeys(ctx); err != nil {
		return err
	}
	log, err := fetch.OpenLog(ctx, w.client, w.keys, w.options.Concurrency)
	if err != nil {
		return err
	}
	now, err := w.walk(ctx, log, audit.ExtendOptions{Start: w.at, History: w.past, SeenCheckpoints: w.seenCheckpoints(), OnEntry: w.pass})
	if err != nil {
		return err
	}
	w.at, w.log = now, log
	if w.past == w.state.past {
		return w.storeVerified(log, now)
	}
	return w.storeCheckpoint(ctx, log) // the state does not have the new entries
}

// each is called with every verified entry of the walk.
func (w *Walk) each(e audit.WalkedEntry) error {
	if err := w.pass(e); err != nil || w.content == nil {
		return err
	}
	return w.content.add(e)
}

// pass passes an entry to the AnswerChecker. If content is checked, it also keeps track of which
// records the entry redacts.
func (w *Walk) pass(e audit.WalkedEntry) error {
	if e.Body.Kind == record.KindContentRedacted && w.content != nil {
		for seq := range e.Body.Redaction.Seqs.All() {
			if _, before := w.redactedBy[seq]; !before {
				w.redactedBy[seq] = e.Seq
			}
		}
	}
	if w.options.AnswerChecker == nil {
		return nil
	}
	return w.options.AnswerChecker.AddEntry(e)
}

// compareRedactions checks, for the first size events, that the server's responses to content
// requests agree with the redactions in the log.
func (w *Walk) compareRedactions(ctx context.Context, size uint64) error {
	for seq := range size {
		flags, err := w.past.Flags(seq)
		if err != nil {
			return err
		}
		redacted := flags&audit.FlagRedacted != 0
		switch {
		case flags&audit.FlagContentGone != 0 && !redacted:
			return &audit.Damage{Kind: audit.DamageKindRedaction, Seq: seq, Message: "the server reports that the record's content was erased, but no event redacts the record"}
		case flags&audit.FlagContentGone != 0 && w.content.goneBy[seq] != w.redactedBy[seq]:
			return w.anotherRedaction(seq, w.content.goneBy[seq])
		case flags&audit.FlagContentServed != 0 && redacted:
			if err := w.mustBeGone(ctx, seq); err != nil {
				return err
			}
		}
		if redacted {
			w.report.RedactedRecords++
		}
	}
	return nil
}

// anotherRedaction returns the *Damage for a record if the server reports the wrong redacting
// event. by is the seq of the event that the server reported.
func (w *Walk) anotherRedaction(seq, by uint64) error {
	return &audit.Damage{Kind: audit.DamageKindRedaction, Seq: seq, Message: fmt.Sprintf("the server reports that event %d erased the record's content, but event %d redacts the record", by, w.redactedBy[seq])}
}

// mustBeGone fetches the content of a redacted record again, because the server may have served it
// before the redaction. It returns a *Damage if the server still serves the content.
func (w *Walk) mustBeGone(ctx context.Context, seq uint64) error {
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
		if goneBy != nil && *goneBy != w.redactedBy[seq] {
			return w.anotherRedaction(seq, *goneBy)
		}
		if goneBy == nil {
			return contentDamage(seq, piece.name, "the server still serves the content, although an event redacts the record")
		}
	}
	return nil
}

// eventAgain rereads an event from the log after the walk has verified it.
func (w *Walk) eventAgain(ctx context.Context, seq uint64) (pyjson.Value, error) {
	tile, err := w.past.Tile(0, seq/proofs.FullTileWidth)
	at := seq % proofs.FullTileWidth * proofs.HashSize
	if err == nil && uint64(len(tile)) < at+proofs.HashSize {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return pyjson.Value{}, fmt.Errorf("reading the stored leaf hash of entry %d: %w", seq, err)
	}
	var document pyjson.Document
	return audit.RereadEvent(ctx, w.log, seq, proofs.Hash(tile[at:at+proofs.HashSize]), &document)
}
