package index

import (
	"context"

	"colophon/ledger/index/counters"
	"colophon/ledger/index/rowstore"
)

// Family is one family of questions: what its rows look like, and what changes them.
type Family struct {
	// Rows is the length, in bytes, of what stands before a version, in each dimension of
	// the family that has versions.
	Rows map[rowstore.Dimension]int
	// Counters are those of the family that begin with 0, so that a rate shows their first
	// increment. All others begin when they are first added to.
	Counters []counters.Series
	// New makes the deriver of one ledger for a fold that begins. The derivers of the
	// families that are listed before are there: DeriverOf finds them.
	New func(f *Fold) Deriver
}

// Deriver changes the rows of one family as events come. It belongs to one fold.
type Deriver interface {
	// Derive folds an event. After ErrBatchNotEmpty or ErrUnfinished the event comes
	// again; any other error ends the fold.
	Derive(ctx context.Context, e *Event) error
}

// Preparer is a deriver that does a part of its work ahead of the fold.
type Preparer interface {
	// Prepare finds what follows from an event alone, and leaves it in the event (see
	// Prepared). It runs in the goroutine that reads the log, beside Derive.
	Prepare(e *Event)
}

// Deferring is a deriver that leaves a part of its work until the batch ends. While an
// index is rebuilt, that part waits for many batches.
type Deferring interface {
	// BeginBatch says that a batch begins with an event, and no work waits.
	BeginBatch(from uint64)
	// Pending returns how many pieces of work wait.
	Pending() int
	// FlushPending does that many pieces of the waiting work.
	FlushPending(pieces int)
}

// Releaser is a deriver that has something to give back when it is not used any more.
type Releaser interface{ Release() }

// DeriverOf is the deriver of a type that a fold has; nil if it has none.
func DeriverOf[D Deriver](f *Fold) (found D) {
	for _, d := range f.derivers {
		if d, ok := d.(D); ok {
			return d
		}
	}
	return found
}

// Prepared is the place that an event has for what a deriver prepares, one for each type.
// What is there is that of an earlier event until Prepare has replaced it.
func Prepared[T any](e *Event) *T { return slotOf[T](&e.prepared) }

// Kept is the place that a view has for what questions keep with it, one for each type.
func ViewState[T any](v *View) *T { return slotOf[T](&v.states) }

func slotOf[T any](places *[]any) *T {
	for _, place := range *places {
		if place, ok := place.(*T); ok {
			return place
		}
	}
	place := new(T)
	*places = append(*places, place)
	return place
}

// derivers makes the derivers of all families.
func (f *Fold) addDerivers(families []Family) {
	for _, family := range families {
		d := family.New(f)
		f.derivers = append(f.derivers, d)
		if p, ok := d.(Preparer); ok {
			f.preparers = append(f.preparers, p)
		}
		if p, ok := d.(Deferring); ok {
			f.deferring = append(f.deferring, p)
		}
	}
}

// pending is how many pieces of work wait for the end of the batch, or longer.
func (f *Fold) pending() (pieces int) {
	for _, d := range f.deferring {
		pieces += d.Pending()
	}
	return pieces
}

// flushDeferred does so many pieces of that work, or as many as there are.
func (f *Fold) flushDeferred(pieces int) {
	for _, d := range f.deferring {
		some := min(pieces, d.Pending())
		d.FlushPending(some)
		pieces -= some
	}
}

// beginDeferring says that a batch begins with the next event, unless work still waits.
func (f *Fold) beginDeferring() {
	for _, d := range f.deferring {
		if d.Pending() == 0 {
			d.BeginBatch(f.state.size)
		}
	}
}
