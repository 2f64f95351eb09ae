package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"colophon/internal/cli"
	"colophon/proofs"
	"colophon/proofs/audit"
)

// seenNote is a checkpoint that an audit has seen, as it was signed.
type seenNote struct {
	proofs.Checkpoint
	note []byte
}

// maxSeen is how many checkpoints are remembered that nothing shows to be of one log. Those
// that come when there are so many are not.
const maxSeen = 64

// readAgainst reads the notes that others have seen.
func readAgainst(names []string) (notes [][]byte, err error) {
	for _, name := range names {
		note, err := os.ReadFile(name)
		if err != nil {
			return nil, cli.Refused("--against: %w", err)
		}
		notes = append(notes, note)
	}
	return notes, nil
}

// olderNote is a checkpoint that the newest key has not signed: someone who has stolen an
// older key since it was retired can sign what they like. The walk shows what it is worth.
type olderNote struct {
	file       string
	note       []byte
	checkpoint proofs.Checkpoint
}

// openAgainst opens those notes, which any key of the log may have signed.
func (a *auditor) openAgainst(notes [][]byte) error {
	for i, note := range notes {
		file := a.against[i]
		if checkpoint, err := proofs.OpenCheckpoint(note, a.newest()...); err == nil {
			a.others = append(a.others, audit.Seen{Checkpoint: checkpoint, By: file})
			continue
		}
		checkpoint, err := proofs.OpenCheckpoint(note, a.known...)
		if err != nil {
			return cli.Refused("--against: %s: %w", file, err)
		}
		a.older = append(a.older, olderNote{file, note, checkpoint})
	}
	return nil
}

// newest are the newest keys that are known, those of which no successor is.
func (a *auditor) newest() []*proofs.Verifier {
	list := slices.Clone(a.given)
	for _, history := range a.histories {
		if slices.ContainsFunc(list, history.Trusts) {
			list = addKeys(slices.DeleteFunc(list, history.Trusts), history.Current())
		}
	}
	return list
}

// checkOlder compares the log as it was walked with checkpoints that older keys have
// signed. One that those keys could not sign any more, or not alone, is refused.
func (a *auditor) checkOlder(at audit.Position, past audit.Past) error {
	if len(a.older) == 0 || at.Keys == nil {
		return nil
	}
	tree, err := proofs.OpenTree(at.Size, past.Tile, nil)
	if err != nil {
		return err
	}
	prover := proofs.NewProver(tree.Snapshot(), nil, past.Tile)
	for _, o := range a.older {
		if _, err := at.Keys.OpenGrown(o.note, at.Size, at.Keys.Verifiers(), nil); err != nil {
			return cli.Refused("--against: %s: %w: it counts for nothing", o.file, err)
		}
		seen := o.checkpoint
		if seen.Size > at.Size {
			return &audit.Damage{Kind: audit.KindRollback, Seq: at.Size, Message: fmt.Sprintf("the log has %d entries, %s saw %d", at.Size, o.file, seen.Size)}
		}
		root, err := prover.Root(seen.Size)
		if err != nil {
			return err
		}
		if root != seen.Root {
			return &audit.Damage{Kind: audit.KindFork, Seq: seen.Size, Message: fmt.Sprintf("at size %d %s saw the root %x, the log has %x: "+
				"the log has shown two trees while the key was in force that signed %[2]s, or somebody who has that key has signed it since it was replaced", seen.Size, o.file, seen.Root, root)}
		}
	}
	return nil
}

// seen are the checkpoints that the log must be an extension of.
func (a *auditor) seen() []audit.Seen { return slices.Concat(a.memory.checkpoints(), a.others) }

// remember notes that the whole log is good up to where the walk has come to: it is an
// extension of all that was seen before.
func (a *auditor) remember(log *publishedLog, at audit.Position) error {
	now, err := a.openSeen(log)
	if err != nil {
		return err
	}
	if err := a.memory.come(at); err != nil {
		return err
	}
	a.memory.checked, a.memory.seen = at.Size, []seenNote{now}
	a.memory.done[checkedLog] = checkedAt{at.Size, timeOfReport()}
	return a.memory.save()
}

// show notes a checkpoint that the server has shown in this audit: what it shows later must
// be an extension of it. The state has it from its next change on.
func (a *auditor) show(log *publishedLog) {
	now, err := a.openSeen(log)
	known := func(s seenNote) bool { return s.Checkpoint == now.Checkpoint }
	if err == nil && len(a.memory.seen) < maxSeen && !slices.ContainsFunc(a.memory.seen, known) {
		a.memory.seen = append(a.memory.seen, now)
	}
}

// reach notes how far a walk has come that is not at its end.
func (a *auditor) reach(ctx context.Context, log *publishedLog, at audit.Position) error {
	if err := a.memory.come(at); err != nil {
		return err
	}
	return a.see(ctx, log)
}

// rememberDamaged notes that a checkpoint was seen, though what it signs is damaged,
// unless it is itself what is wrong: it stays signed. A fork of what is remembered is told
// by that, and is not.
func (a *auditor) rememberDamaged(ctx context.Context, log *publishedLog, d *audit.Damage) error {
	switch d.Kind {
	case audit.KindSignature, audit.KindCheckpoint, audit.KindFork:
		return nil
	}
	return a.see(ctx, log)
}

// see notes a checkpoint of which it is not known whether its log is the one that was
// seen before. It takes the place of those alone that it is proved to be an extension of.
func (a *auditor) see(ctx context.Context, log *publishedLog) error {
	now, err := a.openSeen(log)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(a.memory.seen, func(s seenNote) bool { return s.Checkpoint == now.Checkpoint }) {
		return a.memory.save()
	}
	a.memory.seen = unproved(ctx, log, now.Checkpoint, a.memory.seen)
	if len(a.memory.seen) < maxSeen {
		a.memory.seen = append(a.memory.seen, now)
	}
	return a.memory.save()
}

func (a *auditor) openSeen(log *publishedLog) (seenNote, error) {
	checkpoint, err := proofs.OpenCheckpoint(log.head.Checkpoint, a.keys...)
	if walked := a.memory.history(); err == nil && walked != nil {
		checkpoint, err = walked.OpenGrown(log.head.Checkpoint, a.memory.at.Size, a.given, a.keys)
	}
	if err != nil {
		return seenNote{}, fmt.Errorf("the checkpoint: %w", err)
	}
	return seenNote{checkpoint, log.head.Checkpoint}, nil
}

// unproved are those of the checkpoints seen that the log's tiles do not prove its own to
// be an extension of, for whatever reason.
func unproved(ctx context.Context, log *publishedLog, now proofs.Checkpoint, seen []seenNote) []seenNote {
	if len(seen) == 0 {
		return nil
	}
	read := func(level uint8, index uint64) ([]byte, error) { return log.Tile(ctx, level, index) }
	tree, err := proofs.OpenTree(now.Size, read, nil)
	if err != nil || tree.Root() != now.Root {
		return seen
	}
	prover := proofs.NewProver(tree.Snapshot(), nil, read)
	return slices.DeleteFunc(slices.Clone(seen), func(s seenNote) bool {
		root, err := prover.Root(s.Size)
		return err == nil && root == s.Root && s.Origin == now.Origin
	})
}
