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

// SeenNote is a checkpoint that an audit has seen, with its signed note.
type SeenNote struct {
	proofs.Checkpoint
	Note []byte
}

// MaxSeen bounds the checkpoints that are remembered without proof that they belong to one
// log. Further ones are not remembered.
const MaxSeen = 64

// readAgainst reads the files of --against.
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

// olderNote is a checkpoint without a signature of the newest key. Someone who stole an older
// key after its retirement can sign anything with it. The walk decides what the note is worth.
type olderNote struct {
	file       string
	note       []byte
	checkpoint proofs.Checkpoint
}

// openAgainst opens the notes of --against, which any key of the log may have signed.
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

// newest returns the known keys that have no successor.
func (a *Auditor) newest() []*proofs.Verifier {
	list := slices.Clone(a.Given)
	for _, history := range a.histories {
		if slices.ContainsFunc(list, history.Trusts) {
			list = addKeys(slices.DeleteFunc(list, history.Trusts), history.Current())
		}
	}
	return list
}

// checkOlder compares the walked log with checkpoints that older keys have signed. It refuses
// a checkpoint of a size at which those keys no longer signed, or not alone.
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

// Seen returns the checkpoints that the log must extend.
func (a *Auditor) Seen() []audit.Seen { return slices.Concat(a.Memory.Checkpoints(), a.others) }

// Remember stores that the log is valid up to the end of the walk, and extends everything seen
// before.
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

// show stores a checkpoint that the server has shown in this audit. Later ones must extend it.
// The next save writes it to the state.
func (a *Auditor) show(log *PublishedLog) {
	now, err := a.openSeen(log)
	known := func(s SeenNote) bool { return s.Checkpoint == now.Checkpoint }
	if err == nil && len(a.Memory.Seen) < MaxSeen && !slices.ContainsFunc(a.Memory.Seen, known) {
		a.Memory.Seen = append(a.Memory.Seen, now)
	}
}

// Reach stores the progress of a walk that has not ended.
func (a *Auditor) Reach(ctx context.Context, log *PublishedLog, at audit.Position) error {
	if err := a.Memory.Come(at); err != nil {
		return err
	}
	return a.see(ctx, log)
}

// rememberDamaged stores the checkpoint of a damaged log, since it stays signed. It does not
// store one that is itself the damage, and a fork of what is remembered.
func (a *Auditor) rememberDamaged(ctx context.Context, log *PublishedLog, d *audit.Damage) error {
	switch d.Kind {
	case audit.KindSignature, audit.KindCheckpoint, audit.KindFork:
		return nil
	}
	return a.see(ctx, log)
}

// see stores a checkpoint that may belong to another log than the earlier ones. It replaces
// only those that it provably extends.
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

// unproved returns the seen checkpoints that the log's tiles do not prove to be earlier states
// of the log.
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
