package proofs

import "sync"

// CachedTileBytes is the memory that one cached tile uses, in bytes.
const CachedTileBytes = 16 << 10

// cacheShards is the number of shards in a TileCache. Each shard has its own mutex, to reduce
// contention between concurrent readers.
const cacheShards = 16

// TileCache holds a bounded number of full tiles of one log, including their inner nodes. Full
// tiles never change, so cached tiles stay valid. It is safe for concurrent use. A nil TileCache
// caches nothing.
type TileCache struct {
	shards [cacheShards]cacheShard
}

type tileID struct {
	level uint8
	index uint64
}

// cacheShard evicts by the clock algorithm: a hand moves around the slots and evicts the first
// tile that has not been used since the hand last passed it.
type cacheShard struct {
	mu     sync.Mutex // guards all fields below
	places map[tileID]int
	slots  []cacheSlot
	limit  int
	hand   int
}

type cacheSlot struct {
	id   tileID
	tile *tile
	used bool
}

// NewTileCache returns a cache that holds approximately the given number of tiles, but at least 16.
// Each tile uses CachedTileBytes of memory. One tile of level 0 covers 256 leaves.
func NewTileCache(tiles int) *TileCache {
	c := new(TileCache)
	for i := range c.shards {
		c.shards[i].places = make(map[tileID]int)
		c.shards[i].limit = max(1, (tiles+cacheShards-1)/cacheShards)
	}
	return c
}

func (c *TileCache) shard(id tileID) *cacheShard {
	return &c.shards[(id.index+uint64(id.level))%cacheShards]
}

// get returns the tile with the given ID, or nil if it is not cached.
func (c *TileCache) get(id tileID) *tile {
	if c == nil {
		return nil
	}
	s := c.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	place, ok := s.places[id]
	if !ok {
		return nil
	}
	s.slots[place].used = true
	return s.slots[place].tile
}

// put adds a full tile to the cache. If the tile's shard is full, put evicts another tile from it.
func (c *TileCache) put(id tileID, t *tile) {
	if c == nil {
		return
	}
	s := c.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.places[id]; ok {
		return
	}
	place := len(s.slots)
	if place < s.limit {
		s.slots = append(s.slots, cacheSlot{})
	} else {
		place = s.evict()
	}
	s.slots[place] = cacheSlot{id: id, tile: t}
	s.places[id] = place
}

// evict frees a slot and returns its index.
func (s *cacheShard) evict() int {
	for s.slots[s.hand].used {
		s.slots[s.hand].used = false
		s.hand = (s.hand + 1) % len(s.slots)
	}
	place := s.hand
	delete(s.places, s.slots[place].id)
	s.hand = (s.hand + 1) % len(s.slots)
	return place
}
