package proofs

import "fmt"

// MaxEntryBytes is the maximum length of an entry in bytes, the largest uint16 (tlog-tiles).
const MaxEntryBytes = 65535

// AppendEntry appends the entry for an event, which is prev_event_hash ‖ body (spec: Entry and
// chain).
func AppendEntry(dst []byte, prev Hash, body []byte) []byte {
	return append(append(dst, prev[:]...), body...)
}

// SplitEntry is the inverse of AppendEntry. The body aliases entry. SplitEntry returns ErrTooLong
// if the entry is longer than MaxEntryBytes, and ErrMalformed if it has no body.
func SplitEntry(entry []byte) (prev Hash, body []byte, err error) {
	if len(entry) > MaxEntryBytes {
		return Hash{}, nil, fmt.Errorf("%w: the entry has %d bytes, but the limit is %d", ErrTooLong, len(entry), MaxEntryBytes)
	}
	if len(entry) <= HashSize {
		return Hash{}, nil, fmt.Errorf("%w: an entry of %d bytes is too short to hold an event", ErrMalformed, len(entry))
	}
	return Hash(entry[:HashSize]), entry[HashSize:], nil
}

// Chain verifies that each entry of a log links to the previous one. The zero Chain is the state
// before the first entry. It is not safe for concurrent use.
type Chain struct {
	Size uint64 // number of entries so far
	Tip  Hash   // event_hash of the last entry; the zero Hash if there are no entries yet
}

// LinkedEntry holds the hashes that an entry adds to the chain and the tree, and the event body.
type LinkedEntry struct {
	EventHash Hash   // chain hash of the event (event_hash), to which the next entry links
	LeafHash  Hash   // leaf hash of the entry in the tree, at index seq
	Body      []byte // event body; aliases the entry
}

// Advance verifies that entry links to the previous entry, advances the chain, and returns the
// entry's hashes. It returns ErrChainLink if the entry links to a different event. After an error,
// the chain is unchanged.
func (c *Chain) Advance(entry []byte) (LinkedEntry, error) {
	prev, body, err := SplitEntry(entry)
	if err != nil {
		return LinkedEntry{}, fmt.Errorf("splitting entry %d: %w", c.Size, err)
	}
	if prev != c.Tip {
		return LinkedEntry{}, fmt.Errorf("%w: the prev_event_hash of entry %d is %x, but the hash of the previous event is %x", ErrChainLink, c.Size, prev, c.Tip)
	}
	link := LinkedEntry{EventHash: EventHash(prev, body), LeafHash: LeafHash(entry), Body: body}
	c.Size++
	c.Tip = link.EventHash
	return link, nil
}
