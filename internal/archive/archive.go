// Package archive reads archived entries from a published copy of the log. A store does not contain its
// archived entries anymore; see storage.Archiver.
//
// The copy is not trusted. The root hash of each bundle or level-0 tile must equal the corresponding hash in
// the store's own level-1 tile, which is never archived. If an object is missing or has a different root,
// the error names the object and wraps storage.ErrDamaged.
package archive

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"colophon/internal/publish/bucket"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/storage"
)

// Options configures a Database. Zero values select the defaults.
type Options struct {
	// Bucket contains the published copy of the logs. If it is nil, each ledger's copy is read from
	// the location that its store recorded.
	Bucket bucket.Bucket
	// RequestTimeout is the time limit for each request to the bucket. The default is 30 seconds.
	RequestTimeout time.Duration
	// Patience is how long an impatient read waits for the bucket. The default is 2 seconds.
	Patience time.Duration
	// CacheBytes is the maximum size of the object cache in bytes. The default is 64 MiB.
	CacheBytes int
}

const (
	defaultTimeout = 30 * time.Second
	defaultCache   = 64 << 20
	// defaultPatience is how long an impatient read waits for the bucket (see storage.Impatient). If the
	// bucket takes longer, impatient reads fail at once for the time slowPause, or until it responds.
	defaultPatience = 2 * time.Second
	slowPause       = 5 * time.Second

	parallel = 8 // maximum number of concurrent fetches
	ahead    = 4 // number of bundles that Entries prefetches
)

// Database wraps another database and gives access to its archived entries. It reads them, and the
// archived tiles, from a bucket.
type Database struct {
	storage.Database
	options Options
	ctx     context.Context // context for requests to the bucket; canceled by Close
	cancel  context.CancelFunc
	running sync.WaitGroup

	cache   *audit.ContentCache // verified objects, keyed by the SHA-256 of their names
	flights singleflight.Group
	slots   chan struct{}

	slowUntil atomic.Int64 // impatient reads fail until then, in Unix nanoseconds

	mu      sync.Mutex // guards buckets
	buckets map[string]bucket.Bucket

	hits, fetches, failures atomic.Uint64
}

var _ storage.KeyChecker = (*Database)(nil)

// errUnavailable means that the bucket does not respond. A later read may succeed.
var errUnavailable = fmt.Errorf("%w: %w", audit.ErrUnavailable, storage.ErrUnavailable)

// Wrap returns a Database that wraps another one. Closing it also closes the wrapped database.
func Wrap(under storage.Database, o Options) *Database {
	o.RequestTimeout = cmp.Or(o.RequestTimeout, defaultTimeout)
	o.Patience = cmp.Or(o.Patience, defaultPatience)
	o.CacheBytes = cmp.Or(o.CacheBytes, defaultCache)
	d := &Database{Database: under, options: o, cache: audit.NewContentCache(o.CacheBytes), slots: make(chan struct{}, parallel), buckets: make(map[string]bucket.Bucket)}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// Ledger implements storage.Database.
func (d *Database) Ledger(ctx context.Context, name string) (storage.Store, error) {
	under, err := d.Database.Ledger(ctx, name)
	return d.wrap(name, under, err)
}

// CreateLedger implements storage.Database.
func (d *Database) CreateLedger(ctx context.Context, info storage.LedgerInfo) (storage.Store, error) {
	under, err := d.Database.CreateLedger(ctx, info)
	return d.wrap(info.Name, under, err)
}

func (d *Database) wrap(name string, under storage.Store, err error) (storage.Store, error) {
	if err != nil {
		return nil, err
	}
	s := &store{Store: under, database: d, name: name}
	if held, is := under.(storage.LeasedStore); is {
		return leased{s, held}, nil
	}
	return s, nil
}

// CheckKeys implements storage.KeyChecker.
func (d *Database) CheckKeys(ctx context.Context, logs map[string]storage.LogSummary, progress func(keys uint64)) ([]*storage.StrayKeyError, error) {
	checker, can := d.Database.(storage.KeyChecker)
	if !can {
		return nil, errors.New("the database does not support listing its keys")
	}
	return checker.CheckKeys(ctx, logs, progress)
}

// Close implements storage.Database. It cancels the requests to the bucket.
func (d *Database) Close() error {
	d.cancel()
	d.running.Wait()
	return d.Database.Close()
}

// bucket returns the bucket given in the options. If the options contain no bucket, it returns the one at
// the URL place, which it opens only once.
func (d *Database) bucket(place string) (bucket.Bucket, error) {
	if d.options.Bucket != nil {
		return d.options.Bucket, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if b, open := d.buckets[place]; open {
		return b, nil
	}
	b, err := bucket.Open(place)
	if err != nil {
		return nil, fmt.Errorf("opening the archive at %s: %w", place, err)
	}
	d.buckets[place] = b
	return b, nil
}

// object returns a verified bundle or level-0 tile, from the cache if possible. The caller must not change it.
func (s *store) object(ctx context.Context, a storage.ArchivedRange, path proofs.TilePath) ([]byte, error) {
	d, name := s.database, bucket.LogObjectName(s.name, path.String())
	key := sha256.Sum256([]byte(name))
	if body, cached := d.cache.Get(key); cached {
		d.hits.Add(1)
		return body, nil
	}
	var late <-chan time.Time
	if storage.IsImpatient(ctx) {
		if time.Now().UnixNano() < d.slowUntil.Load() {
			return nil, fmt.Errorf("reading %s from the archive: %w: the bucket is slow; try again later", name, errUnavailable)
		}
		timer := time.NewTimer(d.options.Patience)
		defer timer.Stop()
		late = timer.C
	}
	fetched := d.flights.DoChan(name, func() (any, error) {
		body, err := s.fetch(a, name, path)
		if err != nil {
			d.failures.Add(1)
			return nil, err
		}
		d.fetches.Add(1)
		d.slowUntil.Store(0)
		d.cache.Put(key, body)
		return body, nil
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-late:
		d.slowUntil.Store(time.Now().Add(slowPause).UnixNano())
		return nil, fmt.Errorf("reading %s from the archive: %w: the bucket has not responded for %v; try again later", name, errUnavailable, d.options.Patience)
	case result := <-fetched:
		body, _ := result.Val.([]byte)
		return body, result.Err
	}
}

// fetch reads an object from the bucket and verifies it. It continues even if the caller that started it
// gives up, because other callers may be waiting for the same object.
func (s *store) fetch(a storage.ArchivedRange, name string, path proofs.TilePath) ([]byte, error) {
	d := s.database
	ctx, cancel := context.WithTimeout(d.ctx, d.options.RequestTimeout)
	defer cancel()
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		return nil, fmt.Errorf("reading %s from the archive: %w", name, ctx.Err())
	}
	b, err := d.bucket(a.URL)
	if err != nil {
		return nil, err
	}
	body, _, err := b.Get(ctx, name, bucket.MaxObjectBytes)
	switch {
	case errors.Is(err, bucket.ErrNotFound), errors.Is(err, bucket.ErrTooLarge):
		return nil, fmt.Errorf("%w: %s in the archive is missing or too long: %w; restore the object from a copy of the bucket", storage.ErrDamaged, name, err)
	case err != nil:
		return nil, fmt.Errorf("reading %s from the archive: %w: %w", name, errUnavailable, err)
	}
	root, err := rootOf(path, body)
	if err != nil {
		return nil, fmt.Errorf("%w: %s in the archive is malformed: %w; restore the object from a copy of the bucket", storage.ErrDamaged, name, err)
	}
	above, err := s.Store.Tile(ctx, 1, path.Index/proofs.FullTileWidth)
	if err != nil {
		return nil, fmt.Errorf("verifying %s: %w", name, err)
	}
	at := int(path.Index%proofs.FullTileWidth) * proofs.HashSize
	if len(above) < at+proofs.HashSize || root != proofs.Hash(above[at:at+proofs.HashSize]) {
		return nil, fmt.Errorf("%w: %s in the archive does not match the tree; restore the object from a copy of the bucket", storage.ErrDamaged, name)
	}
	return body, nil
}

// rootOf returns the root hash of the 256 leaves in an object, which is a level-0 tile of leaf hashes or a
// bundle of entries. It returns an error if the object is malformed or does not have 256 leaves.
func rootOf(path proofs.TilePath, body []byte) (proofs.Hash, error) {
	tree, err := proofs.OpenTree(0, nil, nil)
	if err != nil {
		return proofs.Hash{}, err
	}
	if !path.IsEntryBundle {
		if len(body) != proofs.FullTileWidth*proofs.HashSize {
			return proofs.Hash{}, fmt.Errorf("the tile has %d bytes, but must have 8192", len(body))
		}
		for leaf := range slices.Chunk(body, proofs.HashSize) {
			tree.Append(proofs.Hash(leaf))
		}
		return tree.Root(), nil
	}
	entries, err := proofs.ParseBundle(body)
	if err != nil {
		return proofs.Hash{}, err
	}
	if len(entries) != proofs.FullTileWidth {
		return proofs.Hash{}, fmt.Errorf("the entry bundle has only %d entries, but must have 256", len(entries))
	}
	for _, entry := range entries {
		tree.Append(proofs.LeafHash(entry))
	}
	return tree.Root(), nil
}
