package proofs

import "fmt"

// MaxEntry is the longest entry in bytes: what a uint16 can count (tlog-tiles).
const MaxEntry = 65535

// AppendEntry appends the entry of an event: prev_event_hash ‖ body (spec: Entry and chain).
func AppendEntry(dst []byte, prev Hash, body []byte) []byte {
	return append(append(dst, prev[:]...), body...)
}

// SplitEntry is the inverse of AppendEntry. The body shares the entry's memory.
func SplitEntry(entry []byte) (prev Hash, body []byte, err error) {
	if len(entry) > MaxEntry {
		return Hash{}, nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLong, len(entry), MaxEntry)
	}
	if len(entry) <= HashSize {
		return Hash{}, nil, fmt.Errorf("%w: entry of %d bytes holds no event", ErrMalformed, len(entry))
	}
	return Hash(entry[:HashSize]), entry[HashSize:], nil
}

// Chain follows the entries of a log in order. The zero Chain stands before the
// first entry. It has one user at a time.
type Chain struct {
	Size uint64 // entries seen
	Tip  Hash   // event_hash of the last; zero before the first
}

// Link is what one entry contributes to the chain and the tree.
type Link struct {
	Event Hash   // event_hash
	Leaf  Hash   // leaf hash, for the tree at index seq
	Body  []byte // the event, sharing the entry's memory
}

// Next checks that entry links to the one before and steps over it, giving both
// of its hashes. On error, ErrChainLink if it links to something else, the
// chain stays where it was.
func (c *Chain) Next(entry []byte) (Link, error) {
	prev, body, err := SplitEntry(entry)
	if err != nil {
		return Link{}, fmt.Errorf("entry %d: %w", c.Size, err)
	}
	if prev != c.Tip {
		return Link{}, fmt.Errorf("%w: entry %d follows %x, the event before it is %x", ErrChainLink, c.Size, prev, c.Tip)
	}
	link := Link{Event: EventHash(prev, body), Leaf: LeafHash(entry), Body: body}
	c.Size++
	c.Tip = link.Event
	return link, nil
}
