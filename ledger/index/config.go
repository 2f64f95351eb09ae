package index

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"colophon/ledger/index/rowstore"
)

// Config says where an index is and what it may use.
type Config struct {
	// Dir is the folder of the index, made if absent. It belongs to the index alone.
	Dir string
	// FS is the file system that Dir is on; nil means the operating system's.
	FS vfs.FS
	// Families are the families of questions that are answered, each behind those that it
	// builds on.
	Families []Family
	// Log takes what happens to the index; it must not be nil.
	Log *slog.Logger
	// Memory is what the index of all ledgers takes, in bytes, beside what requests
	// use; 0 means DefaultMemory, the least is MinMemory. More makes a fold of a
	// large log faster.
	Memory int64
	// ReadOnly: the index answers what it has, and writes nothing. Where it would have to
	// be built, questions get storage.ErrNoSpace.
	ReadOnly bool
	// Rebuild: an index that is there is emptied.
	Rebuild bool
}

// Memory of an index, in bytes.
const (
	DefaultMemory = 256 << 20
	MinMemory     = 16 << 20
)

// deferredBytes is about what a deriver keeps of a piece of work that it defers.
const deferredBytes = 72

// eventCacheMemory is from where on records are rowCache too, in bytes: with less, blocks are of
// more use.
const eventCacheMemory = 512 << 20

// maxTable is the size, in bytes, from which larger memtables and batches are of no
// use.
const maxTable = 64 << 20

// Settings is a Config with its memory shared out, in bytes.
type Settings struct {
	Rows     rowstore.Config
	Families []Family
	// One batch covers at most BatchEvents events, and takes no further one when
	// it has BatchBytes; two are in the making at once.
	BatchEvents, BatchBytes int
	// An event whose effects are without bound has so many of them in a batch.
	BatchSteps int
	// RowCacheBytes bounds the rows that the folds of all ledgers keep.
	RowCacheBytes int
	// FilterBytes bounds the filters of groups of all ledgers.
	FilterBytes int
	// EventCacheBytes bounds the IPC records of all ledgers that are rowCache for queries; none
	// are with less than leastCache.
	EventCacheBytes int
	// MaxDeferred is how many groups change before they are ranked, in a fold that ranks
	// them late.
	MaxDeferred int
	// Pause is how long a follower gathers events that no reader waits for: from one fold
	// to the next.
	Pause time.Duration
}

// OffHeapBytes is how much of an index's memory is beside the runtime's, and not in what
// GOMEMLIMIT bounds.
func OffHeapBytes(memory int64) int64 {
	c, err := Config{Dir: "any", Memory: memory}.Settings()
	if err != nil || c.EventCacheBytes < MinEventCache {
		return 0
	}
	return int64(c.EventCacheBytes)
}

// Settings shares the memory out.
func (c Config) Settings() (Settings, error) {
	if c.Dir == "" {
		return Settings{}, errors.New("no folder given for the index")
	}
	if c.FS == nil {
		c.FS = vfs.Default
	}
	memory := int(c.Memory)
	if memory == 0 {
		memory = DefaultMemory
	}
	if memory < MinMemory {
		return Settings{}, fmt.Errorf("the index has %d bytes of memory; it needs %d", memory, MinMemory)
	}
	cache, rowCache, filters, records := memory/2, memory/16*3, memory/16*3, 0
	switch {
	case c.Rebuild: // there are no queries, and the cached rows need no blocks
		cache, rowCache = memory/4, memory/16*7
	case memory >= eventCacheMemory:
		cache, filters, records = memory/32*11, memory/32*3, memory/4
	}
	return Settings{
		Rows: rowstore.Config{
			Files: c.FS, Dir: c.Dir, Layout: Layout, ReadOnly: c.ReadOnly, Rebuild: c.Rebuild,
			CacheBytes: cache, MemTableBytes: min(cache/4, maxTable), Log: c.Log, Exit: os.Exit,
		},
		Families:        c.Families,
		BatchEvents:     1 << 16,
		BatchSteps:      1 << 14,
		BatchBytes:      min(memory/20, maxTable),
		RowCacheBytes:   rowCache,
		FilterBytes:     filters,
		EventCacheBytes: records,
		MaxDeferred:     memory / 40 / deferredBytes,
		Pause:           50 * time.Millisecond,
	}, nil
}

// Layout names what the keys and values of this build look like and what is
// counted. It changes with either: an index of another layout is emptied.
const Layout = "colophon index, layout 9\n"
