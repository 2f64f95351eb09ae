package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"colophon/ledger/record/moment"
	"colophon/proofs"
)

const (
	progressStep = 4096    // number of entries between two calls to Options.Progress
	reachedStep  = 1 << 16 // number of entries between two calls to ExtendOptions.OnVerified
)

// walk is one pass over a log. Its parts share the target and the tree.
type walk struct {
	*target
	options   Options
	extension ExtendOptions // the zero value for a stored log
	report    Report
	tally     Tally

	tree    *treeCheck
	seen    *seenCheck
	signers *signerCheck
	events  *eventCheck
	content *contentCheck // nil for a published log
}

// newWalk returns a walk that starts at the beginning of a log. stored is nil for a published log.
// If stored is not nil, x.History is ignored.
func newWalk(ctx context.Context, source PublishedLog, stored Source, options Options, x ExtendOptions) (*walk, error) {
	head, err := source.Head(ctx)
	if err != nil {
		return nil, fmt.Errorf("audit: reading the head: %w", err)
	}
	empty, err := proofs.OpenTree(0, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	w := &walk{options: options, extension: x}
	w.target = &target{ctx: ctx, source: source, head: head}
	w.tree = &treeCheck{target: w.target, past: x.History, tree: empty}
	reread := &rereader{treeCheck: w.tree}
	if stored != nil {
		w.isStored = true
		w.tree.past = &storedPast{target: w.target, stored: stored, reread: reread, sources: make(map[proofs.Hash]bool)}
		w.content = newContentCheck(w.target, stored, reread, &w.report)
	}
	w.seen = &seenCheck{treeCheck: w.tree, checkpoints: x.SeenCheckpoints}
	w.signers = &signerCheck{target: w.target, verifiers: options.Verifiers, successors: options.Successors}
	uses := &useCheck{past: w.tree.past, report: &w.report, tally: &w.tally}
	w.events = newEventCheck(options, w.signers, uses, &actionCheck{past: w.tree.past, reread: reread})
	return w, nil
}

// run walks the log and returns the report, which includes any damage. It returns an error if the
// walk could not finish.
func (w *walk) run() (*Report, error) {
	err := w.check()
	if w.ctx.Err() != nil {
		return nil, fmt.Errorf("audit: %w", w.ctx.Err())
	}
	if err != nil && !errors.As(err, &w.report.Damage) {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return &w.report, nil
}

// check runs all the checks. Its error wraps a *Damage or says why the walk could not finish.
func (w *walk) check() error {
	if w.head.Size > 0 || len(w.head.Checkpoint) > 0 || !w.isStored {
		if err := w.signers.open(w.tree.size()); err != nil {
			return err
		}
		w.report.Checkpoint = w.checkpoint
	}
	if err := w.seen.checkBefore(); err != nil {
		return err
	}
	if err := w.entries(); err != nil {
		return err
	}
	w.progress()
	if err := w.tree.finish(); err != nil {
		return err
	}
	if w.isStored {
		if err := w.checkHead(); err != nil {
			return err
		}
	}
	if err := w.signers.finish(); err != nil {
		return err
	}
	if err := w.events.uses.finish(w.tree.size()); err != nil || w.content == nil {
		return err
	}
	return w.content.redactions.finish()
}

// entries checks the entries up to the head.
func (w *walk) entries() error {
	if w.tree.size() == w.head.Size {
		return nil
	}
	for entry, err := range w.source.Entries(w.ctx, w.tree.size()) {
		if w.ctx.Err() != nil {
			return w.ctx.Err()
		}
		seq := w.tree.size()
		if seq == w.head.Size && (err == nil || w.isStored) {
			return nil // the remaining entries were added after the walk began
		}
		if err != nil {
			return readDamage(err, damaged(DamageKindTruncation, seq, "the entry cannot be read, although the head has %d entries: %v", w.head.Size, err))
		}
		if err := w.entry(seq, entry); err != nil {
			return err
		}
		w.report.Size++
		if w.report.Size%progressStep == 0 {
			w.progress()
		}
	}
	if size := w.tree.size(); size < w.head.Size {
		return damaged(DamageKindTruncation, size, "this entry and all later entries are missing, although the head has %d entries", w.head.Size)
	}
	return nil
}

func (w *walk) progress() {
	if w.options.Progress != nil {
		w.options.Progress(w.report.Size, w.head.Size)
	}
}

// entry checks one entry: first its place in the tree and the chain, and then its event.
func (w *walk) entry(seq uint64, entry []byte) error {
	leaf, body, err := w.tree.check(seq, entry)
	if err != nil {
		return err
	}
	if err := w.reached(); err != nil {
		return err
	}
	e, err := w.events.check(seq, body)
	if err != nil {
		return err
	}
	if w.content != nil {
		if err := w.content.check(e, body); err != nil {
			return err
		}
	}
	if err := w.tree.past.AppendFlags(eventFlagsOf(e)); err != nil {
		return err
	}
	if w.extension.OnEntry != nil {
		if err := w.extension.OnEntry(WalkedEntry{Seq: seq, Entry: entry, ParsedBody: w.events.document.Root(), Body: e}); err != nil {
			return err
		}
	}
	w.tree.append(leaf, entry)
	return w.seen.checkGrown()
}

// reached calls ExtendOptions.OnVerified after every reachedStep entries if the signed tree contains
// them.
func (w *walk) reached() error {
	size := w.tree.size()
	if w.extension.OnVerified == nil || size%reachedStep != 0 || size == w.extension.Start.Size {
		return nil
	}
	root, known, err := w.servedRoot(size)
	if err != nil || !known || root != w.tree.tree.Root() {
		return err // if there is damage, the walk reports it later
	}
	return w.extension.OnVerified(w.position())
}

// checkHead compares the stored head with the last entry.
func (w *walk) checkHead() error {
	size, last := w.head.Size, w.events.time
	if w.tree.tip != w.head.Tip {
		return damaged(DamageKindHead, size, "the hash of the last event is %x, but the head has %x", w.tree.tip, w.head.Tip)
	}
	at, _ := moment.Parse(last) // the walk has already checked the time, so Parse fails only if the log is empty
	if size > 0 && at.UnixMicro() != w.head.TimeMicros {
		return damaged(DamageKindHead, size, "the last event's time is %s, but the head has %s", last, time.UnixMicro(w.head.TimeMicros).UTC().Format(moment.Layout))
	}
	return nil
}

// resume makes the walk continue from the given position. It returns an error if the stored tiles do
// not match the position.
func (w *walk) resume(from Position) error {
	tree, err := proofs.OpenTree(from.Size, w.tree.past.Tile, nil)
	if err != nil {
		return fmt.Errorf("audit: reading the stored tiles of %d entries: %w", from.Size, err)
	}
	if root := tree.Root(); root != from.Root {
		return fmt.Errorf("audit: the stored tiles of %d entries have the root %x, but the walk must resume from the root %x", from.Size, root, from.Root)
	}
	if from.Keys == nil {
		return fmt.Errorf("audit: the key history after %d entries is missing", from.Size)
	}
	w.tree.tree, w.tree.tip = tree, from.Tip
	w.events.time, w.events.ledger, w.events.members = []byte(from.Time), from.Ledger, from.PayloadMemberSecretHash
	w.signers.history = from.Keys.Clone()
	w.report.Size, w.tally = from.Size, from.Tally
	return nil
}

func (w *walk) position() Position {
	p := Position{Size: w.tree.size(), Root: w.tree.tree.Root(), Tip: w.tree.tip, Time: string(w.events.time), Ledger: w.events.ledger, PayloadMemberSecretHash: w.events.members, Tally: w.tally}
	if w.signers.history != nil {
		p.Keys = w.signers.history.Clone()
	}
	return p
}
