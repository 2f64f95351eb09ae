// Package memory says how much memory this process may use.
package memory

import (
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// mostShare bounds the share of memory that one cache takes where nothing is set, in bytes.
const mostShare = 2 << 30

// Limits bound the memory of a process, in bytes. 0 means that there is no limit, or that it
// is not known.
type Limits struct {
	Machine   uint64 // what the machine has
	Container uint64 // what the container, or the service, may have
	Runtime   uint64 // GOMEMLIMIT, which the garbage collector keeps to
}

// Current returns the limits of this process.
func Current() Limits {
	var l Limits
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		l.Runtime = uint64(limit)
	}
	if bytes, err := memlimit.FromSystem(); err == nil {
		l.Machine = bytes
	}
	if bytes, err := memlimit.FromCgroup(); err == nil && (l.Machine == 0 || bytes < l.Machine) {
		l.Container = bytes // more than the machine has is how some systems write that there is no limit
	}
	return l
}

// Available is what the process can have before the system refuses more, in bytes; 0 where
// nothing is known.
func (l Limits) Available() uint64 { return least(l.Machine, l.Container) }

// Usable is Available, or GOMEMLIMIT where that is less.
func (l Limits) Usable() uint64 { return least(l.Available(), l.Runtime) }

// least is the lesser of two limits, of which 0 is none.
func least(a, b uint64) uint64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// Usable is how many bytes of memory this process may use; 0 where nothing is known.
func Usable() uint64 { return Current().Usable() }

// Share is one of parts equal parts of what is usable, in bytes: no less than least, no
// more than 2 GiB.
func Share(usable, parts uint64, least int64) int64 {
	return max(least, int64(min(mostShare, usable/parts)))
}
