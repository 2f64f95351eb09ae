package pebble

import (
	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"colophon/storage/pebble/internal/keys"
)

// filterPolicy builds filters only for keys that are looked up to check whether they exist. Filters
// for other keys would waste cache memory.
type filterPolicy struct{ bloom.FilterPolicy }

// Bits per key in a filter. Filters of the upper levels have more bits, because a lookup of an
// absent key can consult several of them.
const (
	filterBits     = 16
	lastFilterBits = 10 // in the last level, which has most of the keys
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

// digestKeys is a filter writer that adds only the keys that keys.HasDigest accepts.
type digestKeys struct{ engine.FilterWriter }

// AddKey implements engine.FilterWriter.
func (s digestKeys) AddKey(key []byte) {
	if keys.HasDigest(key) {
		s.FilterWriter.AddKey(key)
	}
}
