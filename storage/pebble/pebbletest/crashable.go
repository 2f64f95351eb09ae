package pebbletest

import (
	"math/rand/v2"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// Crashable is a file system in memory that tells what is synced from what is
// not. It counts the operations that change it and shows what would be left if
// the power failed.
type Crashable struct {
	memory *vfs.MemFS

	// mu lets one changing operation begin at a time.
	mu         sync.Mutex
	operations int                 // begun so far; under mu
	before     func(operation int) // nil or called before each; under mu
}

// NewCrashable is an empty file system.
func NewCrashable() *Crashable {
	return &Crashable{memory: vfs.NewCrashableMem()}
}

// FS is the file system to work on.
func (c *Crashable) FS() vfs.FS {
	return errorfs.Wrap(c.memory, errorfs.InjectorFunc(c.begin))
}

func (c *Crashable) begin(op errorfs.Op) error {
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

// BeforeEach has f called before each changing operation with the number of
// those before it, nil ends that. Operations wait for f, so it must not change
// the file system; it is the place to call PowerCut. It runs on whatever
// goroutine works on the file system, so it must not fail the test itself.
func (c *Crashable) BeforeEach(f func(operation int)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before = f
}

// Operations is the number of changing operations so far. It must not be called
// from the function given to BeforeEach.
func (c *Crashable) Operations() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.operations
}

// PowerCut is a file system as it would be found if the power failed now: all
// that was synced, and of the rest each block and each directory entry with a
// chance of percent in 100, by the dice that seed gives. It is separate from c,
// and is Crashable itself.
func (c *Crashable) PowerCut(percent int, seed uint64) *Crashable {
	return &Crashable{memory: c.memory.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: percent,
		RNG:                 rand.New(rand.NewPCG(seed, seed)), // #nosec G404 -- cases of tests
	})}
}
