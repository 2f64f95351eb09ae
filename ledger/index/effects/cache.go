package effects

import (
	"context"
	"sync"

	"colophon/ledger/index"
)

const maxTotals = 256

// Cache caches the totals of queries, because counting them costs as much as reading all pages. For
// each query, it keeps the totals at the tree size of the latest request. The totals at one size
// never change. The zero Cache is empty. A nil *Cache caches nothing. A Cache is safe for
// concurrent use.
type Cache struct {
	mu   sync.Mutex // guards the fields below; held briefly
	kept map[totalsKey]Totals
	keys []totalsKey // keys of the cached totals, oldest first
}

type totalsKey struct {
	ledger string
	query  Query
}

// Totals returns the totals of a query on a ledger at the view's size. If the cache has totals at a nearby
// size, Totals counts only the difference. A nil Cache counts everything.
func (c *Cache) Totals(ctx context.Context, ledger string, v *index.View, query Query) (Totals, error) {
	if c == nil {
		return CountPairs(ctx, v, query, nil)
	}
	key := totalsKey{ledger, query}
	known := c.find(key)
	if known != nil && known.TreeSize == v.Size() {
		return *known, nil
	}
	totals, err := CountPairs(ctx, v, query, known)
	if err == nil {
		c.keep(key, totals)
	}
	return totals, err
}

// find returns a copy of the cached totals for key, or nil.
func (c *Cache) find(key totalsKey) *Totals {
	c.mu.Lock()
	defer c.mu.Unlock()
	if totals, ok := c.kept[key]; ok {
		return &totals
	}
	return nil
}

// keep caches totals. If the cache is full, keep evicts the totals that were added first.
func (c *Cache) keep(key totalsKey, totals Totals) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil {
		c.kept = make(map[totalsKey]Totals)
	}
	if _, ok := c.kept[key]; !ok {
		if len(c.keys) == maxTotals {
			delete(c.kept, c.keys[0])
			c.keys = c.keys[1:]
		}
		c.keys = append(c.keys, key)
	}
	c.kept[key] = totals
}
