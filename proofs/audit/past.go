package audit

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"iter"
	"slices"

	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/proofs"
)

// Facts are what a Past keeps of one event: its kind in the low four bits, and flags.
type Facts uint8

// The flags. Callers of Extend set the last two.
const (
	hasContent Facts = 1 << (4 + iota) // its record names content
	IsRedacted                         // a later event redacts it
	WasServed                          // its content was there when it was requested
	WasGone                            // its content was erased when it was requested

	// Marks are the flags that Past.Mark adds. A walk reads only those that were added since it
	// began.
	Marks = IsRedacted | WasServed | WasGone
)

// factsOf returns the facts of an event of a known kind.
func factsOf(e *event.Body) Facts {
	facts := factsOfKind(e.Kind)
	if len(e.Common.Contents) > 0 {
		facts |= hasContent
	}
	return facts
}

// factsOfKind returns the number of a known kind, from 1.
func factsOfKind(kind record.Kind) Facts { return Facts(1 + slices.Index(record.EventKinds[:], kind)) }

// known reports whether facts have a kind. Those in the files of an audit may be damaged.
func (f Facts) known() bool {
	number := int(f & 0x0f)
	return number > 0 && number <= len(record.EventKinds)
}

// Kind returns the kind of the event.
func (f Facts) Kind() record.Kind { return record.EventKinds[f&0x0f-1] }

// Role is what an event has to do with an idempotency key (spec: Idempotency) or a source (spec:
// States; Path validation; Sources; Redactions).
type Role uint8

// The roles.
const (
	ClaimsKey       Role = iota
	RefusedForKey        // a record was refused for the key
	RegistersSource      // the key is the SHA-256 of the source's id
	RevokesSource        // likewise
	ChangesState         // the key is a SHA-256 of the record's seq, and the digest begins with the state's number
	Roles                // the number of roles
)

// KeyUse is what an event has to do with an idempotency key, a source, or a record's state.
type KeyUse struct {
	Key    proofs.Hash
	Digest proofs.Hash // of the record or verb; zero for a source
	Kind   record.Kind // of the record or verb
	Seq    uint64      // of the event
	Role   Role
	First  uint64 // for a refusal, the event that it names as the holder of the key
}

// sameRecord reports whether two uses are about one record.
func (u *KeyUse) sameRecord(other *KeyUse) bool {
	return u.Digest == other.Digest && u.Kind == other.Kind
}

// Past keeps what a walk needs of the events behind it. One goroutine uses it at a time.
type Past interface {
	// Add appends the facts of the next event.
	Add(Facts) error
	// Facts returns those of an event that was added.
	Facts(seq uint64) (Facts, error)
	// Mark adds flags to an event that was added.
	Mark(seq uint64, flags Facts) error
	// Use notes that the next event to be added uses an idempotency key, a source, or a state.
	Use(KeyUse) error
	// Uses yields all uses of each key that was used since the last call of Uses, in the order of
	// the log. It may yield those of other keys, too. A slice is valid until the next step.
	Uses() iter.Seq2[[]KeyUse, error]
	// Keep keeps a hash tile, which may grow later. It does not retain the memory of the tile.
	Keep(proofs.TileData) error
	// Tile returns what was last kept of a hash tile.
	Tile(level uint8, index uint64) ([]byte, error)
}

// ByKey yields the uses of each key, in the order of the log. A slice is valid until the next
// step.
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
