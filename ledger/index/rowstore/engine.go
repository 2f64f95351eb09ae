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
// library does not convert the files.
const engineFormat = engine.FormatValueSeparation

// queuedTables is how many full memtables, or batches of about that size, may wait to be
// written before a write blocks.
const queuedTables = 2

// Level 0 is merged when compactAt/2 of its tables overlap; when stopAt do, writes block.
// Merging many at once costs least. While an index is rebuilt it has few readers, so it merges
// later.
const (
	compactAt        = 16
	rebuildCompactAt = 64
	stopAt           = 64
)

// tableBytes is about the size of a table. Reads are random; with few large tables nearly
// every read finds its table open.
const tableBytes = 64 << 20

// oneLevelBytes: below this size, merged tables go directly to the last level.
const oneLevelBytes = 512 << 20

// lastLevel holds most of an index.
const lastLevel = 6

// engineOptions returns options for small keys that arrive in random order and are mostly read
// one at a time. found is called once at most, when the engine finds damage.
func (c *Config) engineOptions(found func(damage error)) *engine.Options {
	o := &engine.Options{
		FS:       frames.Files{FS: c.Files},
		Comparer: c.Schema.comparer(),
		// What a crash loses is folded again from the log.
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
			once.Do(func() { found(info.Details) })
		},
	}
	// The engine would store the values of older versions apart. The version runs of a row are
	// not versions of one another.
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
		// Nor does it rewrite tables because many keys were deleted: rankings delete many.
		o.Experimental.TombstoneDenseCompactionThreshold = -1
	}
	// Only the last level is compressed; other levels are rewritten soon. Filters of the last
	// level would be of no use, because the fold has its own.
	o.Levels[lastLevel].Compression = func() *blocks.CompressionProfile { return blocks.FastestCompression }
	o.Levels[lastLevel].FilterPolicy = engine.NoFilterPolicy
	return o
}

// markDamaged makes the next start empty the index, if it is not emptied before. Until then
// queries that meet the damage fail; all others are answered.
func (c *Config) markDamaged(damage error) {
	c.Log.Error("the index is damaged", "dir", c.Dir, "error", damage)
	if err := c.folder().writeLayout(damagedLayout); err != nil {
		c.Log.Error("marking the damaged index", "dir", c.Dir, "error", err)
	}
}

// fail ends the process after a failed write. Otherwise the engine would continue and leave a
// gap that no cursor shows.
func (c *Config) fail(msg string) {
	c.Log.Error("writing the index failed; ending the process", "reason", msg)
	c.Exit(1)
}
