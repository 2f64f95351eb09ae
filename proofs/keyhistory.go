package proofs

import (
	"encoding/json"
	"fmt"
	"slices"

	"colophon/ledger/record/pyjson"
)

// kindCreated and kindRotated are the kinds of events that define a log's keys (spec: Key rotation
// events).
const (
	kindCreated = "ledger_created"
	kindRotated = "key_rotated"
)

// KeyHistory is the list of a log's keys, as recorded in its events (spec: Key rotation). Each key
// after the first was authorised by the key before it. A KeyHistory is not safe for concurrent use.
type KeyHistory struct {
	keys []LogKey // oldest first; never empty
}

// LogKey is one key of a log.
type LogKey struct {
	Verifier *Verifier // has a size bound if the key is retired (Verifier.WithRetirement)
	// ReplacedAtSeq is the seq of the event that introduced the next key, and HandoverNote is the
	// note in that event. They are 0 and nil for the newest key.
	ReplacedAtSeq uint64
	HandoverNote  []byte // nil for the newest key
}

// NewKeyHistory returns the history of a log whose only key is the one in its ledger_created event.
func NewKeyHistory(first *Verifier) *KeyHistory {
	return &KeyHistory{keys: []LogKey{{Verifier: first}}}
}

// NewKeyHistoryFromEntry returns the key history as of the first entry of a log. It returns ErrMalformed
// if the entry is not a ledger_created event.
func NewKeyHistoryFromEntry(entry []byte) (*KeyHistory, error) {
	record, err := recordOfKind(entry, kindCreated)
	if err != nil {
		return nil, err
	}
	var r reader
	first := r.verifier(record.Member("verifier_key"), "verifier_key")
	if r.err != nil {
		return nil, r.err
	}
	return NewKeyHistory(first), nil
}

// Add applies the change in the event at seq, which must be greater than the seq of every earlier
// change. The error shows which rule was broken (spec: Key rotation). It is ErrMalformed if the
// step is out of order or names the wrong keys, and ErrWrongOrigin if the next key has a different
// origin. It is ErrMalformed, ErrWrongKey, or ErrSignature if the handover is not valid. After an
// error, the history is unchanged.
func (h *KeyHistory) Add(seq uint64, c KeyChange) error {
	current, overlapping := h.CurrentKey(), h.OverlappingKey()
	switch {
	case c.Step == KeyStepIntroduced && overlapping != nil:
		return fmt.Errorf("%w: the event introduces another key while %s still overlaps with the newest key", ErrMalformed, overlapping)
	case c.Step == KeyStepIntroduced && c.Previous.String() != current.String():
		return fmt.Errorf("%w: the event replaces %s, but the log's current key is %s", ErrMalformed, c.Previous, current)
	case c.Step == KeyStepIntroduced && c.Next.Name() != current.Name():
		return fmt.Errorf("%w: the next key has the origin %.100q, but the log has the origin %.100q", ErrWrongOrigin, c.Next.Name(), current.Name())
	case c.Step == KeyStepIntroduced && h.Contains(c.Next):
		return fmt.Errorf("%w: the log already has the key %s", ErrMalformed, c.Next)
	case c.Step == KeyStepRetired && (overlapping == nil || c.Previous.String() != overlapping.String() || c.Next.String() != current.String()):
		return fmt.Errorf("%w: the event retires %s in favour of %s, but the two keys do not overlap", ErrMalformed, c.Previous, c.Next)
	}
	last := len(h.keys) - 1
	if c.Step == KeyStepRetired {
		h.keys[last-1].Verifier = h.keys[last-1].Verifier.WithRetirement(seq)
		return nil
	}
	if err := verifyHandover(c.HandoverNote, current, c.Next); err != nil {
		return err
	}
	h.keys[last].ReplacedAtSeq, h.keys[last].HandoverNote = seq, c.HandoverNote
	h.keys = append(h.keys, LogKey{Verifier: c.Next})
	return nil
}

// AddEntry applies the change in the entry at seq. It returns ErrMalformed if the entry is not a
// key_rotated event; otherwise it returns any error from Add.
func (h *KeyHistory) AddEntry(seq uint64, entry []byte) error {
	record, err := recordOfKind(entry, kindRotated)
	if err != nil {
		return err
	}
	return h.AddRecord(seq, record)
}

// AddRecord applies the change in the record of the key_rotated event at seq. It returns
// ErrMalformed if the record cannot be parsed; otherwise it returns any error from Add.
func (h *KeyHistory) AddRecord(seq uint64, record pyjson.Value) error {
	change, err := ParseKeyChange(record)
	if err != nil {
		return err
	}
	return h.Add(seq, change)
}

// recordOfKind returns the record in an entry's event. It returns ErrMalformed if the event is not
// of the given kind.
func recordOfKind(entry []byte, kind string) (pyjson.Value, error) {
	_, body, err := SplitEntry(entry)
	if err != nil {
		return pyjson.Value{}, err
	}
	var document pyjson.Document
	if err := document.Parse(body); err != nil {
		return pyjson.Value{}, fmt.Errorf("%w: parsing the event: %w", ErrMalformed, err)
	}
	if got := document.Root().Member("kind").Text(); string(got) != kind {
		return pyjson.Value{}, fmt.Errorf("%w: the event's kind is %.100q, but must be %s", ErrMalformed, got, kind)
	}
	return document.Root().Member("record"), nil
}

// Clone returns an independent copy of h.
func (h *KeyHistory) Clone() *KeyHistory { return &KeyHistory{keys: slices.Clone(h.keys)} }

// CurrentKey returns the newest key.
func (h *KeyHistory) CurrentKey() *Verifier { return h.keys[len(h.keys)-1].Verifier }

// OverlappingKey returns the previous key if it still signs along with the newest key, and nil
// otherwise.
func (h *KeyHistory) OverlappingKey() *Verifier {
	if len(h.keys) == 1 {
		return nil
	}
	before := h.keys[len(h.keys)-2].Verifier
	if _, retired := before.RetirementSize(); retired {
		return nil
	}
	return before
}

// NumChanges returns the number of key_rotated events in the history.
func (h *KeyHistory) NumChanges() int { return len(h.ChangeSeqs()) }

// ChangeSeqs returns the seqs of the key_rotated events in the history, in ascending order.
func (h *KeyHistory) ChangeSeqs() []uint64 {
	var seqs []uint64
	for _, k := range h.keys[:len(h.keys)-1] {
		seqs = append(seqs, k.ReplacedAtSeq)
		if until, retired := k.Verifier.RetirementSize(); retired {
			seqs = append(seqs, until)
		}
	}
	return seqs
}

// Contains reports whether key is in the history. If it is, a client that trusts the key can also
// trust its successors.
func (h *KeyHistory) Contains(key *Verifier) bool {
	return slices.ContainsFunc(h.keys, func(k LogKey) bool { return k.Verifier.String() == key.String() })
}

// VerifiersFrom returns the log's oldest trusted key and all of its successors, newest first.
// Retired keys have a size bound. The result is empty if none of the trusted keys belongs to the
// log. Older keys are not included, because a retired key may have been stolen, and only its
// successors can say up to which size it signed.
func (h *KeyHistory) VerifiersFrom(trusted ...*Verifier) []*Verifier {
	first := slices.IndexFunc(h.keys, func(k LogKey) bool {
		return slices.ContainsFunc(trusted, func(t *Verifier) bool { return t.String() == k.Verifier.String() })
	})
	if first < 0 {
		return nil
	}
	return h.Verifiers()[:len(h.keys)-first]
}

// SigningKeysAt returns the keys that sign checkpoints of the given size, newest first. There is
// one key, or two during an overlap.
func (h *KeyHistory) SigningKeysAt(size uint64) []*Verifier {
	var list []*Verifier
	for i, k := range slices.Backward(h.keys) {
		if i > 0 && size <= h.keys[i-1].ReplacedAtSeq {
			continue // the key was introduced after the given size
		}
		if until, retired := k.Verifier.RetirementSize(); retired && size > until {
			break
		}
		list = append(list, k.Verifier)
	}
	return list
}

// OpenCheckpoint opens a checkpoint of the log that the history belongs to. Every key that signs at the
// checkpoint's size (SigningKeysAt) must have signed it, and at least one of these keys must be a
// trusted key or a successor of one. The errors are those of the package-level function OpenCheckpoint.
func (h *KeyHistory) OpenCheckpoint(signed []byte, trusted ...*Verifier) (Checkpoint, error) {
	checkpoint, err := OpenCheckpoint(signed, h.VerifiersFrom(trusted...)...)
	if err != nil {
		return Checkpoint{}, err
	}
	for _, key := range h.SigningKeysAt(checkpoint.Size) {
		if _, err := OpenCheckpoint(signed, key); err != nil {
			return Checkpoint{}, fmt.Errorf("every key that is active at size %d must sign the checkpoint: %w", checkpoint.Size, err)
		}
	}
	return checkpoint, nil
}

// OpenLaterCheckpoint opens a checkpoint of a log that may have grown since the history was built.
// known is the number of entries that the history covers. For a checkpoint up to that size, it does the
// same as KeyHistory.OpenCheckpoint. A larger checkpoint must be signed by the newest key in the
// history, by a trusted key that is not in the history yet, or by one of successors. The signature of
// an older key is not enough. The errors are those of the package-level function OpenCheckpoint.
func (h *KeyHistory) OpenLaterCheckpoint(signed []byte, known uint64, trusted, successors []*Verifier) (Checkpoint, error) {
	later := slices.DeleteFunc(slices.Concat(trusted, successors), h.Contains)
	checkpoint, err := OpenCheckpoint(signed, slices.Concat(h.VerifiersFrom(trusted...), later)...)
	switch {
	case err != nil:
		return Checkpoint{}, err
	case checkpoint.Size <= known:
		return h.OpenCheckpoint(signed, trusted...)
	case len(h.VerifiersFrom(trusted...)) > 0:
		later = append(later, h.CurrentKey())
	}
	if _, err := OpenCheckpoint(signed, later...); err != nil {
		return Checkpoint{}, fmt.Errorf("the newest key must sign the checkpoint of size %d: %w", checkpoint.Size, err)
	}
	return checkpoint, nil
}

// Verifiers returns all the keys, newest first. Retired keys have a size bound.
func (h *KeyHistory) Verifiers() []*Verifier {
	var list []*Verifier
	for _, k := range slices.Backward(h.keys) {
		list = append(list, k.Verifier)
	}
	return list
}

// ReplacedKeys returns all keys except the newest, starting with the most recently replaced.
func (h *KeyHistory) ReplacedKeys() []LogKey {
	before := slices.Clone(h.keys[:len(h.keys)-1])
	slices.Reverse(before)
	return before
}

// ParseKeyHistory parses a response from log/key and verifies every handover in it. It returns
// ErrMalformed or an error from KeyHistory.Add. The caller must check that the history contains a
// key that it trusts; otherwise the history may belong to a different log.
func ParseKeyHistory(text []byte) (*KeyHistory, error) {
	var doc pyjson.Document
	if err := doc.Parse(text); err != nil {
		return nil, fmt.Errorf("%w: parsing the log's keys: %w", ErrMalformed, err)
	}
	var r reader
	root := r.allowOnly(doc.Root(), "log key", "origin", "verifier_key", "retired")
	origin, next := r.text(root.Member("origin"), "origin"), r.verifier(root.Member("verifier_key"), "verifier_key")
	if r.err == nil && origin != next.Name() {
		r.fail(`the member "origin" is %.100q, but the origin of the key is %.100q`, origin, next.Name())
	}
	retired := root.Member("retired")
	if retired.Kind() != pyjson.Array {
		r.fail(`the member "retired" is not an array`)
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
			return nil, fmt.Errorf("%w: the key changes are out of order: the change at event %d must come after the change at event %d", ErrMalformed, c.seq, at)
		}
		if err := h.Add(c.seq, c.KeyChange); err != nil {
			return nil, err
		}
		at = c.seq
	}
	return h, nil
}

// logKeyText is the JSON form of a KeyHistory, as the log/key endpoint returns it.
type logKeyText struct {
	Origin      string         `json:"origin"`
	VerifierKey string         `json:"verifier_key"` // the newest key
	Retired     []replacedText `json:"retired"`      // most recently replaced key first
}

type replacedText struct {
	VerifierKey string  `json:"verifier_key"`
	ReplacedAt  uint64  `json:"replaced_at"`  // seq of the event that introduced the next key
	SignedUpTo  *uint64 `json:"signed_up_to"` // null while the key still signs
	Handover    string  `json:"handover"`     // signed note in that event
}

// MarshalJSON implements json.Marshaler. ParseKeyHistory parses the result.
func (h *KeyHistory) MarshalJSON() ([]byte, error) {
	text := logKeyText{Origin: h.CurrentKey().Name(), VerifierKey: h.CurrentKey().String(), Retired: []replacedText{}}
	for _, k := range h.ReplacedKeys() {
		row := replacedText{VerifierKey: k.Verifier.String(), ReplacedAt: k.ReplacedAtSeq, Handover: string(k.HandoverNote)}
		if size, retired := k.Verifier.RetirementSize(); retired {
			row.SignedUpTo = &size
		}
		text.Retired = append(text.Retired, row)
	}
	return json.Marshal(text)
}

// UnmarshalJSON implements json.Unmarshaler. It returns the errors of ParseKeyHistory.
func (h *KeyHistory) UnmarshalJSON(text []byte) error {
	read, err := ParseKeyHistory(text)
	if err == nil {
		*h = *read
	}
	return err
}

type seqChange struct {
	seq uint64
	KeyChange
}

// replaced reads the one or two changes that replace previous with next. It returns the later
// change first.
func (r *reader) replaced(v pyjson.Value, previous, next *Verifier) []seqChange {
	r.allowOnly(v, "retired", "verifier_key", "replaced_at", "signed_up_to", "handover")
	var changes []seqChange
	if until := v.Member("signed_up_to"); until.IsGiven() {
		changes = append(changes, seqChange{r.count(until, "signed_up_to"), KeyChange{Step: KeyStepRetired, Previous: previous, Next: next}})
	}
	introduced := KeyChange{Step: KeyStepIntroduced, Previous: previous, Next: next, HandoverNote: []byte(r.text(v.Member("handover"), "handover"))}
	return append(changes, seqChange{r.count(v.Member("replaced_at"), "replaced_at"), introduced})
}
