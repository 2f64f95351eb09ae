package rowstore

import (
	"sync"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	blocks "github.com/cockroachdb/pebble/v2/sstable/block"

	"colophon/internal/enginelog"
	"colophon/internal/frames"
)

// engineFormat is the version of the engine's own file formats, fixed here so
// that a newer library does not change the files unasked.
const engineFormat = engine.FormatValueSeparation

// queuedTables is how many memtables, or batches of about their size, wait to be
// written before the next batch does.
const queuedTables = 2

// Level 0, in tables that lie over one another: from compactAt/2 on they are merged, and
// at stopAt writes wait. Merging many at once costs least, and an index that is rebuilt
// is hardly read meanwhile.
const (
	compactAt        = 16
	rebuildCompactAt = 64
	stopAt           = 64
)

// tableBytes is about the size of a table. Rows are read at random: in few and large
// tables each read finds its table open.
const tableBytes = 64 << 20

// oneLevelBytes: what is merged goes to the last level at once, without one in between,
// while that has no more bytes.
const oneLevelBytes = 512 << 20

// lastLevel is where most of an index is.
const lastLevel = 6

// engineOptions are for small keys that arrive in random order and are mostly
// read one at a time. found is told of damage, once.
func (c *Config) engineOptions(found func(damage error)) *engine.Options {
	o := &engine.Options{
		FS:       frames.Files{FS: c.Files},
		Comparer: c.Schema.comparer(),
		// After a crash what was not flushed is folded again.
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
	// A version run is not an older version of the one after it.
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
		// Nor is anything rewritten for keys that were removed: rankings have many.
		o.Experimental.TombstoneDenseCompactionThreshold = -1
	}
	// What is rewritten on its way down is compressed in the end. Filters of the last
	// level would not be used: the fold has its own.
	o.Levels[lastLevel].Compression = func() *blocks.CompressionProfile { return blocks.FastestCompression }
	o.Levels[lastLevel].FilterPolicy = engine.NoFilterPolicy
	return o
}

// spoil has a damaged index emptied at the next start, should it not be emptied before.
// Until then queries that meet the damage fail, and all others are answered.
func (c *Config) markDamaged(damage error) {
	c.Log.Error("the index is damaged", "dir", c.Dir, "error", damage)
	if err := c.folder().writeLayout(damagedLayout); err != nil {
		c.Log.Error("marking the damaged index", "dir", c.Dir, "error", err)
	}
}

// fail ends the process: a write has failed, and the engine would go on and leave
// a gap that no cursor shows. (Of its write-ahead log it panics by itself.)
func (c *Config) fail(msg string) {
	c.Log.Error("the index's storage failed, the process ends", "reason", msg)
	c.Exit(1)
}
