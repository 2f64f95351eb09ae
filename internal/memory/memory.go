// Package memory determines how much memory this process can use.
package memory

import (
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// maxShare is the maximum default size of a single cache, in bytes.
const maxShare = 2 << 30

// Limits holds the memory limits of a process, in bytes. 0 means that there is no limit, or
// that it is unknown.
type Limits struct {
	Machine   uint64 // memory of the machine
	Container uint64 // limit of the container or the service
	Runtime   uint64 // GOMEMLIMIT, the target of the garbage collector
}

// CurrentLimits returns the limits of this process.
func CurrentLimits() Limits {
	var l Limits
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		l.Runtime = uint64(limit)
	}
	if bytes, err := memlimit.FromSystem(); err == nil {
		l.Machine = bytes
	}
	if bytes, err := memlimit.FromCgroup(); err == nil && (l.Machine == 0 || bytes < l.Machine) {
		l.Container = bytes // on some systems, a value above the machine's memory means no limit
	}
	return l
}

// AvailableBytes returns the memory that the process can use before the system refuses more, in
// bytes. It returns 0 if this is unknown.
func (l Limits) AvailableBytes() uint64 { return least(l.Machine, l.Container) }

// UsableBytes returns AvailableBytes or GOMEMLIMIT in bytes, whichever is less, or 0 if both are
// unknown.
func (l Limits) UsableBytes() uint64 { return least(l.AvailableBytes(), l.Runtime) }

// least returns the smaller of two limits, where 0 means no limit.
func least(a, b uint64) uint64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// UsableBytes returns how much memory this process may use, in bytes, or 0 if this is unknown.
func UsableBytes() uint64 { return CurrentLimits().UsableBytes() }

// CacheSize returns usable divided by parts, in bytes, but no less than least and no more than 2 GiB.
func CacheSize(usable, parts uint64, least int64) int64 {
	return max(least, int64(min(maxShare, usable/parts)))
}
