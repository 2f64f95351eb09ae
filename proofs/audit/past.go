package audit

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"

	"colophon/ledger/record"
	"colophon/proofs"
)

// Facts are what a walk remembers of one event: its kind in the low bits, and flags.
type Facts uint8

// The flags. Callers set the last two; no walk sets them.
const (
	hasContent Facts = 1 << (4 + iota) // its record names content
	IsRedacted                         // a later event redacts it
	WasServed                          // the content was there when it was asked for
	WasGone                            // it was said to be erased when it was asked for

	// Marks are the flags that Past.Mark adds. A walk reads those alone that were added since
	// its beginning.
	Marks = IsRedacted | WasServed | WasGone
)

// eventKinds gives kinds their numbers in Facts, from 1.
var eventKinds = [...]record.Kind{
	record.LedgerCreated, record.IPCRecord, record.RunDAG, record.CitationSet, record.PathFingerprint,
	record.RecordRefused, record.RecordStateChanged, record.PathValidated,
	record.SourceRegistered, record.SourceRevoked, record.ContentRedacted, record.KeyRotated,
}

// FactsOf are those of an event of that kind; false if there is no such kind.
func FactsOf(kind string) (Facts, bool) {
	for i, k := range eventKinds {
		if kind == string(k) {
			return Facts(1 + i), true
		}
	}
	return 0, false
}

// known reports whether facts are those of an event: what was remembered in files may
// be damaged.
func (f Facts) known() bool {
	number := int(f & 0x0f)
	return number > 0 && number <= len(eventKinds)
}

// Kind is the kind of the event.
func (f Facts) Kind() record.Kind { return eventKinds[f&0x0f-1] }

// Role is what an event has to do with an idempotency key (spec: Idempotency) or a source (spec:
// States; Path validation; Sources; Redactions).
type Role uint8

// The roles.
const (
	ClaimsKey       Role = iota
	RefusedForKey        // it logs that another record was refused for the key
	RegistersSource      // of sources, the key is the SHA-256 of the id
	RevokesSource
	ChangesState // of states, the key is a SHA-256 of the record's seq, the digest begins with the state's number
	Roles        // how many there are
)

// KeyUse is what an event has to do with an idempotency key, a source, or a record's state.
type KeyUse struct {
	Key    proofs.Hash
	Digest proofs.Hash // of what the event is about; zero of a source
	Kind   record.Kind // of that
	Seq    uint64      // of the event
	Role   Role
	First  uint64 // of a refusal, the event that it says holds the key
}

// sameRecord reports whether two uses are about one record.
func (u *KeyUse) sameRecord(other *KeyUse) bool {
	return u.Digest == other.Digest && u.Kind == other.Kind
}

// Past is what is remembered of the events behind a walk, however many. One goroutine
// uses it at a time.
type Past interface {
	// Add appends the next event.
	Add(Facts) error
	// Facts are those of an event that was added.
	Facts(seq uint64) (Facts, error)
	// Mark adds flags to an event that was added.
	Mark(seq uint64, flags Facts) error
	// Use notes that the event added next uses an idempotency key, a source, or a state.
	Use(KeyUse) error
	// Uses yields, for each key that was used since Uses was last called, and maybe for
	// others, all its uses in the order of the log. A slice is valid until the next step.
	Uses() iter.Seq2[[]KeyUse, error]
	// Keep keeps a hash tile, which later grows. It is the caller's again afterwards.
	Keep(proofs.TileData) error
	// Tile is what was kept last of a hash tile.
	Tile(level uint8, index uint64) ([]byte, error)
}

// storedPast remembers nothing: it reads the events of a stored log again, which the walk
// holds to the tree. Nothing else of the past is needed where everything is stored.
type storedPast struct{ w *walk }

// Add implements Past.
func (storedPast) Add(Facts) error { return nil }

// Facts implements Past. The flags are hasContent alone.
func (p storedPast) Facts(seq uint64) (Facts, error) {
	e, err := p.w.walkedEvent(seq)
	if err != nil {
		return 0, err
	}
	facts, _ := FactsOf(string(e.Kind))
	for range e.Contents() {
		facts |= hasContent
	}
	return facts, nil
}

// Mark implements Past.
func (storedPast) Mark(uint64, Facts) error { return nil }

// Use implements Past.
func (storedPast) Use(KeyUse) error { return nil }

// Uses implements Past.
func (storedPast) Uses() iter.Seq2[[]KeyUse, error] { return func(func([]KeyUse, error) bool) {} }

// Keep implements Past.
func (storedPast) Keep(proofs.TileData) error { return nil }

// Tile implements Past.
func (storedPast) Tile(level uint8, index uint64) ([]byte, error) {
	return nil, fmt.Errorf("tile %d/%d is not remembered", level, index)
}

// ByKey yields the uses of each key, in the order of the log. A slice is valid until the
// next step.
func ByKey(uses []KeyUse) iter.Seq[[]KeyUse] {
	type place struct {
		key uint64 // the first bytes
		at  int
	}
	order := make([]place, len(uses))
	for i := range uses {
		order[i] = place{binary.BigEndian.Uint64(uses[i].Key[:]), i}
	}
	slices.SortFunc(order, func(a, b place) int {
		if a.key != b.key {
			return cmp.Compare(a.key, b.key)
		}
		a2, b2 := &uses[a.at], &uses[b.at]
		return cmp.Or(bytes.Compare(a2.Key[:], b2.Key[:]), cmp.Compare(a2.Seq, b2.Seq))
	})
	return func(yield func([]KeyUse) bool) {
		var same []KeyUse
		for i, p := range order {
			same = append(same, uses[p.at])
			if i+1 < len(order) && uses[order[i+1].at].Key == same[0].Key {
				continue
			}
			if !yield(same) {
				return
			}
			same = same[:0]
		}
	}
}
