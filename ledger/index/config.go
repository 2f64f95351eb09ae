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

// Config configures an index.
type Config struct {
	// Dir is the folder of the index. It is created if absent, and must contain nothing else.
	Dir string
	// FS is the file system that contains Dir. If it is nil, the operating system's file system is
	// used.
	FS vfs.FS
	// Families are the families of questions that the index answers. Each comes after the
	// families that it depends on.
	Families []Family
	// Logger receives the log messages of the index. It must not be nil.
	Logger *slog.Logger
	// MemoryBytes limits the memory, in bytes, that the indexes of all ledgers use together, not
	// including the memory for requests. It must be at least MinMemoryBytes. Zero means DefaultMemoryBytes.
	// With more memory, a large log is folded faster.
	MemoryBytes int64
	// ReadOnly makes the index answer questions from stored rows without writing anything. If the
	// index is absent or damaged, queries fail with storage.ErrNoSpace.
	ReadOnly bool
	// Rebuild makes Open delete the content of an existing index.
	Rebuild bool
}

// The default and the minimum value of Config.MemoryBytes, in bytes.
const (
	DefaultMemoryBytes = 256 << 20 // default: 256 MiB
	MinMemoryBytes     = 16 << 20  // minimum: 16 MiB
)

// deferredBytes is the approximate memory, in bytes, of one piece of work that a deriver
// defers.
const deferredBytes = 72

// minMemoryForEventCache is the minimum Config.MemoryBytes, in bytes, at which the index caches IPC records.
// With less memory, the block cache is a better use of it.
const minMemoryForEventCache = 512 << 20

// maxTable is the maximum size of a memtable or a batch in bytes. Larger ones bring no benefit.
const maxTable = 64 << 20

// ResolvedConfig is a Config whose memory limit has been divided among the parts of the index.
// Sizes are in bytes.
type ResolvedConfig struct {
	RowStore rowstore.Config
	Families []Family // families of questions that the index answers
	// MaxBatchEvents and MaxBatchBytes limit a batch. The batch is full when it contains
	// MaxBatchEvents events or has reached MaxBatchBytes. One batch is stored while the next one is
	// filled.
	MaxBatchEvents, MaxBatchBytes int
	// MaxBatchEffects is the maximum number of effects of one event, such as superseded chunks, in
	// one batch. The remaining effects are written in further batches.
	MaxBatchEffects int
	// RowCacheBytes limits the row caches of all ledgers together.
	RowCacheBytes int
	// FilterBytes limits the filters of the folds of all ledgers together.
	FilterBytes int
	// RecentBytes limits the entries of all ledgers that followers have not read yet.
	RecentBytes int
	// EventCacheBytes limits the cache of IPC records of all ledgers. If it is less than
	// MinEventCacheBytes, there is no such cache.
	EventCacheBytes int
	// MaxDeferredGroups limits the number of changed groups whose ranking a fold defers. When the limit
	// is reached, the fold ranks these groups.
	MaxDeferredGroups int
	// MinFetchLag is the minimum number of events by which an index must be behind its log before
	// it fetches a snapshot instead of folding the events (see Store.SetSnapshotFetchFunc).
	MinFetchLag uint64
	// SnapshotPartBytes is the length at which SnapshotPart.Rows is full. No more rows are added to
	// a part that has reached this length.
	SnapshotPartBytes int
	// MinFoldInterval is the minimum time between the starts of two folds while no reader waits.
	MinFoldInterval time.Duration
}

// OffHeapBytes returns how many bytes of an index's memory are outside the Go heap, where
// GOMEMLIMIT does not limit them. memory is Config.MemoryBytes.
func OffHeapBytes(memory int64) int64 {
	c, err := Config{Dir: "any", MemoryBytes: memory}.Resolve()
	if err != nil || c.EventCacheBytes < MinEventCacheBytes {
		return 0
	}
	return int64(c.EventCacheBytes)
}

// Resolve divides the memory limit among the parts of the index. It returns an error if Dir is
// empty or MemoryBytes is too small.
func (c Config) Resolve() (ResolvedConfig, error) {
	if c.Dir == "" {
		return ResolvedConfig{}, errors.New("index: Config.Dir is not set")
	}
	if c.FS == nil {
		c.FS = vfs.Default
	}
	memory := int(c.MemoryBytes)
	if memory == 0 {
		memory = DefaultMemoryBytes
	}
	if memory < MinMemoryBytes {
		return ResolvedConfig{}, fmt.Errorf("the memory limit of the index is %d bytes; it must be at least %d", memory, MinMemoryBytes)
	}
	cache, rowCache, filters, records := memory/2, memory/16*3, memory/16*3, 0
	switch {
	case c.Rebuild: // a rebuild serves no queries, so it needs more row cache and less block cache
		cache, rowCache = memory/4, memory/16*7
	case memory >= minMemoryForEventCache:
		cache, filters, records = memory/32*11, memory/32*3, memory/4
	}
	return ResolvedConfig{
		RowStore: rowstore.Config{
			FS: c.FS, Dir: c.Dir, Layout: Layout, ReadOnly: c.ReadOnly, DiscardExisting: c.Rebuild,
			CacheBytes: cache, MemTableBytes: min(cache/4, maxTable), Logger: c.Logger, Exit: os.Exit,
		},
		Families:          c.Families,
		MaxBatchEvents:    1 << 16,
		MaxBatchEffects:   1 << 14,
		MaxBatchBytes:     min(memory/20, maxTable),
		RowCacheBytes:     rowCache,
		FilterBytes:       filters,
		RecentBytes:       min(memory/16, maxTotalRecentBytes),
		EventCacheBytes:   records,
		MaxDeferredGroups: memory / 40 / deferredBytes,
		MinFetchLag:       20_000,
		SnapshotPartBytes: SnapshotPartBytes,
		MinFoldInterval:   200 * time.Millisecond,
	}, nil
}

// Layout identifies the format of keys and values, and the set of counters. If either changes,
// Layout must be changed too. An index with a different layout is emptied.
const Layout = "colophon index, layout 15\n"
