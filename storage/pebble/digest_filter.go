package pebble

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	engine "github.com/cockroachdb/pebble/v2"

	"colophon/internal/bloom"
	"colophon/storage"
	"colophon/storage/pebble/internal/keys"
)

// digestFilter avoids most lookups of digests for which the ledger has neither a location nor a
// claim. Nearly all digests that are written are new, and each lookup would search every table that
// could contain the key (BenchmarkCommit). It is safe for concurrent use.
//
// The first use starts a goroutine that reads the digests that the ledger already has. Until the
// goroutine is done, mayContain always returns true. It also always returns true if memory runs
// out.
type digestFilter struct {
	fillers *fillers
	name    string
	number  keys.LedgerNumber

	mu     sync.Mutex    // guards the fields below; held briefly
	filter *bloom.Filter // nil until the first use
	filled bool          // whether the filter contains all digests that the ledger had at the first use
}

// mayContain returns false only if the ledger has neither a location nor a claim for the digest.
func (f *digestFilter) mayContain(digest storage.Hash) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begin()
	return !f.filled || f.filter.MayContain(bloom.Key(digest[:]))
}

// add adds the digest of a key that is about to be written. The caller must call add before readers
// can see the key, because the goroutine that fills the filter might miss the key.
func (f *digestFilter) add(digest storage.Hash) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begin()
	f.filter.Add(bloom.Key(digest[:]))
}

// begin creates the filter and starts to fill it, on the first call only. The caller must hold
// f.mu.
func (f *digestFilter) begin() {
	if f.filter == nil {
		f.filter = bloom.New(f.fillers.take)
		f.fillers.begin(f)
	}
}

// fill adds the digests of all locations and claims of the ledger. It stops without an error if ctx
// is done or memory runs out. If a read fails, it releases the filter, and mayContain then always
// returns true.
func (f *digestFilter) fill(ctx context.Context, db *engine.DB) error {
	for _, kind := range []func(keys.LedgerNumber) (start, end []byte){keys.LocationAndReferenceRange, keys.ClaimRange} {
		start, end := kind(f.number)
		for start != nil {
			if ctx.Err() != nil || f.blind() {
				return nil
			}
			var err error
			if start, err = f.fillSome(db, start, end); err != nil {
				f.giveUp()
				return err
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.filled = true
	return nil
}

func (f *digestFilter) blind() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.filter.MatchesAll()
}

func (f *digestFilter) giveUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.filter.Release()
}

// fillKeys is the maximum number of keys that one iterator reads. An iterator must not stay open
// for long, because it keeps obsolete files from being deleted.
const fillKeys = 1 << 14

// fillSome adds the digests of the first fillKeys keys at or after start. It returns the key at
// which to continue, or nil if it has reached end.
func (f *digestFilter) fillSome(db *engine.DB, start, end []byte) (next []byte, err error) {
	it, err := db.NewIter(&engine.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return nil, err
	}
	var digests []storage.Hash
	left := fillKeys
	for ok := it.First(); ok; ok = it.Next() {
		if left--; left < 0 {
			next = append([]byte{}, it.Key()...)
			break
		}
		if keys.HasDigest(it.Key()) {
			digests = append(digests, keys.Digest(it.Key()))
		}
	}
	if err := it.Close(); err != nil { // also reports read errors
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range digests {
		f.filter.Add(bloom.Key(digests[i][:]))
	}
	return next, nil
}

// fillers fills the digest filters of a database's ledgers in the background.
type fillers struct {
	db      *Database
	logger  *slog.Logger
	cache   *engine.Cache // filters reserve memory in it, so that blocks and filters together stay within its size
	spare   atomic.Int64  // number of bytes that filters can still reserve, on a first come, first served basis
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
}

func newFillers(db *Database, cache *engine.Cache, cfg Config) *fillers {
	f := &fillers{db: db, logger: cfg.Logger, cache: cache}
	f.spare.Store(cfg.filterBytes())
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f
}

func (f *fillers) newDigestFilter(name string, number keys.LedgerNumber) *digestFilter {
	return &digestFilter{fillers: f, name: name, number: number}
}

// take is a bloom.ReserveFunc that reserves memory in f.spare and in the engine's cache.
func (f *fillers) take(bytes int64) (release func(), ok bool) {
	give, ok := bloom.SharedReserveFunc(&f.spare)(bytes)
	if !ok {
		return nil, false
	}
	reserved := f.cache.Reserve(int(bytes))
	return func() { reserved(); give() }, true
}

// begin fills a filter in the background. Until the filter is filled, lookups read the database.
func (f *fillers) begin(filter *digestFilter) {
	f.running.Go(func() {
		if err := filter.fill(f.ctx, f.db.engine); err != nil {
			f.logger.Warn("cannot load the ledger's digests; until the next restart, writes to the ledger will be slower, because every digest must be looked up in the database",
				"ledger", filter.name, "error", err)
		}
	})
}

// end stops the goroutines that fill filters and waits for them. No filter may be used afterwards.
func (f *fillers) end() {
	f.stop()
	f.running.Wait()
}
