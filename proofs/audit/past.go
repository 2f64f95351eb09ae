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

// EventFlags is the byte that a History stores for one event. The low four bits are the number of the
// event's kind, and the high four bits are flags.
type EventFlags uint8

// These are the flags in an EventFlags. A walk does not set FlagContentServed and FlagContentGone;
// callers of ExtendWalk do.
const (
	hasContent        EventFlags = 1 << (4 + iota) // the event's record names content
	FlagRedacted                                   // a later event redacts its content
	FlagContentServed                              // the server returned the content when it was requested
	FlagContentGone                                // the server reported the content as erased when it was requested

	// MutableFlags is the set of flags that History.OrFlags can set after an event was appended. A
	// walk reads only flags that were set after it began, so a History can discard them after the
	// walk.
	MutableFlags = FlagRedacted | FlagContentServed | FlagContentGone
)

// eventFlagsOf returns the EventFlags of an event. The kind of the event must be known.
func eventFlagsOf(e *event.Body) EventFlags {
	flags := flagsOfKind(e.Kind)
	if len(e.Common.Contents) > 0 {
		flags |= hasContent
	}
	return flags
}

// flagsOfKind returns EventFlags that contain only the number of the given kind, with no flags set.
// Kinds are numbered from 1 in the order of record.EventKinds. The kind must be known.
func flagsOfKind(kind record.Kind) EventFlags {
	return EventFlags(1 + slices.Index(record.EventKinds[:], kind))
}

// known reports whether f contains the number of a known kind. The result can be false if f was
// read from a damaged file.
func (f EventFlags) known() bool {
	number := int(f & 0x0f)
	return number > 0 && number <= len(record.EventKinds)
}

// Kind returns the kind of the event. It panics if the kind is not known.
func (f EventFlags) Kind() record.Kind { return record.EventKinds[f&0x0f-1] }

// KeyUseRole says what an event does with the key of a KeyUse. The key stands for an idempotency key
// (spec: Idempotency), a source, or a record whose state the event changes (spec: States; Path
// validation; Sources; Redactions).
type KeyUseRole uint8

// These are the roles that an event can have in a KeyUse.
const (
	KeyUseClaim              KeyUseRole = iota // the event claims the idempotency key
	KeyUseRefusal                              // the event refuses a record because of the key
	KeyUseSourceRegistration                   // the event registers a source; the key is the SHA-256 of its id
	KeyUseSourceRevocation                     // the event revokes a source; the key is the SHA-256 of its id
	KeyUseStateChange                          // the event changes a record's state; the key is a SHA-256 computed from the record's seq, and Digest[0] is the number of the state
	NumKeyUseRoles                             // the number of roles
)

// KeyUse is one event's use of an idempotency key, a source, or a record's state.
type KeyUse struct {
	Key           proofs.Hash // digest of an idempotency key, or hash for a source or record (see KeyUseRole)
	Digest        proofs.Hash // digest of the record or action; zero for a source; see KeyUseStateChange
	Kind          record.Kind // kind of the record or action
	Seq           uint64      // seq of the event
	Role          KeyUseRole  // what the event does with the key
	ReferencedSeq uint64      // for a refusal, the seq of the event that it names as the key's holder; for a change of state, the record's seq
}

// sameRecord reports whether both uses concern the same record.
func (u *KeyUse) sameRecord(other *KeyUse) bool {
	return u.Digest == other.Digest && u.Kind == other.Kind
}

// History stores what a walk must know about earlier events. It is used by only one goroutine at a
// time.
type History interface {
	// AppendFlags appends the EventFlags of the next event.
	AppendFlags(EventFlags) error
	// Flags returns the EventFlags of an earlier event.
	Flags(seq uint64) (EventFlags, error)
	// OrFlags sets the given flags of an earlier event and leaves its other flags unchanged.
	OrFlags(seq uint64, flags EventFlags) error
	// AddKeyUse records a use of an idempotency key, a source, or a state by the event whose flags
	// will be appended next.
	AddKeyUse(KeyUse) error
	// KeyUses yields all uses of each key that was used since the last call to KeyUses, in log
	// order. It may also yield the uses of other keys. Each slice is valid until the next step of
	// the iteration.
	KeyUses() iter.Seq2[[]KeyUse, error]
	// StoreTile stores a hash tile. A partial tile may be stored again after it has grown.
	// StoreTile does not retain the slice of hashes.
	StoreTile(proofs.Tile) error
	// Tile returns the hashes that StoreTile last stored for a tile.
	Tile(level uint8, index uint64) ([]byte, error)
}

// GroupKeyUses groups uses by key and yields the uses of one key at a time, in log order. Each
// slice is valid until the next step of the iteration.
func GroupKeyUses(uses []KeyUse) iter.Seq[[]KeyUse] {
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
