package pebble

import (
	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"colophon/storage/pebble/internal/keys"
)

// filterPolicy filters only keys that are looked up to learn whether they are
// there: filters of all others would take the room of these in the cache.
type filterPolicy struct{ bloom.FilterPolicy }

// Bits of a filter for each key. Wherever a key is not, each level but the last may
// have several tables that could hold it.
const (
	filterBits     = 16
	lastFilterBits = 10 // in the last level, where most of the keys are
)

// Name implements engine.FilterPolicy.
func (filterPolicy) Name() string { return "colophon.sought" }

// MayContain implements engine.FilterPolicy.
func (p filterPolicy) MayContain(kind engine.FilterType, filter, key []byte) bool {
	return !keys.HasDigest(key) || p.FilterPolicy.MayContain(kind, filter, key)
}

// NewWriter implements engine.FilterPolicy.
func (p filterPolicy) NewWriter(kind engine.FilterType) engine.FilterWriter {
	return digestKeys{p.FilterPolicy.NewWriter(kind)}
}

// digestKeys leaves the other keys out of a filter.
type digestKeys struct{ engine.FilterWriter }

// AddKey implements engine.FilterWriter.
func (s digestKeys) AddKey(key []byte) {
	if keys.HasDigest(key) {
		s.FilterWriter.AddKey(key)
	}
}
