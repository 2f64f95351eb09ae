package audit

import (
	"context"
	"fmt"

	"colophon/ledger/event"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// Position is where a walk has come to: the next goes on from there. The zero Position
// is the beginning.
type Position struct {
	Size   uint64             // entries walked
	Root   proofs.Hash        // of the tree that they are
	Tip    proofs.Hash        // event_hash of the last
	Time   string             // of the last event (spec: Event body)
	Ledger string             // name that events carry
	Keys   *proofs.KeyHistory // as the events say; nil at the beginning
	Tally  Tally
}

// Seen is a checkpoint of the log that was seen earlier, and its source.
type Seen struct {
	proofs.Checkpoint
	By string
}

// Walked is an entry that a walk has found good. Entry, Event, and Body are valid while it
// is being handed over.
type Walked struct {
	Seq   uint64
	Entry []byte
	Event pyjson.Value // its body
	Body  *event.Body  // what that says
}

// Extension is what Extend needs beside Options.
type Extension struct {
	// From is where the walk goes on, and Past what was remembered up to there: it has
	// all that was added to it, and no more.
	From Position
	Past Past
	// Seen are earlier checkpoints of the log; its tree must be theirs, grown.
	Seen []Seen
	// Each, if set, gets every entry, in order; its error ends the walk.
	Each func(Walked) error
	// Reached, if set, is called now and then, at a position that is a beginning of the
	// signed tree, when Past holds everything up to there; its error ends the walk.
	Reached func(Position) error
}

// Extend walks a log that another party publishes, from where an earlier walk has
// ended up to the head that it finds, once. It checks all that Log does but for what
// is stored beside the log, and that it is still the log which was seen before. Errors
// are as of Log; the position is where the next walk can go on, which is From if
// there is damage.
func Extend(ctx context.Context, log Published, options Options, x Extension) (*Report, Position, error) {
	options.Strict = true
	w, err := newWalk(ctx, log, options)
	if err != nil {
		return nil, x.From, err
	}
	w.past, w.extension = x.Past, x
	if x.From.Size > 0 {
		if err := w.resume(x.From); err != nil {
			return nil, x.From, err
		}
	}
	report, err := w.finished(w.run())
	if err != nil || report.Damage != nil {
		return report, x.From, err
	}
	return report, w.position(), nil
}

// resume goes on from a position.
func (w *walk) resume(from Position) error {
	tree, err := proofs.OpenTree(from.Size, w.past.Tile, nil)
	if err != nil {
		return fmt.Errorf("audit: what is remembered of %d entries: %w", from.Size, err)
	}
	if root := tree.Root(); root != from.Root {
		return fmt.Errorf("audit: what is remembered of %d entries leads to root %x, it was %x", from.Size, root, from.Root)
	}
	w.tree, w.tip = tree, from.Tip
	if from.Keys == nil {
		return fmt.Errorf("audit: of %d entries it is not remembered who signs", from.Size)
	}
	w.time, w.ledger, w.report.Size = []byte(from.Time), from.Ledger, from.Size
	w.history, w.tally = from.Keys.Clone(), from.Tally
	return nil
}

func (w *walk) position() Position {
	p := Position{Size: w.tree.Size(), Root: w.tree.Root(), Tip: w.tip, Time: string(w.time), Ledger: w.ledger, Tally: w.tally}
	if w.history != nil {
		p.Keys = w.history.Clone()
	}
	return p
}

// reachedStep is the number of entries between two calls of Reached.
const reachedStep = 1 << 16

// reached hands over the position, if it is time.
func (w *walk) reached() error {
	size := w.tree.Size()
	if w.extension.Reached == nil || size%reachedStep != 0 || size == w.extension.From.Size {
		return nil
	}
	root, known, err := w.servedRoot(size)
	if err != nil || !known || root != w.tree.Root() {
		return err // where it is not, the walk will say why
	}
	return w.extension.Reached(w.position())
}
