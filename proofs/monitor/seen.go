package monitor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/proofs/monitor/fetch"
)

// seenNote is a checkpoint that an audit has seen, with its signed note.
type seenNote struct {
	proofs.Checkpoint
	note []byte
}

// maxSeen is the maximum number of checkpoints that an audit remembers without proof that they all
// belong to the same log.
const maxSeen = 64

// olderNote is a checkpoint that only older keys have signed. Because someone who stole a retired
// key could have signed it, checkOlder decides after the walk whether to accept it.
type olderNote struct {
	NamedCheckpoint
	checkpoint proofs.Checkpoint
}

// openAgainst opens the checkpoints in Options.SeenCheckpoints, which may be signed by any key of the log.
func (a *Auditor) openAgainst() error {
	for _, note := range a.options.SeenCheckpoints {
		if checkpoint, err := proofs.OpenCheckpoint(note.Text, a.newest()...); err == nil {
			a.others = append(a.others, audit.SeenCheckpoint{Checkpoint: checkpoint, SeenBy: note.Name})
			continue
		}
		checkpoint, err := proofs.OpenCheckpoint(note.Text, a.known...)
		if err != nil {
			return &CheckpointError{Name: note.Name, Err: err}
		}
		a.older = append(a.older, olderNote{note, checkpoint})
	}
	return nil
}

// checkOlder compares the walked log with checkpoints that only older keys have signed. It returns
// a *CheckpointError if the keys that signed a checkpoint were already retired at its size, or if
// another key also had to sign it.
func (a *Auditor) checkOlder(at audit.Position, past audit.History) error {
	if len(a.older) == 0 || at.Keys == nil {
		return nil
	}
	tree, err := proofs.OpenTree(at.Size, past.Tile, nil)
	if err != nil {
		return err
	}
	prover := proofs.NewProver(tree.Snapshot(), nil, past.Tile)
	for _, o := range a.older {
		if _, err := at.Keys.OpenLaterCheckpoint(o.Text, at.Size, at.Keys.Verifiers(), nil); err != nil {
			return &CheckpointError{Name: o.Name, Err: fmt.Errorf("the checkpoint cannot be accepted: %w", err)}
		}
		seen := o.checkpoint
		if seen.Size > at.Size {
			return &audit.Damage{Kind: audit.DamageKindRollback, Seq: at.Size, Message: fmt.Sprintf("the log has only %d entries, but %s saw %d", at.Size, o.Name, seen.Size)}
		}
		root, err := prover.Root(seen.Size)
		if err != nil {
			return err
		}
		if root != seen.Root {
			return &audit.Damage{Kind: audit.DamageKindFork, Seq: seen.Size, Message: fmt.Sprintf("at size %d, %s saw the root %x, but the log has the root %x; "+
				"either the log showed two trees while the key that signed %[2]s was current, or someone used the key after it was replaced", seen.Size, o.Name, seen.Root, root)}
		}
	}
	return nil
}

// seenCheckpoints returns the checkpoints that the log must extend.
func (a *Auditor) seenCheckpoints() []audit.SeenCheckpoint {
	return slices.Concat(a.state.checkpoints(), a.others)
}

// storeVerified records in the state that the log is valid up to the end of the walk and extends
// all earlier checkpoints.
func (a *Auditor) storeVerified(log *fetch.Log, at audit.Position) error {
	now, err := a.openSeen(log)
	if err != nil {
		return err
	}
	if err := a.state.advance(at); err != nil {
		return err
	}
	a.state.checked, a.state.seen, a.state.keys = at.Size, []seenNote{now}, slices.Clone(a.keys)
	a.state.done[checkLog] = LastSuccess{at.Size, a.report.StartTime}
	return a.state.save()
}

// storeProgress stores the progress of a walk that is still running.
func (a *Auditor) storeProgress(ctx context.Context, log *fetch.Log, at audit.Position) error {
	if err := a.state.advance(at); err != nil {
		return err
	}
	return a.storeCheckpoint(ctx, log)
}

// storeFailed stores the checkpoint of a log whose walk failed with err, because the checkpoint's
// signature is evidence. It stores nothing if the checkpoint itself is damaged, or if the log is a fork
// of the log in the state.
func (a *Auditor) storeFailed(ctx context.Context, log *fetch.Log, err error) error {
	var damage *audit.Damage
	if !errors.As(err, &damage) {
		return a.storeUnproved(log)
	}
	switch damage.Kind {
	case audit.DamageKindSignature, audit.DamageKindCheckpoint, audit.DamageKindFork:
		return nil
	}
	return a.storeCheckpoint(ctx, log)
}

// storeUnproved stores the checkpoint of a log that the server does not serve completely. It does not
// ask the server for a proof that the log extends the stored checkpoints.
func (a *Auditor) storeUnproved(log *fetch.Log) error {
	now, err := a.openSeen(log)
	if err != nil {
		return nil // the walk did not open the checkpoint either
	}
	known := func(s seenNote) bool { return s.Checkpoint == now.Checkpoint }
	if len(a.state.seen) < maxSeen && !slices.ContainsFunc(a.state.seen, known) {
		a.state.seen = append(a.state.seen, now)
	}
	return a.state.save()
}

// storeCheckpoint stores the checkpoint of log. The stored checkpoints may belong to a different
// log, so storeCheckpoint replaces only those that the new checkpoint provably extends.
func (a *Auditor) storeCheckpoint(ctx context.Context, log *fetch.Log) error {
	now, err := a.openSeen(log)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(a.state.seen, func(s seenNote) bool { return s.Checkpoint == now.Checkpoint }) {
		return a.state.save()
	}
	a.state.seen = unproved(ctx, log, now.Checkpoint, a.state.seen)
	if len(a.state.seen) < maxSeen {
		a.state.seen = append(a.state.seen, now)
	}
	return a.state.save()
}

func (a *Auditor) openSeen(log *fetch.Log) (seenNote, error) {
	checkpoint, err := proofs.OpenCheckpoint(log.Checkpoint(), a.keys...)
	if walked := a.state.history(); err == nil && walked != nil {
		checkpoint, err = walked.OpenLaterCheckpoint(log.Checkpoint(), a.state.at.Size, a.options.Keys, a.keys)
	}
	if err != nil {
		return seenNote{}, fmt.Errorf("reading the checkpoint: %w", err)
	}
	return seenNote{checkpoint, log.Checkpoint()}, nil
}

// unproved returns every checkpoint in seen that the log's tiles do not prove to be an earlier
// state of the log.
func unproved(ctx context.Context, log *fetch.Log, now proofs.Checkpoint, seen []seenNote) []seenNote {
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
