package pebbletest

import (
	"math/rand/v2"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// CrashFS is an in-memory file system that distinguishes synced from unsynced data. It counts
// the operations that change it, and can show what would remain after a power failure.
type CrashFS struct {
	memory *vfs.MemFS

	// mu is held while an operation that changes the file system is counted and before is called.
	mu         sync.Mutex
	operations int                 // number of changes to the file system begun so far; guarded by mu
	before     func(operation int) // called before each operation if not nil; guarded by mu
}

// NewCrashFS returns an empty file system.
func NewCrashFS() *CrashFS {
	return &CrashFS{memory: vfs.NewCrashableMem()}
}

// FS returns a view of c for the code under test. c counts the operations on the view that change
// the file system.
func (c *CrashFS) FS() vfs.FS {
	return errorfs.Wrap(c.memory, errorfs.InjectorFunc(c.begin))
}

func (c *CrashFS) begin(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.before != nil {
		c.before(c.operations)
	}
	c.operations++
	return nil
}

// BeforeEachOperation makes c call f before each operation that changes the file system. The argument is
// the number of earlier operations that changed it. If f is nil, c stops making calls. Operations wait
// for f, so f must not change the file system, but it may call AfterPowerCut. f runs on the operation's
// goroutine, so it must not fail the test itself, for example by calling t.FailNow.
func (c *CrashFS) BeforeEachOperation(f func(operation int)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before = f
}

// OperationCount returns how many operations have changed the file system so far. It must not be
// called from the function passed to BeforeEachOperation, because that would deadlock.
func (c *CrashFS) OperationCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.operations
}

// AfterPowerCut returns the file system that would remain if the power failed now. It contains
// everything that was synced, and keeps each unsynced block and directory entry with a probability
// of percent/100. seed makes this choice reproducible. The result is independent of c.
func (c *CrashFS) AfterPowerCut(percent int, seed uint64) *CrashFS {
	return &CrashFS{memory: c.memory.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: percent,
		RNG:                 rand.New(rand.NewPCG(seed, seed)), // #nosec G404 -- test cases
	})}
}
