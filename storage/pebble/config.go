// Package pebble keeps ledgers in one Pebble database on a local disk
// (specification 5.2). All ledgers share its write-ahead log, so commits of
// several ledgers share their syncs too.
package pebble

import (
	"errors"
	"log/slog"
	"os"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"colophon/internal/enginelog"
	"colophon/storage/pebble/internal/keys"
)

// Config says where the database is and what it may use.
type Config struct {
	// Dir is the folder of the database, made if absent. It belongs to the
	// database alone.
	Dir string
	// FS is the file system that Dir is on; nil means the operating system's.
	FS vfs.FS
	// Logger takes what the database reports; nil means slog.Default.
	Logger *slog.Logger
	// Fatal ends the process and must not return. It is called when a write has
	// failed in a way that leaves its outcome unknown: Pebble itself would go on
	// and acknowledge what is lost. nil means log and exit with status 1. In a
	// test it may panic or call runtime.Goexit; the database is lost then and
	// must neither be used nor closed.
	Fatal func(msg string)
	// ReadOnly opens a database that is there and leaves its files as they are, apart
	// from the lock: content that is still to be erased stays, and every write fails. It
	// needs no free space.
	ReadOnly bool
	// MinFreeBytes is the mark of free space below which Writable says
	// ErrNoSpace and compactions wait, but for those that erase content; 0 means
	// 5 % of the file system, at least 32 MiB, at most 1 GiB.
	MinFreeBytes uint64
	// ReadWhenFull has Open open a database for reading alone where there is too little
	// room to open it for writing; see Database.ReadOnly. Otherwise that is ErrNoSpace.
	ReadWhenFull bool
	// Copies removes the copies of the database that nobody needs any more; an error says
	// that one has to stay. Erased content counts as pending until it is nil, since it
	// may be in them. It is called by one goroutine; nil means that there are no copies.
	Copies func() error
	// CacheBytes is memory for uncompressed blocks, and up to a half of it for filters
	// of what is there; 0 means 64 MiB.
	CacheBytes int64
	// MemTableBytes is the size of each of two memory tables: what they hold is
	// written out when one is full. 0 means 16 MiB, which is also the most.
	MemTableBytes int64
}

const defaultCacheBytes = 64 << 20

// newCache makes the cache of blocks, out of which the engine takes the memory tables.
func (c Config) newCache() *engine.Cache {
	return engine.NewCache(c.CacheBytes + memTables*c.MemTableBytes)
}

// filterBytes is the share of the cache that filters of what is there may take.
func (c Config) filterBytes() int64 { return c.CacheBytes / 2 }

func (c Config) withDefaults() Config {
	if c.FS == nil {
		c.FS = vfs.Default
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Fatal == nil {
		logger := c.Logger
		c.Fatal = func(msg string) {
			logger.Error("storage failed, the process ends", "reason", msg)
			os.Exit(1)
		}
	}
	if c.CacheBytes == 0 {
		c.CacheBytes = defaultCacheBytes
	}
	if c.MemTableBytes == 0 {
		c.MemTableBytes = memTableBytes
	}
	return c
}

func (c Config) validate() error {
	if c.Dir == "" {
		return errors.New("no folder given for the database")
	}
	if c.CacheBytes < 0 {
		return errors.New("cache size is negative")
	}
	if c.MemTableBytes < 0 || c.MemTableBytes > memTableBytes {
		return errors.New("size of memory tables is out of range")
	}
	return nil
}

// Memory tables, of that size at most. What they hold is in the write-ahead log and
// still has to be written as tables: memTables × memTableBytes is what the
// free-space mark must have room for.
const (
	memTableBytes = 16 << 20
	memTables     = 2
)

// openFiles bounds the files that are kept open to be read. A flush leaves two of
// entries and two of contents, for some 8,000 records, which are never merged.
const openFiles = 2048

// Files. Values that are kept apart go into files of their own when a memory table
// is written out, and stay there: merging tables moves only where they are to be
// found.
const (
	leastApart  = 128      // bytes; shorter values stay with their keys
	flushBytes  = 16 << 20 // about the most in a new table and the values of its keys
	mergedBytes = 4 << 20  // about the most in a table that comes of merging
	baseBytes   = 64 << 20 // in the first level below level 0, their values included
)

// Level 0, in tables that lie over one another: from compactAt/2 on they are merged, and
// at stopAt writes wait. Merging many at once costs least, and what is new is not looked
// for in them (see digestFilter).
const (
	compactAt = 64
	stopAt    = 128
)

// spanPolicy gives each kind of key whose values are apart tables of its own: its
// keys only grow, so these tables are moved down the levels, never merged.
func spanPolicy(start []byte) (policy engine.SpanPolicy, end []byte, err error) {
	apart, end := keys.Apart(start)
	if !apart {
		policy.ValueStoragePolicy = engine.ValueStorageLowReadLatency
	}
	policy.DisableValueSeparationBySuffix = true // keys have no suffixes
	return policy, end, nil
}

// options, all but the file system, for two cores and for data that is mostly
// appended. Entries and content arrive in the order of their keys; places and
// claims arrive in random order, are small and hardly compress.
func (c Config) options() *engine.Options {
	o := &engine.Options{
		MaxOpenFiles:                openFiles,
		MemTableSize:                uint64(c.MemTableBytes),
		MemTableStopWritesThreshold: memTables,
		L0CompactionThreshold:       compactAt,
		L0StopWritesThreshold:       stopAt,
		LBaseMaxBytes:               baseBytes,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		WALBytesPerSync:             1 << 20,
		Logger:                      enginelog.New(c.Logger, "storage/pebble: Config.Fatal", c.Fatal),
	}
	o.EventListener = &engine.EventListener{
		// Damage is the answer of the read that met it, not the end of the process.
		DataCorruption: func(info engine.DataCorruptionInfo) {
			c.Logger.Error("storage is damaged", "file", info.Path, "reason", firstLine(info.Details))
		},
		WriteStallBegin: func(info engine.WriteStallBeginInfo) {
			c.Logger.Info("writes wait for tables to be written", "reason", info.Reason)
		},
	}
	o.Experimental.L0CompactionConcurrency = 8
	o.Experimental.SpanPolicyFunc = spanPolicy
	o.TargetFileSizes[0] = flushBytes
	for i := range o.TargetFileSizes[1:] {
		o.TargetFileSizes[1+i] = mergedBytes
	}
	o.ApplyCompressionSettings(func() engine.DBCompressionSettings { return engine.DBCompressionFastest })
	for i := range o.Levels {
		o.Levels[i].BlockSize = 8 << 10
		o.Levels[i].IndexBlockSize = 256 << 10
		o.Levels[i].FilterPolicy = filterPolicy{filterBits}
	}
	o.Levels[len(o.Levels)-1].FilterPolicy = filterPolicy{lastFilterBits}
	return o
}
