package proofs

import (
	"encoding/json"
	"fmt"
	"slices"

	"colophon/ledger/record/pyjson"
)

// KeyHistory is the keys of a log, from the first on, as its events say (spec: Key rotation).
// Each was authorised by the one before. It is not safe for concurrent use.
type KeyHistory struct {
	keys []LogKey // oldest first; one at least
}

// LogKey is one key of a log.
type LogKey struct {
	Verifier *Verifier // bounded once it is retired
	// ReplacedAt is the event that introduced the key after this one, and Handover its
	// note; both are of no meaning where there is no key after it.
	ReplacedAt uint64
	Handover   []byte
}

// NewKeyHistory is the history of a log that has its first key only, the one of its
// ledger_created event.
func NewKeyHistory(first *Verifier) *KeyHistory {
	return &KeyHistory{keys: []LogKey{{Verifier: first}}}
}

// Add follows the change of the event at seq, later than all that were added. The
// error says which rule it breaks (spec: Key rotation), and changes nothing: ErrMalformed for a
// step out of order or about other keys, ErrOrigin, ErrWrongKey and ErrSignature for a handover.
func (h *KeyHistory) Add(seq uint64, c KeyChange) error {
	current, overlapping := h.Current(), h.Overlapping()
	switch {
	case c.Step == KeyIntroduced && overlapping != nil:
		return fmt.Errorf("%w: a key is introduced before %s is retired", ErrMalformed, overlapping)
	case c.Step == KeyIntroduced && c.Previous.String() != current.String():
		return fmt.Errorf("%w: %s is replaced, the key of the log is %s", ErrMalformed, c.Previous, current)
	case c.Step == KeyIntroduced && c.Next.Name() != current.Name():
		return fmt.Errorf("%w: the next key is of %.100q, the log is %.100q", ErrOrigin, c.Next.Name(), current.Name())
	case c.Step == KeyIntroduced && h.Trusts(c.Next):
		return fmt.Errorf("%w: %s is introduced again", ErrMalformed, c.Next)
	case c.Step == KeyRetired && (overlapping == nil || c.Previous.String() != overlapping.String() || c.Next.String() != current.String()):
		return fmt.Errorf("%w: %s is retired for %s, which it does not overlap with", ErrMalformed, c.Previous, c.Next)
	}
	last := len(h.keys) - 1
	if c.Step == KeyRetired {
		h.keys[last-1].Verifier = h.keys[last-1].Verifier.Until(seq)
		return nil
	}
	if err := verifyHandover(c.Handover, current, c.Next); err != nil {
		return err
	}
	h.keys[last].ReplacedAt, h.keys[last].Handover = seq, c.Handover
	h.keys = append(h.keys, LogKey{Verifier: c.Next})
	return nil
}

// Clone is a history that Add changes alone.
func (h *KeyHistory) Clone() *KeyHistory { return &KeyHistory{keys: slices.Clone(h.keys)} }

// Current is the newest key.
func (h *KeyHistory) Current() *Verifier { return h.keys[len(h.keys)-1].Verifier }

// Overlapping is the key that still signs beside the newest, nil if there is none.
func (h *KeyHistory) Overlapping() *Verifier {
	if len(h.keys) == 1 {
		return nil
	}
	before := h.keys[len(h.keys)-2].Verifier
	if _, retired := before.SignedUpTo(); retired {
		return nil
	}
	return before
}

// Changes is the number of events that the history is made of beside the first.
func (h *KeyHistory) Changes() int { return len(h.ChangedAt()) }

// ChangedAt returns the events that the history is made of beside the first, in order.
func (h *KeyHistory) ChangedAt() []uint64 {
	var seqs []uint64
	for _, k := range h.keys[:len(h.keys)-1] {
		seqs = append(seqs, k.ReplacedAt)
		if until, retired := k.Verifier.SignedUpTo(); retired {
			seqs = append(seqs, until)
		}
	}
	return seqs
}

// Trusts reports whether a key is one of the log's, so that who trusts it may trust
// all that came after it.
func (h *KeyHistory) Trusts(key *Verifier) bool {
	return slices.ContainsFunc(h.keys, func(k LogKey) bool { return k.Verifier.String() == key.String() })
}

// Following returns the oldest of the trusted keys that is one of the log's, and every key
// after it, the newest first; retired ones are bounded. It is empty if none of the trusted
// keys is the log's. Keys before it do not count: a retired key may have been stolen, and
// only its successors can say up to which size it signed.
func (h *KeyHistory) Following(trusted ...*Verifier) []*Verifier {
	first := slices.IndexFunc(h.keys, func(k LogKey) bool {
		return slices.ContainsFunc(trusted, func(t *Verifier) bool { return t.String() == k.Verifier.String() })
	})
	if first < 0 {
		return nil
	}
	return h.Verifiers()[:len(h.keys)-first]
}

// InForce returns the keys that sign a checkpoint of that size, the newest first: one, or
// two in an overlap.
func (h *KeyHistory) InForce(size uint64) []*Verifier {
	var list []*Verifier
	for i, k := range slices.Backward(h.keys) {
		if i > 0 && size <= h.keys[i-1].ReplacedAt {
			continue // it is introduced later
		}
		if until, retired := k.Verifier.SignedUpTo(); retired && size > until {
			break
		}
		list = append(list, k.Verifier)
	}
	return list
}

// OpenCheckpoint opens a checkpoint of the log whose keys these are: each key that is in
// force at its size must have signed it, and one of these must be a trusted key or follow
// one. Errors are those of the function OpenCheckpoint.
func (h *KeyHistory) OpenCheckpoint(signed []byte, trusted ...*Verifier) (Checkpoint, error) {
	checkpoint, err := OpenCheckpoint(signed, h.Following(trusted...)...)
	if err != nil {
		return Checkpoint{}, err
	}
	for _, key := range h.InForce(checkpoint.Size) {
		if _, err := OpenCheckpoint(signed, key); err != nil {
			return Checkpoint{}, fmt.Errorf("all keys in force at size %d must sign: %w", checkpoint.Size, err)
		}
	}
	return checkpoint, nil
}

// OpenGrown opens a checkpoint of the log when the history is known for its first entries
// only. Up to that size it is OpenCheckpoint of the history. Beyond it the newest key of the
// history must have signed, or a trusted key or successor that the history does not know
// yet: the keys before the newest sign nothing alone there. The errors are the same.
func (h *KeyHistory) OpenGrown(signed []byte, known uint64, trusted, successors []*Verifier) (Checkpoint, error) {
	later := slices.DeleteFunc(slices.Concat(trusted, successors), h.Trusts)
	checkpoint, err := OpenCheckpoint(signed, slices.Concat(h.Following(trusted...), later)...)
	switch {
	case err != nil:
		return Checkpoint{}, err
	case checkpoint.Size <= known:
		return h.OpenCheckpoint(signed, trusted...)
	case len(h.Following(trusted...)) > 0:
		later = append(later, h.Current())
	}
	if _, err := OpenCheckpoint(signed, later...); err != nil {
		return Checkpoint{}, fmt.Errorf("at size %d the newest key must sign: %w", checkpoint.Size, err)
	}
	return checkpoint, nil
}

// Verifiers are all keys, the newest first. Those that were retired are bounded.
func (h *KeyHistory) Verifiers() []*Verifier {
	var list []*Verifier
	for _, k := range slices.Backward(h.keys) {
		list = append(list, k.Verifier)
	}
	return list
}

// Replaced are all keys but the newest, the last that was replaced first.
func (h *KeyHistory) Replaced() []LogKey {
	before := slices.Clone(h.keys[:len(h.keys)-1])
	slices.Reverse(before)
	return before
}

// ParseLogKey reads what a ledger answers to log/key, and checks every handover: the
// errors of KeyHistory.Add, ErrMalformed for anything else. Nothing says that the
// history is that of the log one has in mind but a key that one trusts, in it.
func ParseLogKey(text []byte) (*KeyHistory, error) {
	var doc pyjson.Document
	if err := doc.Parse(text); err != nil {
		return nil, fmt.Errorf("%w: log key: %w", ErrMalformed, err)
	}
	var r reader
	root := r.only(doc.Root(), "log key", "origin", "verifier_key", "retired")
	origin, next := r.text(root.Member("origin"), "origin"), r.verifier(root.Member("verifier_key"), "verifier_key")
	if r.err == nil && origin != next.Name() {
		r.fail("origin is %.100q, the key's %.100q", origin, next.Name())
	}
	retired := root.Member("retired")
	if retired.Kind() != pyjson.Array {
		r.fail("retired is not an array")
	}
	var changes []seqChange // newest first
	for v := range retired.Elements() {
		previous := r.verifier(v.Member("verifier_key"), "verifier_key")
		changes = append(changes, r.replaced(v, previous, next)...)
		next = previous
	}
	if r.err != nil {
		return nil, r.err
	}
	h, at := NewKeyHistory(next), uint64(0)
	for _, c := range slices.Backward(changes) {
		if c.seq <= at {
			return nil, fmt.Errorf("%w: keys change at %d, after %d", ErrMalformed, c.seq, at)
		}
		if err := h.Add(c.seq, c.KeyChange); err != nil {
			return nil, err
		}
		at = c.seq
	}
	return h, nil
}

// logKeyText is a history as log/key has it.
type logKeyText struct {
	Origin      string         `json:"origin"`
	VerifierKey string         `json:"verifier_key"`
	Retired     []replacedText `json:"retired"` // the last that was replaced first
}

type replacedText struct {
	VerifierKey string  `json:"verifier_key"`
	ReplacedAt  uint64  `json:"replaced_at"`
	SignedUpTo  *uint64 `json:"signed_up_to"` // null while it signs
	Handover    string  `json:"handover"`
}

// MarshalJSON implements json.Marshaler: the text that ParseLogKey reads.
func (h *KeyHistory) MarshalJSON() ([]byte, error) {
	text := logKeyText{Origin: h.Current().Name(), VerifierKey: h.Current().String(), Retired: []replacedText{}}
	for _, k := range h.Replaced() {
		row := replacedText{VerifierKey: k.Verifier.String(), ReplacedAt: k.ReplacedAt, Handover: string(k.Handover)}
		if size, retired := k.Verifier.SignedUpTo(); retired {
			row.SignedUpTo = &size
		}
		text.Retired = append(text.Retired, row)
	}
	return json.Marshal(text)
}

// UnmarshalJSON implements json.Unmarshaler, with the errors of ParseLogKey.
func (h *KeyHistory) UnmarshalJSON(text []byte) error {
	read, err := ParseLogKey(text)
	if err == nil {
		*h = *read
	}
	return err
}

// seqChange is a change and its event.
type seqChange struct {
	seq uint64
	KeyChange
}

// replaced reads how one key followed another, the later step first.
func (r *reader) replaced(v pyjson.Value, previous, next *Verifier) []seqChange {
	r.only(v, "retired", "verifier_key", "replaced_at", "signed_up_to", "handover")
	var changes []seqChange
	if until := v.Member("signed_up_to"); until.Given() {
		changes = append(changes, seqChange{r.count(until, "signed_up_to"), KeyChange{Step: KeyRetired, Previous: previous, Next: next}})
	}
	introduced := KeyChange{Step: KeyIntroduced, Previous: previous, Next: next, Handover: []byte(r.text(v.Member("handover"), "handover"))}
	return append(changes, seqChange{r.count(v.Member("replaced_at"), "replaced_at"), introduced})
}
