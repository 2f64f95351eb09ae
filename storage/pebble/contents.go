package pebble

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"colophon/storage"
	"colophon/storage/pebble/internal/keys"
)

// setContents writes the pieces of content that the ledger will not hold
// otherwise, each once, and of the others who needs them. erased are those that
// the ledger holds no longer once c is committed.
func (l *ledger) setContents(c *change, contents []storage.Content, erased map[storage.Hash]bool) error {
	pieces := make([]int, 0, len(contents)) // by index, those that are not remembered
	for i := range contents {
		if content := &contents[i]; erased[content.Digest] || !l.recent.has(content.Digest) {
			pieces = append(pieces, i)
		} else {
			l.setReference(c, content)
		}
	}
	// In the order of the keys, neighbours are found in the same blocks. Equal
	// digests follow one another as their events do.
	slices.SortFunc(pieces, func(a, b int) int {
		return cmp.Or(bytes.Compare(contents[a].Digest[:], contents[b].Digest[:]), cmp.Compare(a, b))
	})
	firsts := slices.CompactFunc(slices.Clone(pieces), func(a, b int) bool {
		return contents[a].Digest == contents[b].Digest
	})
	held, err := l.lookUp(contents, firsts, erased)
	if err != nil {
		return err
	}
	fresh := make([]bool, len(contents)) // by index
	group := -1                          // of equal digests
	for _, i := range pieces {
		content := &contents[i]
		if group+1 < len(firsts) && i == firsts[group+1] {
			group++
			if fresh[i] = !held[group]; fresh[i] {
				l.setPlace(c, content)
				continue
			}
		} else if content.Seq == contents[firsts[group]].Seq {
			continue // one event needs it once
		}
		l.setReference(c, content)
	}
	for i := range contents { // in the order of their keys
		if fresh[i] {
			l.setBytes(c, &contents[i])
		}
	}
	return nil
}

// lookUp says which of the pieces the ledger holds, and remembers those. They are
// given by index, in the order of their digests.
func (l *ledger) lookUp(contents []storage.Content, pieces []int, erased map[storage.Hash]bool) ([]bool, error) {
	held := make([]bool, len(pieces))
	var possible []int // by index of pieces
	for i, piece := range pieces {
		if l.sought.mayBeThere(contents[piece].Digest) {
			possible = append(possible, i)
		}
	}
	err := l.find(keys.Places, len(possible), func(key []byte, i int) []byte {
		return keys.AppendPlace(key, l.number, contents[pieces[possible[i]]].Digest)
	}, func(i int, _ []byte) error {
		i = possible[i]
		digest := contents[pieces[i]].Digest
		if held[i] = !erased[digest]; held[i] {
			l.recent.add(digest)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("looking for content: %w", err)
	}
	return held, nil
}

func (l *ledger) setPlace(c *change, content *storage.Content) {
	l.sought.add(content.Digest)
	var key, value [keys.MaxLength]byte
	c.set(keys.AppendPlace(key[:0], l.number, content.Digest), keys.AppendHolding(value[:0], keys.Holding{Place: placeOf(content)}))
}

func (l *ledger) setBytes(c *change, content *storage.Content) {
	var key [keys.MaxLength]byte
	c.set(keys.AppendContent(key[:0], l.number, placeOf(content)), content.Bytes)
}

func placeOf(content *storage.Content) keys.Place {
	return keys.Place{Seq: content.Seq, Slot: content.Slot}
}

func (l *ledger) setReference(c *change, content *storage.Content) {
	var key [keys.MaxLength]byte
	c.set(keys.AppendReference(key[:0], l.number, content.Digest, content.Seq), nil)
}
