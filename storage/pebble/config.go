// Package pebble keeps ledgers in one Pebble database on a local disk
// (specification 5.2). All ledgers share its write-ahead log, so commits of
// several ledgers share their syncs too.
package pebble

import (
	"errors"
	"log/slog"
	"os"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"colophon/internal/enginelog"
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
	// MinFreeBytes is the mark of free space below which Writable says
	// ErrNoSpace and compactions wait, but for those that erase content; 0 means
	// 5 % of the file system, at least 32 MiB, at most 1 GiB.
	MinFreeBytes uint64
	// CacheBytes is memory for uncompressed blocks; 0 means 64 MiB.
	CacheBytes int64
}

const defaultCacheBytes = 64 << 20

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
	return c
}

func (c Config) validate() error {
	if c.Dir == "" {
		return errors.New("no folder given for the database")
	}
	if c.CacheBytes < 0 {
		return errors.New("cache size is negative")
	}
	return nil
}

// Memory tables. What they hold is in the write-ahead log and still has to be
// written as tables: memTables × memTableBytes is what the free-space mark must
// have room for.
const (
	memTableBytes = 16 << 20
	memTables     = 2
)

// options, all but the file system, for two cores and for data that is mostly appended: entries and
// content arrive in key order and are moved down the levels rather than
// rewritten; places and claims arrive in random order and are small.
func (c Config) options() *engine.Options {
	o := &engine.Options{
		CacheSize:                   c.CacheBytes,
		MaxOpenFiles:                512,
		MemTableSize:                memTableBytes,
		MemTableStopWritesThreshold: memTables,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       24,
		LBaseMaxBytes:               64 << 20,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		WALBytesPerSync:             1 << 20,
		Logger:                      enginelog.New(c.Logger, "storage/pebble: Config.Fatal", c.Fatal),
	}
	o.EventListener = &engine.EventListener{
		// Damage is the answer of the read that met it, not the end of the process.
		DataCorruption: func(info engine.DataCorruptionInfo) {
			c.Logger.Error("storage is damaged", "detail", info.String())
		},
	}
	o.Experimental.L0CompactionConcurrency = 8
	o.TargetFileSizes[0] = 4 << 20
	// zstd pays in the last level, where most of the data ends; above it only
	// what costs next to nothing.
	o.ApplyCompressionSettings(func() engine.DBCompressionSettings { return engine.DBCompressionBalanced })
	for i := range o.Levels {
		o.Levels[i].BlockSize = 8 << 10
		o.Levels[i].IndexBlockSize = 256 << 10
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return o
}
