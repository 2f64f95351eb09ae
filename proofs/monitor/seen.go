package monitor

import (
	"context"
	"fmt"
	"os"
	"slices"

	"colophon/internal/cli"
	"colophon/proofs"
	"colophon/proofs/audit"
)

// SeenNote is a checkpoint that an audit has seen, as it was signed.
type SeenNote struct {
	proofs.Checkpoint
	Note []byte
}

// MaxSeen is how many checkpoints are remembered that nothing shows to be of one log. Those
// that come when there are so many are not.
const MaxSeen = 64

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
func (a *Auditor) openAgainst(notes [][]byte) error {
	for i, note := range notes {
		file := a.Against[i]
		if checkpoint, err := proofs.OpenCheckpoint(note, a.newest()...); err == nil {
			a.others = append(a.others, audit.Seen{Checkpoint: checkpoint, By: file})
			continue
		}
		checkpoint, err := proofs.OpenCheckpoint(note, a.Known...)
		if err != nil {
			return cli.Refused("--against: %s: %w", file, err)
		}
		a.older = append(a.older, olderNote{file, note, checkpoint})
	}
	return nil
}

// newest are the newest keys that are known, those of which no successor is.
func (a *Auditor) newest() []*proofs.Verifier {
	list := slices.Clone(a.Given)
	for _, history := range a.histories {
		if slices.ContainsFunc(list, history.Trusts) {
			list = addKeys(slices.DeleteFunc(list, history.Trusts), history.Current())
		}
	}
	return list
}

// checkOlder compares the log as it was walked with checkpoints that older keys have
// signed. One that those keys could not sign any more, or not alone, is refused.
func (a *Auditor) checkOlder(at audit.Position, past audit.Past) error {
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

// Seen are the checkpoints that the log must be an extension of.
func (a *Auditor) Seen() []audit.Seen { return slices.Concat(a.Memory.Checkpoints(), a.others) }

// Remember notes that the whole log is good up to where the walk has come to: it is an
// extension of all that was seen before.
func (a *Auditor) Remember(log *PublishedLog, at audit.Position) error {
	now, err := a.openSeen(log)
	if err != nil {
		return err
	}
	if err := a.Memory.Come(at); err != nil {
		return err
	}
	a.Memory.checked, a.Memory.Seen = at.Size, []SeenNote{now}
	a.Memory.done[checkedLog] = CheckedAt{at.Size, timeOfReport()}
	return a.Memory.Save()
}

// show notes a checkpoint that the server has shown in this audit: what it shows later must
// be an extension of it. The state has it from its next change on.
func (a *Auditor) show(log *PublishedLog) {
	now, err := a.openSeen(log)
	known := func(s SeenNote) bool { return s.Checkpoint == now.Checkpoint }
	if err == nil && len(a.Memory.Seen) < MaxSeen && !slices.ContainsFunc(a.Memory.Seen, known) {
		a.Memory.Seen = append(a.Memory.Seen, now)
	}
}

// Reach notes how far a walk has come that is not at its end.
func (a *Auditor) Reach(ctx context.Context, log *PublishedLog, at audit.Position) error {
	if err := a.Memory.Come(at); err != nil {
		return err
	}
	return a.see(ctx, log)
}

// rememberDamaged notes that a checkpoint was seen, though what it signs is damaged,
// unless it is itself what is wrong: it stays signed. A fork of what is remembered is told
// by that, and is not.
func (a *Auditor) rememberDamaged(ctx context.Context, log *PublishedLog, d *audit.Damage) error {
	switch d.Kind {
	case audit.KindSignature, audit.KindCheckpoint, audit.KindFork:
		return nil
	}
	return a.see(ctx, log)
}

// see notes a checkpoint of which it is not known whether its log is the one that was
// seen before. It takes the place of those alone that it is proved to be an extension of.
func (a *Auditor) see(ctx context.Context, log *PublishedLog) error {
	now, err := a.openSeen(log)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(a.Memory.Seen, func(s SeenNote) bool { return s.Checkpoint == now.Checkpoint }) {
		return a.Memory.Save()
	}
	a.Memory.Seen = unproved(ctx, log, now.Checkpoint, a.Memory.Seen)
	if len(a.Memory.Seen) < MaxSeen {
		a.Memory.Seen = append(a.Memory.Seen, now)
	}
	return a.Memory.Save()
}

func (a *Auditor) openSeen(log *PublishedLog) (SeenNote, error) {
	checkpoint, err := proofs.OpenCheckpoint(log.Published.Checkpoint, a.Keys...)
	if walked := a.Memory.history(); err == nil && walked != nil {
		checkpoint, err = walked.OpenGrown(log.Published.Checkpoint, a.Memory.At.Size, a.Given, a.Keys)
	}
	if err != nil {
		return SeenNote{}, fmt.Errorf("the checkpoint: %w", err)
	}
	return SeenNote{checkpoint, log.Published.Checkpoint}, nil
}

// unproved are those of the checkpoints seen that the log's tiles do not prove its own to
// be an extension of, for whatever reason.
func unproved(ctx context.Context, log *PublishedLog, now proofs.Checkpoint, seen []SeenNote) []SeenNote {
	if len(seen) == 0 {
		return nil
	}
	read := func(level uint8, index uint64) ([]byte, error) { return log.Tile(ctx, level, index) }
	tree, err := proofs.OpenTree(now.Size, read, nil)
	if err != nil || tree.Root() != now.Root {
		return seen
	}
	prover := proofs.NewProver(tree.Snapshot(), nil, read)
	return slices.DeleteFunc(slices.Clone(seen), func(s SeenNote) bool {
		root, err := prover.Root(s.Size)
		return err == nil && root == s.Root && s.Origin == now.Origin
	})
}
