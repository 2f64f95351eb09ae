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

// queuedTables is the number of full memtables that can wait to be written before a write
// blocks. A batch of about the size of a memtable counts as one.
const queuedTables = 2

// The engine merges level 0 when compactAt/2 of its tables overlap, and blocks writes when
// stopAt of them overlap. Each merge rewrites most of the index, because keys arrive in random order. So
// the more tables a merge takes, the less each record costs: with 24 tables instead of 8, 63 µs instead
// of 73 (make growth, from 100,000 to 1,000,000 records). Queries of 1,000,000 records are as fast.
const (
	compactAt = 48
	stopAt    = 96
)

// tableBytes is the approximate size of a table. Reads are random. Tables are large, so that
// the engine has few of them and can keep nearly all of them open.
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
		FS:       frames.CheckedFS{FS: c.FS},
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
		Logger:                      enginelog.New(c.Logger, "ledger/index: exit", c.fail),
	}
	var once sync.Once
	o.EventListener = &engine.EventListener{
		DataCorruption: func(info engine.DataCorruptionInfo) {
			once.Do(func() { onDamage(info.Details) })
		},
	}
	// By default, the engine would store the values of older versions separately. This must be
	// disabled, because the engine would mistake a row's version runs for versions of one
	// value.
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
	if c.DiscardExisting {
		// The engine must not rewrite tables merely because many of their keys were deleted,
		// since rankings delete many keys.
		o.Experimental.TombstoneDenseCompactionThreshold = -1
	}
	// Only the last level is compressed, because tables in other levels are soon rewritten. The
	// last level needs no filters, because the fold has its own filter.
	o.Levels[lastLevel].Compression = func() *blocks.CompressionProfile { return blocks.FastestCompression }
	o.Levels[lastLevel].FilterPolicy = engine.NoFilterPolicy
	return o
}

// markDamaged makes the next start of the process empty the index, unless the index is emptied
// earlier. Until then, only queries that read damaged data fail.
func (c *Config) markDamaged(damage error) {
	c.Logger.Error("the index is damaged", "dir", c.Dir, "error", damage)
	if err := c.folder().writeLayout(damagedLayout); err != nil {
		c.Logger.Error("cannot mark the index as damaged", "dir", c.Dir, "error", err)
	}
}

// fail exits the process after a failed write. If the engine continued, rows could be missing
// for events that the cursor covers.
func (c *Config) fail(msg string) {
	c.Logger.Error("cannot write the index; exiting", "reason", msg)
	c.Exit(1)
}
