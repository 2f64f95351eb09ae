package pebble

import (
	"bytes"
	"fmt"
	"slices"

	"colophon/storage"
	"colophon/storage/pebble/internal/keys"
)

// setContents writes the pieces of content that the ledger will not hold
// otherwise, each once, and of the others who needs them. erased are those that
// the ledger holds no longer once c is committed.
func (l *ledger) setContents(c *change, contents []storage.Content, erased map[storage.Hash]bool) error {
	first := make(map[storage.Hash]int, len(contents)) // index of the first with that digest
	held := make([]bool, len(contents))                // by index of a first one
	var unknown []int                                  // first ones that must be looked up
	for i := range contents {
		digest := contents[i].Digest
		if _, again := first[digest]; again {
			continue
		}
		first[digest] = i
		switch {
		case erased[digest]:
		case l.recent.has(digest):
			held[i] = true
		default:
			unknown = append(unknown, i)
		}
	}
	if err := l.lookUp(contents, unknown, held); err != nil {
		return err
	}
	for i := range contents {
		content := &contents[i]
		switch at := first[content.Digest]; {
		case at == i && !held[i]:
			l.setContent(c, content)
		case at == i, content.Seq != contents[at].Seq: // one event needs it once
			c.set(keys.AppendReference(nil, l.number, content.Digest, content.Seq), nil)
		}
	}
	return nil
}

// lookUp notes which of the pieces, given by index, the ledger holds.
func (l *ledger) lookUp(contents []storage.Content, pieces []int, held []bool) error {
	// In the order of the keys, neighbours are found in the same blocks.
	slices.SortFunc(pieces, func(a, b int) int {
		return bytes.Compare(contents[a].Digest[:], contents[b].Digest[:])
	})
	err := l.find(keys.Places, len(pieces), func(key []byte, i int) []byte {
		return keys.AppendPlace(key, l.number, contents[pieces[i]].Digest)
	}, func(i int, _ []byte) error {
		held[pieces[i]] = true
		return nil
	})
	if err != nil {
		return fmt.Errorf("looking for content: %w", err)
	}
	return nil
}

func (l *ledger) setContent(c *change, content *storage.Content) {
	place := keys.Place{Seq: content.Seq, Slot: content.Slot}
	c.set(keys.AppendContent(nil, l.number, place), content.Bytes)
	c.set(keys.AppendPlace(nil, l.number, content.Digest), keys.AppendHolding(nil, keys.Holding{Place: place}))
}
