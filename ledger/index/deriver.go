package index

import (
	"context"

	"colophon/ledger/index/counters"
	"colophon/ledger/index/rowstore"
)

// Family describes one family of questions that the index answers: its rows, counters, and deriver.
type Family struct {
	// RowBytes maps each versioned dimension of the family to the length of its rows in bytes.
	RowBytes map[rowstore.Dimension]int
	// InitialSeries lists the counters that start at 0, so that Prometheus's rate function sees
	// their first increment. Any other counter appears only with its first increment.
	InitialSeries []counters.Series
	// New returns the deriver of one ledger for a new fold. It can use DeriverOf to find the
	// derivers of earlier families.
	New func(f *Fold) Deriver
}

// Deriver writes the rows of one family, one event at a time. It belongs to a single fold.
type Deriver interface {
	// Derive writes the rows that follow from an event. After ErrBatchNotEmpty or ErrBatchFull,
	// Derive is called with the same event again. Any other error stops the fold.
	Derive(ctx context.Context, e *Event) error
}

// Preparer is a deriver that does part of its work ahead of the fold.
type Preparer interface {
	// Prepare computes whatever can be derived from the event alone, and stores it in the event
	// (see PreparedValue). It is called by the goroutine that reads the log, concurrently with
	// Derive.
	Prepare(e *Event)
}

// Deferrer is a Deriver that defers part of its work to the end of the batch. While an index is
// being rebuilt, it defers this work over many batches.
type Deferrer interface {
	// BeginBatch is called at the start of a batch if no work is pending. from is the seq of the
	// first event in the batch.
	BeginBatch(from uint64)
	// PendingCount returns the number of pieces of pending work.
	PendingCount() int
	// FlushPending does the given number of pieces of pending work. The number must not exceed
	// PendingCount.
	FlushPending(pieces int)
}

// Releaser is a deriver that holds resources. Release is called when the fold is no longer
// used.
type Releaser interface{ Release() }

// DeriverOf returns the fold's deriver of type D, or the zero value if it has none.
func DeriverOf[D Deriver](f *Fold) (found D) {
	for _, d := range f.derivers {
		if d, ok := d.(D); ok {
			return d
		}
	}
	return found
}

// PreparedValue returns the event's value of type T, which is set by Prepare and read by Derive.
// Because events are reused, the value belongs to an earlier event until Prepare sets it.
func PreparedValue[T any](e *Event) *T { return slotOf[T](&e.prepared) }

// ViewState returns the view's value of type T, in which queries cache what they have read. The
// value is initially zero.
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
		pieces += d.PendingCount()
	}
	return pieces
}

// flushDeferred does up to the given number of pieces of the derivers' deferred work.
func (f *Fold) flushDeferred(pieces int) {
	for _, d := range f.deferring {
		some := min(pieces, d.PendingCount())
		d.FlushPending(some)
		pieces -= some
	}
}

// beginDeferring tells derivers without pending work that a batch begins with the next event.
func (f *Fold) beginDeferring() {
	for _, d := range f.deferring {
		if d.PendingCount() == 0 {
			d.BeginBatch(f.state.size)
		}
	}
}
