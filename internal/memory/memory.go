// Package memory says how much memory this process may use.
package memory

import (
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// mostShare bounds the share of memory that one cache takes where nothing is set, in bytes.
const mostShare = 2 << 30

// Usable is how many bytes of memory this process may use: what the machine has, what its
// container may have, and GOMEMLIMIT, the least of them. 0 where nothing is known.
func Usable() uint64 {
	least := uint64(math.MaxInt64)
	if limit := debug.SetMemoryLimit(-1); limit > 0 {
		least = uint64(limit)
	}
	for _, ask := range []func() (uint64, error){memlimit.FromSystem, memlimit.FromCgroup} {
		if bytes, err := ask(); err == nil && bytes != 0 {
			least = min(least, bytes)
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}

// Share is one of parts equal parts of what is usable, in bytes: no less than least, no
// more than 2 GiB.
func Share(usable, parts uint64, least int64) int64 {
	return max(least, int64(min(mostShare, usable/parts)))
}
