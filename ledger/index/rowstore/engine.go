package rowstore

import (
	"sync"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	blocks "github.com/cockroachdb/pebble/v2/sstable/block"

	"colophon/internal/enginelog"
	"colophon/internal/frames"
)

// engineFormat is the version of the engine's file formats. It is fixed, so that a newer
// library does not convert existing files.
const engineFormat = engine.FormatValueSeparation

// queuedTables is the number of full memtables, or of batches of about that size, that can
// wait to be written before a write blocks.
const queuedTables = 2

// Level 0 is merged when compactAt/2 of its tables overlap. When stopAt of them overlap,
// writes block. Merging many tables at once costs least, so an index that is being rebuilt,
// which has few readers, merges later.
const (
	compactAt        = 16
	rebuildCompactAt = 64
	stopAt           = 64
)

// tableBytes is the approximate size of a table. Reads are random, and with few large tables
// nearly every read finds its table open.
const tableBytes = 64 << 20

// oneLevelBytes is the size of an index below which merged tables go directly to the last
// level.
const oneLevelBytes = 512 << 20

// lastLevel is the engine's last level, which holds most of an index.
const lastLevel = 6

// engineOptions returns options for small keys that arrive in random order and are usually read one
// at a time. The engine calls onDamage at most once, when it finds damage.
func (c *Config) engineOptions(onDamage func(damage error)) *engine.Options {
	o := &engine.Options{
		FS:       frames.CheckedFS{FS: c.Files},
		Comparer: c.Schema.comparer(),
		// Events whose rows are lost in a crash are folded again from the log.
		DisableWAL:                  true,
		FormatMajorVersion:          engineFormat,
		CacheSize:                   int64(c.CacheBytes),
		MemTableSize:                uint64(c.MemTableBytes),
		MemTableStopWritesThreshold: queuedTables,
		MaxOpenFiles:                512,
		L0CompactionThreshold:       compactAt,
		L0StopWritesThreshold:       stopAt,
		LBaseMaxBytes:               oneLevelBytes,
		Logger:                      enginelog.New(c.Log, "ledger/index: exit", c.fail),
	}
	var once sync.Once
	o.EventListener = &engine.EventListener{
		DataCorruption: func(info engine.DataCorruptionInfo) {
			once.Do(func() { onDamage(info.Details) })
		},
	}
	// By default, the engine would store the values of older versions separately. It would
	// mistake the version runs of a row for versions of one another.
	o.Experimental.SpanPolicyFunc = func([]byte) (engine.SpanPolicy, []byte, error) {
		return engine.SpanPolicy{DisableValueSeparationBySuffix: true}, nil, nil
	}
	for i := range o.TargetFileSizes {
		o.TargetFileSizes[i] = tableBytes
	}
	for i := range o.Levels {
		o.Levels[i].Compression = func() *blocks.CompressionProfile { return blocks.NoCompression }
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	if c.Rebuild {
		o.L0CompactionThreshold = rebuildCompactAt
		// The engine must not rewrite tables merely because many of their keys were deleted,
		// since rankings delete many keys.
		o.Experimental.TombstoneDenseCompactionThreshold = -1
	}
	// Only the last level is compressed, because other levels are soon rewritten. Filters of
	// the last level would be useless, because the fold has its own.
	o.Levels[lastLevel].Compression = func() *blocks.CompressionProfile { return blocks.FastestCompression }
	o.Levels[lastLevel].FilterPolicy = engine.NoFilterPolicy
	return o
}

// markDamaged makes the next start empty the index, unless the index is emptied earlier. Until
// then, only queries that reach the damage fail.
func (c *Config) markDamaged(damage error) {
	c.Log.Error("the index is damaged", "dir", c.Dir, "error", damage)
	if err := c.folder().writeLayout(damagedLayout); err != nil {
		c.Log.Error("cannot mark the index as damaged", "dir", c.Dir, "error", err)
	}
}

// fail exits the process after a failed write. If the engine continued, the index would have a
// gap that no cursor shows.
func (c *Config) fail(msg string) {
	c.Log.Error("cannot write the index; exiting", "reason", msg)
	c.Exit(1)
}
