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

// EventFlags is the byte that a History stores about one event: the number of its kind in the low four
// bits, and flags in the others.
type EventFlags uint8

// The flags of EventFlags. Callers of Extend set WasServed and WasGone.
const (
	hasContent EventFlags = 1 << (4 + iota) // the event's record names content
	IsRedacted                              // a later event redacts its content
	WasServed                               // the server returned the content when it was requested
	WasGone                                 // the server reported the content as erased when it was requested

	// LaterFlags are the flags that History.AddFlags adds. A walk uses only the flags that were added
	// after the walk began.
	LaterFlags = IsRedacted | WasServed | WasGone
)

// eventFlagsOf returns the EventFlags of an event, whose kind must be known.
func eventFlagsOf(e *event.Body) EventFlags {
	flags := flagsOfKind(e.Kind)
	if len(e.Common.Contents) > 0 {
		flags |= hasContent
	}
	return flags
}

// flagsOfKind returns EventFlags without flags: the number of the kind, counted from 1. The kind must be
// known.
func flagsOfKind(kind record.Kind) EventFlags {
	return EventFlags(1 + slices.Index(record.EventKinds[:], kind))
}

// known reports whether f has a known kind. A byte from an audit's files may be damaged.
func (f EventFlags) known() bool {
	number := int(f & 0x0f)
	return number > 0 && number <= len(record.EventKinds)
}

// Kind returns the kind of the event. It panics if the kind is not known.
func (f EventFlags) Kind() record.Kind { return record.EventKinds[f&0x0f-1] }

// UseRole is what an event does with the key of a KeyUse: an idempotency key (spec: Idempotency), a
// source, or a record whose state it changes (spec: States; Path validation; Sources; Redactions).
type UseRole uint8

// The roles.
const (
	ClaimsKey       UseRole = iota
	RefusedForKey           // the event refuses a record because of the key
	RegistersSource         // the event registers a source; the key is the SHA-256 of the source's id
	RevokesSource           // the event revokes a source; the key is the SHA-256 of the source's id
	ChangesState            // the event changes a state; the key is the SHA-256 of the record's seq, and the digest begins with the number of the state
	NumRoles                // the number of roles
)

// KeyUse is one event's use of an idempotency key, a source, or a record's state.
type KeyUse struct {
	Key    proofs.Hash
	Digest proofs.Hash // digest of the record or verb; zero for a source
	Kind   record.Kind // kind of the record or verb
	Seq    uint64      // seq of the event
	Role   UseRole
	First  uint64 // for a refusal, the event that the refusal names as the holder of the key
}

// sameRecord reports whether both uses are about the same record.
func (u *KeyUse) sameRecord(other *KeyUse) bool {
	return u.Digest == other.Digest && u.Kind == other.Kind
}

// History stores what a walk must know about earlier events. Only one goroutine uses it at a time.
type History interface {
	// AppendFlags appends the EventFlags of the next event.
	AppendFlags(EventFlags) error
	// Flags returns the EventFlags of an earlier event.
	Flags(seq uint64) (EventFlags, error)
	// OrFlags sets further flags in the EventFlags of an earlier event. It clears none.
	OrFlags(seq uint64, flags EventFlags) error
	// AddKeyUse records that the next event to be added uses an idempotency key, a source, or a state.
	AddKeyUse(KeyUse) error
	// KeyUses yields all uses of each key that was used since the last call of KeyUses, in the order
	// of the log. It may also yield the uses of other keys. Each slice is valid until the next
	// step of the iteration.
	KeyUses() iter.Seq2[[]KeyUse, error]
	// StoreTile stores a hash tile, which may grow later. It does not retain the slice.
	StoreTile(proofs.TileData) error
	// Tile returns the last value that StoreTile stored for a hash tile.
	Tile(level uint8, index uint64) ([]byte, error)
}

// GroupByKey groups uses by key and yields the uses of each key, in the order of the log. Each
// slice is valid until the next step of the iteration.
func GroupByKey(uses []KeyUse) iter.Seq[[]KeyUse] {
	type place struct {
		key uint64 // the first eight bytes of the key
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
