package pebble

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"colophon/storage"
	"colophon/storage/pebble/internal/keys"
)

// pieces groups the content of one commit by digest, and records which pieces the ledger does not
// have yet.
type pieces struct {
	contents []storage.Content
	sorted   []int  // indices into contents, sorted by digest and then by event
	firsts   []int  // positions in sorted of the first piece with each digest
	fresh    []bool // for each piece in contents, whether the commit must store its bytes
}

// pieces determines which of the contents the ledger already has. It treats the digests in erased
// as absent, because the same commit erases them.
func (l *ledger) pieces(contents []storage.Content, erased map[storage.Hash]bool) (*pieces, error) {
	p := &pieces{contents: contents, sorted: make([]int, len(contents))}
	for i := range p.sorted {
		p.sorted[i] = i
	}
	slices.SortFunc(p.sorted, func(a, b int) int {
		return cmp.Or(bytes.Compare(contents[a].Digest[:], contents[b].Digest[:]), cmp.Compare(a, b))
	})
	for at := range p.sorted {
		if at == 0 || p.digest(at) != p.digest(at-1) {
			p.firsts = append(p.firsts, at)
		}
	}
	p.fresh = make([]bool, len(contents))
	var possible []int // positions in sorted whose digests must be looked up
	for _, first := range p.firsts {
		digest := p.digest(first)
		if !erased[digest] && l.recent.has(digest) {
			continue
		}
		p.fresh[p.sorted[first]] = true
		if !erased[digest] && l.digests.mayContain(digest) {
			possible = append(possible, first)
		}
	}
	err := l.find(keys.LocationAndReferenceRange, len(possible), func(key []byte, i int) []byte {
		return keys.AppendLocationKey(key, l.number, p.digest(possible[i]))
	}, func(i int, _ []byte) error {
		p.fresh[p.sorted[possible[i]]] = false
		l.recent.add(p.digest(possible[i]))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("looking up content: %w", err)
	}
	return p, nil
}

// digest returns the digest of the piece at the given position in sorted.
func (p *pieces) digest(at int) storage.Hash { return p.contents[p.sorted[at]].Digest }

// setContents writes each piece that the ledger does not have, exactly once.
func (c *ledgerChange) setContents(p *pieces) {
	var key [keys.MaxLengthWithoutName]byte
	for i := range p.contents {
		if p.fresh[i] {
			c.set(keys.AppendContentKey(key[:0], c.ledger, locationOf(&p.contents[i])), p.contents[i].Bytes)
		}
	}
}

// setHoldings writes a location for each new piece of content, and a reference for every other
// event that needs a piece.
func (c *ledgerChange) setHoldings(p *pieces) {
	for i, first := range p.firsts {
		end := len(p.sorted)
		if i+1 < len(p.firsts) {
			end = p.firsts[i+1]
		}
		content := &p.contents[p.sorted[first]]
		if p.fresh[p.sorted[first]] {
			c.setLocation(content)
		} else {
			c.setReference(content)
		}
		for _, other := range p.sorted[first+1 : end] {
			if p.contents[other].Seq != content.Seq { // one reference per event
				c.setReference(&p.contents[other])
			}
		}
	}
}

func (c *ledgerChange) setLocation(content *storage.Content) {
	c.digests.add(content.Digest)
	var key, value [keys.MaxLengthWithoutName]byte
	c.set(keys.AppendLocationKey(key[:0], c.ledger, content.Digest), keys.AppendLocationValue(value[:0], keys.LocationValue{Location: locationOf(content)}))
}

func locationOf(content *storage.Content) keys.Location {
	return keys.Location{Seq: content.Seq, Slot: content.Slot}
}

func (c *ledgerChange) setReference(content *storage.Content) {
	var key [keys.MaxLengthWithoutName]byte
	c.set(keys.AppendReferenceKey(key[:0], c.ledger, content.Digest, content.Seq), nil)
}
