package index

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/VictoriaMetrics/fastcache"
)

// eventCache keeps what families encode of events, of all ledgers: those that were folded
// or read last. It is in memory that is mapped apart from the runtime's (but on Windows),
// and safe for concurrent use; a nil one keeps nothing.
type eventCache struct{ cache *fastcache.Cache }

// Of the memory, in bytes: it is used in parts of cachePart, beside which the cache takes up
// to a fifth of that for where everything is.
const (
	cachePart     = 32 << 20
	MinEventCache = cachePart / 5 * 6
)

// newEventCache takes so much memory, little by little; none if that is too little.
func newEventCache(bytes int) *eventCache {
	if bytes < MinEventCache {
		return nil
	}
	return &eventCache{fastcache.New(bytes / MinEventCache * cachePart)}
}

// close gives the memory back. Nothing may be looked for any more.
func (c *eventCache) close() {
	if c != nil {
		c.cache.Reset()
	}
}

// logs numbers the logs that are followed in this process.
var logs atomic.Uint64

// EventCache is what one log has of the cache of events.
type EventCache struct {
	cache *eventCache
	log   uint64 // its number, in this process
}

// Enabled reports whether anything is kept.
func (c EventCache) Enabled() bool { return c.cache != nil }

func (c EventCache) key(seq uint64) (key [16]byte) {
	binary.BigEndian.PutUint64(key[:8], c.log)
	binary.BigEndian.PutUint64(key[8:], seq)
	return key
}

// Find appends what is kept of an event.
func (c EventCache) Find(dst []byte, seq uint64) (encoded []byte, found bool) {
	if c.cache == nil {
		return dst, false
	}
	key := c.key(seq)
	return c.cache.cache.HasGet(dst, key[:])
}

// Keep keeps what was encoded of an event. Without memory to be had the process ends, as
// it does where the runtime has none: the cache panics with its locks held, and recovering
// from that would leave all others waiting.
func (c EventCache) Keep(seq uint64, encoded []byte) {
	defer func() {
		if failed := recover(); failed != nil {
			go panic(failed)
			select {}
		}
	}()
	key := c.key(seq)
	c.cache.cache.Set(key[:], encoded)
}
