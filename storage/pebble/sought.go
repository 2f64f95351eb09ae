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

// sought tells most digests that a ledger has neither a place nor a claim of, without
// looking: nearly all that are written are new, and each would be looked for in every
// table that may have it. It is safe for concurrent use.
//
// What the ledger had before is read by a goroutine that the first use starts. Until that
// is done, and when there is no memory for more, everything may be there.
type sought struct {
	fillers *fillers
	name    string
	number  keys.Ledger

	mu     sync.Mutex    // held briefly, for what follows
	filter *bloom.Filter // nil until the first use
	filled bool          // with all that the ledger had at the first use
}

// mayBeThere is false for a digest of which the ledger has neither a place nor a claim.
func (s *sought) mayBeThere(digest storage.Hash) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin()
	return !s.filled || s.filter.MayHave(bloom.Key(digest[:]))
}

// add adds a digest of which the ledger is about to have a place or a claim: before
// anybody can see that, or a goroutine that fills has passed over it.
func (s *sought) add(digest storage.Hash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin()
	s.filter.Add(bloom.Key(digest[:]))
}

// begin has the filter filled if that has not begun. What is written from now on is
// added to it. The caller holds s.mu.
func (s *sought) begin() {
	if s.filter == nil {
		s.filter = bloom.New(s.fillers.take)
		s.fillers.begin(s)
	}
}

// fill adds the places and claims that the ledger has, until ctx is done or there is no
// memory for more. After an error the filter is of no use, and gives its memory back.
func (s *sought) fill(ctx context.Context, db *engine.DB) error {
	for _, kind := range []func(keys.Ledger) (start, end []byte){keys.Places, keys.Claims} {
		start, end := kind(s.number)
		for start != nil {
			if ctx.Err() != nil || s.blind() {
				return nil
			}
			var err error
			if start, err = s.fillSome(db, start, end); err != nil {
				s.giveUp()
				return err
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filled = true
	return nil
}

func (s *sought) blind() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.filter.Blind()
}

func (s *sought) giveUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filter.Release()
}

// fillKeys bounds the keys that are read at a time: an open iterator keeps files.
const fillKeys = 1 << 14

// fillSome adds what some keys from start on say, and returns where to go on; nil if
// there are no more.
func (s *sought) fillSome(db *engine.DB, start, end []byte) (next []byte, err error) {
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
		if keys.Sought(it.Key()) {
			digests = append(digests, keys.Digest(it.Key()))
		}
	}
	if err := it.Close(); err != nil { // of reading, too
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range digests {
		s.filter.Add(bloom.Key(digests[i][:]))
	}
	return next, nil
}

// fillers fill the filters of a database's ledgers.
type fillers struct {
	db     *Database
	logger *slog.Logger
	cache  *engine.Cache // of the database, which has so much less of what filters take
	spare  atomic.Int64  // bytes that the filters may still take, first come, first served
	ctx    context.Context
	stop   context.CancelFunc // ends ctx
	under  sync.WaitGroup
}

func newFillers(db *Database, cache *engine.Cache, cfg Config) *fillers {
	f := &fillers{db: db, logger: cfg.Logger, cache: cache}
	f.spare.Store(cfg.filterBytes())
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f
}

func (f *fillers) newSought(name string, number keys.Ledger) *sought {
	return &sought{fillers: f, name: name, number: number}
}

// take implements bloom.Memory.
func (f *fillers) take(bytes int64) (release func(), ok bool) {
	give, ok := bloom.Within(&f.spare)(bytes)
	if !ok {
		return nil, false
	}
	reserved := f.cache.Reserve(int(bytes))
	return func() { reserved(); give() }, true
}

// begin fills a filter in the background. Whoever looks meanwhile looks in the database.
func (f *fillers) begin(s *sought) {
	f.under.Go(func() {
		if err := s.fill(f.ctx, f.db.engine); err != nil {
			f.logger.Warn("what a ledger has could not be read: until the next start all that is written is looked for first",
				"ledger", s.name, "error", err)
		}
	})
}

// end stops what is under way and waits for that. No filter is used any more.
func (f *fillers) end() {
	f.stop()
	f.under.Wait()
}
