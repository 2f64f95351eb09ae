package proofs

import "sync"

// TileBytes is what one cached tile costs in memory, in bytes.
const TileBytes = 16 << 10

// cacheShards spreads concurrent readers over as many mutexes.
const cacheShards = 16

// TileCache keeps full tiles of one log, expanded, up to a fixed number. Full
// tiles never change, so neither does what is cached. It is safe for concurrent
// use. A nil TileCache keeps nothing.
type TileCache struct {
	shards [cacheShards]cacheShard
}

type tileID struct {
	level uint8
	index uint64
}

// cacheShard evicts by second chance: a hand goes round the slots and takes the
// first that was not used since it last came by.
type cacheShard struct {
	mu     sync.Mutex // owns all below
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

// NewTileCache makes a cache of about that many tiles, TileBytes each; one tile
// of level 0 serves 256 leaves.
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

// get is the tile, or nil.
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

// put adds a full tile.
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

// evict frees a slot and returns its place.
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
