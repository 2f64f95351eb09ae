package index

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
	"unsafe"

	"github.com/cockroachdb/pebble/v2/vfs"

	"colophon/ledger/index/rowstore"
)

// Config says where an index is and what it may use.
type Config struct {
	// Dir is the folder of the index, made if absent. It belongs to the index alone.
	Dir string
	// FS is the file system that Dir is on; nil means the operating system's.
	FS vfs.FS
	// Log takes what happens to the index; it must not be nil.
	Log *slog.Logger
	// Memory is what the index of all ledgers takes, in bytes, beside what requests
	// use; 0 means DefaultMemory, the least is LeastMemory. More makes a fold of a
	// large log faster.
	Memory int64
	// ReadOnly: the index answers what it has, and writes nothing. Where it would have to
	// be built, questions get storage.ErrNoSpace.
	ReadOnly bool
	// Anew: an index that is there is emptied.
	Anew bool
}

// Memory of an index, in bytes.
const (
	DefaultMemory = 256 << 20
	LeastMemory   = 16 << 20
)

// ampleMemory is from where on records are kept too, in bytes: with less, blocks are of
// more use.
const ampleMemory = 512 << 20

// mostTable is the size, in bytes, from which larger memtables and batches are of no
// use.
const mostTable = 64 << 20

// config is a Config with its memory shared out, in bytes.
type config struct {
	rows rowstore.Config
	// One batch covers at most batchEvents events, and takes no further one when
	// it has batchBytes; two are in the making at once.
	batchEvents, batchBytes int
	// An event whose effects are without bound has so many of them in a batch.
	batchSteps int
	// keptBytes bounds the rows that the folds of all ledgers keep.
	keptBytes int
	// knownBytes bounds the filters of groups of all ledgers.
	knownBytes int
	// recordsBytes bounds the IPC records of all ledgers that are kept for queries; none
	// are with less than leastKept.
	recordsBytes int
	// mostChanged is how many groups change before they are ranked, in a fold that ranks
	// them late.
	mostChanged int
	// pause is how long a follower gathers events that nobody waits for: from one fold
	// to the next.
	pause time.Duration
}

// KeptBytes is how much of an index's memory is beside the runtime's, and not in what
// GOMEMLIMIT bounds.
func KeptBytes(memory int64) int64 {
	c, err := Config{Dir: "any", Memory: memory}.internal()
	if err != nil || c.recordsBytes < leastKept {
		return 0
	}
	return int64(c.recordsBytes)
}

func (c Config) internal() (config, error) {
	if c.Dir == "" {
		return config{}, errors.New("no folder given for the index")
	}
	if c.FS == nil {
		c.FS = vfs.Default
	}
	memory := int(c.Memory)
	if memory == 0 {
		memory = DefaultMemory
	}
	if memory < LeastMemory {
		return config{}, fmt.Errorf("the index has %d bytes of memory; it needs %d", memory, LeastMemory)
	}
	cache, kept, known, records := memory/2, memory/16*3, memory/16*3, 0
	switch {
	case c.Anew: // nobody asks, and the rows that are kept need no blocks
		cache, kept = memory/4, memory/16*7
	case memory >= ampleMemory:
		cache, known, records = memory/32*11, memory/32*3, memory/4
	}
	return config{
		rows: rowstore.Config{
			Files: c.FS, Dir: c.Dir, Layout: layout, Schema: &rowBytes, ReadOnly: c.ReadOnly, Anew: c.Anew,
			CacheBytes: cache, MemTableBytes: min(cache/4, mostTable), Log: c.Log, Exit: os.Exit,
		},
		batchEvents:  1 << 16,
		batchSteps:   1 << 14,
		batchBytes:   min(memory/20, mostTable),
		keptBytes:    kept,
		knownBytes:   known,
		recordsBytes: records,
		mostChanged:  memory / 40 / int(unsafe.Sizeof(change{})),
		pause:        50 * time.Millisecond,
	}, nil
}

// layout names what the keys and values of this build look like and what is
// counted. It changes with either: an index of another layout is emptied.
const layout = "colophon index, layout 9\n"
