package index

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/VictoriaMetrics/fastcache"
)

// eventCache caches the encodings of events that queries have read, for all ledgers. Families produce
// these encodings. The memory of the cache is outside the Go heap, except on Windows. It is safe for
// concurrent use. A nil eventCache caches nothing.
type eventCache struct{ cache *fastcache.Cache }

// The cache grows in steps of cachePart bytes. Its internal tables need up to one fifth more.
const cachePart = 32 << 20

// MinEventCacheBytes is the minimum size of an event cache, in bytes.
const MinEventCacheBytes = cachePart / 5 * 6

// newEventCache returns a cache of at most the given number of bytes, or nil if that is less than
// MinEventCacheBytes. The cache allocates memory as it fills.
func newEventCache(bytes int) *eventCache {
	if bytes < MinEventCacheBytes {
		return nil
	}
	return &eventCache{fastcache.New(bytes / MinEventCacheBytes * cachePart)}
}

// close frees the memory. The cache must not be used afterwards.
func (c *eventCache) close() {
	if c != nil {
		c.cache.Reset()
	}
}

// logs is the number of logs that this process has followed.
var logs atomic.Uint64

// LogEventCache is the part of the event cache that belongs to one log.
type LogEventCache struct {
	cache *eventCache
	log   uint64 // number of the log in this process
}

// Enabled reports whether events are cached.
func (c LogEventCache) Enabled() bool { return c.cache != nil }

func (c LogEventCache) key(seq uint64) (key [16]byte) {
	binary.BigEndian.PutUint64(key[:8], c.log)
	binary.BigEndian.PutUint64(key[8:], seq)
	return key
}

// Find appends the cached encoding of an event to dst.
func (c LogEventCache) Find(dst []byte, seq uint64) (encoded []byte, found bool) {
	if c.cache == nil {
		return dst, false
	}
	key := c.key(seq)
	return c.cache.cache.HasGet(dst, key[:])
}

// Add caches the encoding of an event. If the system has no memory left, the cache panics while it
// holds its locks. Recovering would leave all other users of the cache blocked forever, so Add
// makes the process exit.
func (c LogEventCache) Add(seq uint64, encoded []byte) {
	defer func() {
		if failed := recover(); failed != nil {
			go panic(failed)
			select {}
		}
	}()
	key := c.key(seq)
	c.cache.cache.Set(key[:], encoded)
}
