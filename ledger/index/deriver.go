package index

import (
	"context"

	"colophon/ledger/index/counters"
	"colophon/ledger/index/rowstore"
)

// Family is one family of questions: the lengths of its rows, and the deriver that writes them.
type Family struct {
	// Rows maps each dimension of the family that has versions to the length of its rows in
	// bytes.
	Rows map[rowstore.Dimension]int
	// Counters lists the counters that begin with 0, so that the rate function of Prometheus
	// shows their first increment. Other counters begin with their first increment.
	Counters []counters.Series
	// New returns the deriver of one ledger for a new fold. It can use DeriverOf to find the
	// derivers of earlier families.
	New func(f *Fold) Deriver
}

// Deriver writes the rows of one family, event by event. It belongs to one fold.
type Deriver interface {
	// Derive folds an event. After ErrBatchNotEmpty or ErrBatchFull, Derive is called with the
	// same event again. Any other error stops the fold.
	Derive(ctx context.Context, e *Event) error
}

// Preparer is a deriver that does part of its work ahead of the fold.
type Preparer interface {
	// Prepare computes what follows from an event alone and stores it in the event (see
	// PreparedValue). It runs in the goroutine that reads the log, concurrently with Derive.
	Prepare(e *Event)
}

// Deferrer is a deriver that postpones part of its work until the batch ends. While an index
// is rebuilt, it postpones this work over many batches.
type Deferrer interface {
	// BeginBatch is called when a batch begins with event from and no work is pending.
	BeginBatch(from uint64)
	// Pending returns the number of pieces of pending work.
	Pending() int
	// FlushPending does the given number of pieces of pending work. The number must not exceed
	// Pending.
	FlushPending(pieces int)
}

// Releaser is a deriver that holds resources. Release is called when the fold is no longer
// used.
type Releaser interface{ Release() }

// DeriverOf returns the fold's deriver of type D, or nil if it has none.
func DeriverOf[D Deriver](f *Fold) (found D) {
	for _, d := range f.derivers {
		if d, ok := d.(D); ok {
			return d
		}
	}
	return found
}

// PreparedValue returns the event's value of type T, which Prepare sets and Derive reads. Events
// are reused, so the value is that of an earlier event until Prepare sets it.
func PreparedValue[T any](e *Event) *T { return slotOf[T](&e.prepared) }

// ViewState returns the view's value of type T, in which queries cache what they have read. It
// is zero at first.
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

// addDerivers creates the derivers of all families.
func (f *Fold) addDerivers(families []Family) {
	for _, family := range families {
		d := family.New(f)
		f.derivers = append(f.derivers, d)
		if p, ok := d.(Preparer); ok {
			f.preparers = append(f.preparers, p)
		}
		if p, ok := d.(Deferrer); ok {
			f.deferring = append(f.deferring, p)
		}
	}
}

// pending returns the number of pieces of work that all derivers have deferred.
func (f *Fold) pending() (pieces int) {
	for _, d := range f.deferring {
		pieces += d.Pending()
	}
	return pieces
}

// flushDeferred does deferred work of all derivers, but no more than the given number of
// pieces.
func (f *Fold) flushDeferred(pieces int) {
	for _, d := range f.deferring {
		some := min(pieces, d.Pending())
		d.FlushPending(some)
		pieces -= some
	}
}

// beginDeferring tells derivers without pending work that a batch begins with the next event.
func (f *Fold) beginDeferring() {
	for _, d := range f.deferring {
		if d.Pending() == 0 {
			d.BeginBatch(f.state.size)
		}
	}
}
