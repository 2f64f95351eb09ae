// Package pebble stores ledgers in one Pebble database on a local disk. All ledgers share its
// write-ahead log, so commits to several ledgers share syncs.
package pebble

import (
	"errors"
	"log/slog"
	"os"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"colophon/internal/enginelog"
	"colophon/storage/pebble/internal/disk"
	"colophon/storage/pebble/internal/keys"
)

// Config specifies where a database is and which resources it may use.
type Config struct {
	// Dir is the folder of the database. Open creates it if it does not exist. It must not contain
	// any other files.
	Dir string
	// FS is the file system of Dir; nil means the operating system's.
	FS vfs.FS
	// Logger receives the messages of the database; nil means slog.Default.
	Logger *slog.Logger
	// Fatal is called after a failed write whose outcome is unknown, and must end the process
	// without returning, because Pebble itself would continue and acknowledge lost writes. nil
	// means that the error is logged and the process exits with status 1. In a test, Fatal may
	// panic or call runtime.Goexit; afterwards the database must neither be used nor closed.
	Fatal func(msg string)
	// ReadOnly makes Open open an existing database without changing any file except the lock file.
	// Every write then fails, and pending erasures stay pending. Opening the database does not need any
	// free space.
	ReadOnly bool
	// MinFreeBytes is the free-space threshold. Below it, CheckWritable returns ErrNoSpace, and
	// compactions wait unless they erase content. 0 means 5 % of the file system, but at least 32
	// MiB and at most 1 GiB.
	MinFreeBytes uint64
	// ReadOnlyWhenFull makes Open open the database read-only when there is too little space to
	// open it for writing (see Database.ForcedReadOnly). If it is false, Open returns ErrNoSpace
	// instead.
	ReadOnlyWhenFull bool
	// RemoveUnusedCopies removes those copies of the database that are no longer in use. It returns
	// an error if a copy must stay. Copies can contain erased content, so an erasure is reported as
	// pending until RemoveUnusedCopies returns nil. It is never called concurrently. nil means that
	// there are no copies.
	RemoveUnusedCopies func() error
	// CacheBytes is the size of the cache for uncompressed blocks. Digest filters can use up to
	// half of it. 0 means 64 MiB.
	CacheBytes int64
	// MemTableBytes is the size of each of the two memory tables. The engine flushes a full
	// table. 0 means 16 MiB, which is also the maximum.
	MemTableBytes int64
}

const defaultCacheBytes = 64 << 20

// newCache returns the block cache, with room for the memory tables, because the engine counts them
// as part of the cache.
func (c Config) newCache() *engine.Cache {
	return engine.NewCache(c.CacheBytes + memTables*c.MemTableBytes)
}

// filterBytes returns the maximum total memory of all digest filters. It is part of CacheBytes.
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
			logger.Error("storage failed; exiting", "reason", msg)
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
		return errors.New("the database folder (Config.Dir) must be set")
	}
	if c.CacheBytes < 0 {
		return errors.New("the cache size (Config.CacheBytes) must not be negative")
	}
	if c.MemTableBytes < 0 || c.MemTableBytes > memTableBytes {
		return errors.New("the size of the memory tables (Config.MemTableBytes) must be between 0 and 16 MiB")
	}
	return nil
}

// The write-ahead log keeps the contents of the memory tables until they are flushed. The smallest
// free-space threshold must therefore leave room for memTables × memTableBytes.
const (
	memTableBytes = 16 << 20
	memTables     = 2
)

// This declaration does not compile if disk.MinReserveBytes is smaller than all memory tables together.
const _ = uint(disk.MinReserveBytes - memTables*memTableBytes)

// openFiles limits the number of table files that are kept open. The number of files grows
// steadily: a flush of about 8,000 records adds two files of entries and two of contents, which are
// never merged.
const openFiles = 2048

// Values of at least minSeparateValue bytes are written to separate value files when a memory table
// is flushed, and stay there. Compactions rewrite only the references to them.
const (
	minSeparateValue = 128      // bytes; shorter values are stored with their keys
	flushBytes       = 16 << 20 // approximate maximum size of a flushed table and its values
	mergedBytes      = 4 << 20  // approximate maximum size of a compacted table
	baseBytes        = 64 << 20 // maximum size of the first level below level 0, including values
)

// Tables of level 0 can overlap. The engine merges them when there are compactAt/2 tables, and
// blocks writes when there are stopAt. The limits are high because it is cheapest to merge many
// tables at once. Lookups of new digests do not read these tables (see digestFilter).
const (
	compactAt = 64
	stopAt    = 128
)

// spanPolicy stores keys with separate values in their own tables, one set of tables per kind of
// key. New keys of these kinds are always greater than existing keys, so their tables move down the
// levels and are never merged.
func spanPolicy(start []byte) (policy engine.SpanPolicy, end []byte, err error) {
	separate, end := keys.HasSeparateValues(start)
	if !separate {
		policy.ValueStoragePolicy = engine.ValueStorageLowReadLatency
	}
	policy.DisableValueSeparationBySuffix = true // keys have no suffixes
	return policy, end, nil
}

// options returns the engine's options, apart from the file system. They are tuned for two cores
// and for data that is mostly appended. Entries and content arrive in key order. Locations and
// claims arrive in random order, are small, and hardly compress.
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
		// A read that encounters damage returns an error, and the process continues.
		DataCorruption: func(info engine.DataCorruptionInfo) {
			c.Logger.Error("storage is damaged", "file", info.Path, "reason", firstLine(info.Details))
		},
		WriteStallBegin: func(info engine.WriteStallBeginInfo) {
			c.Logger.Info("writes are stalled until a flush or a compaction finishes", "reason", info.Reason)
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
