package audit

import (
	"container/list"
	"sync"

	"colophon/proofs"
)

// ContentCache is an LRU cache for pieces of content. It is safe for concurrent use.
type ContentCache struct {
	limit int // capacity in bytes

	mu     sync.Mutex // guards the fields below
	bytes  int
	pieces map[proofs.Hash]*list.Element // elements of order, keyed by digest
	order  list.List                     // cachedPiece elements, most recently used first
}

type cachedPiece struct {
	digest proofs.Hash
	bytes  []byte
}

// NewContentCache returns a cache of up to limit bytes. A longer piece can be cached only alone.
func NewContentCache(limit int) *ContentCache {
	return &ContentCache{limit: limit, pieces: make(map[proofs.Hash]*list.Element)}
}

// Get returns the piece with the given digest if it is cached. The caller must not modify the
// piece.
func (c *ContentCache) Get(digest proofs.Hash) (content []byte, cached bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, cached := c.pieces[digest]
	if !cached {
		return nil, false
	}
	c.order.MoveToFront(at)
	return at.Value.(cachedPiece).bytes, true
}

// Put adds a piece to the cache. The caller must not modify the piece afterwards.
func (c *ContentCache) Put(digest proofs.Hash, content []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, cached := c.pieces[digest]; cached {
		return
	}
	c.pieces[digest] = c.order.PushFront(cachedPiece{digest, content})
	for c.bytes += len(content); c.bytes > c.limit && c.order.Len() > 1; {
		oldest := c.order.Remove(c.order.Back()).(cachedPiece)
		delete(c.pieces, oldest.digest)
		c.bytes -= len(oldest.bytes)
	}
}
