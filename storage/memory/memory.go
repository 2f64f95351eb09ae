// Package memory implements the whole storage contract in memory, for tests.
package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"colophon/storage"
)

// Database stores ledgers in memory. It implements storage.Database.
type Database struct {
	mu      sync.Mutex
	ledgers map[string]*ledger // guarded by mu
}

var _ storage.Database = (*Database)(nil)

// New returns a database without ledgers.
func New() *Database {
	return &Database{ledgers: make(map[string]*ledger)}
}

// Ledgers implements storage.Database.
func (d *Database) Ledgers(ctx context.Context) ([]storage.LedgerInfo, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("listing ledgers: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var infos []storage.LedgerInfo
	for _, name := range slices.Sorted(maps.Keys(d.ledgers)) {
		infos = append(infos, d.ledgers[name].describe())
	}
	return infos, nil
}

// Ledger implements storage.Database.
func (d *Database) Ledger(ctx context.Context, name string) (storage.Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("opening ledger %q: %w", name, err)
	}
	l, err := d.ledger(name)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (d *Database) ledger(name string) (*ledger, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l, ok := d.ledgers[name]; ok {
		return l, nil
	}
	return nil, fmt.Errorf("opening ledger %q: %w", name, storage.ErrNotFound)
}

// CreateLedger implements storage.Database.
func (d *Database) CreateLedger(ctx context.Context, info storage.LedgerInfo) (storage.Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("creating ledger %q: %w", info.Name, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, taken := d.ledgers[info.Name]; taken {
		return nil, fmt.Errorf("creating ledger %q: %w: a ledger with this name already exists", info.Name, storage.ErrConflict)
	}
	info.Created = info.Created.UTC()
	l := &ledger{
		name:       info.Name,
		info:       info,
		entries:    make(map[uint64][]byte),
		tiles:      make(map[tileKey][]byte),
		contents:   make(map[storage.Hash]*content),
		redactions: make(map[uint64]uint64),
		keys:       make(map[storage.Hash]storage.Claim),
		settings:   make(map[string][]byte),
	}
	d.ledgers[info.Name] = l
	return l, nil
}

// Close implements storage.Database. The ledgers stay in memory, so that a test can continue to use
// the database as if it had been reopened.
func (d *Database) Close() error { return nil }

type tileKey struct {
	level uint8
	index uint64
}

// ledger implements storage.Store. It never changes stored bytes in place.
type ledger struct {
	name string

	mu         sync.RWMutex // guards the fields below
	info       storage.LedgerInfo
	head       storage.Head
	entries    map[uint64][]byte
	tiles      map[tileKey][]byte
	contents   map[storage.Hash]*content
	redactions map[uint64]uint64 // maps the seq of a record to the seq of the event that redacted it
	keys       map[storage.Hash]storage.Claim
	settings   map[string][]byte
}

// content is a piece of content that at least one record needs.
type content struct {
	bytes      []byte
	references []uint64 // seqs of the records that need the content, ascending and without duplicates
}

var _ storage.Archiver = (*ledger)(nil)

func (l *ledger) describe() storage.LedgerInfo {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.info
}

// Info implements storage.Store.
func (l *ledger) Info(ctx context.Context) (storage.LedgerInfo, error) {
	if err := ctx.Err(); err != nil {
		return storage.LedgerInfo{}, fmt.Errorf("reading the description of ledger %q: %w", l.name, err)
	}
	return l.describe(), nil
}

// Commit implements storage.Store. If it returns an error, nothing was written.
func (l *ledger) Commit(ctx context.Context, old storage.Head, b storage.Batch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.accepts(ctx, old, b); err != nil {
		return fmt.Errorf("committing to ledger %q: %w", l.name, err)
	}
	for i, e := range b.Entries {
		l.entries[old.Size+uint64(i)] = clone(e)
	}
	for _, t := range b.Tiles {
		l.tiles[tileKey{t.Level, t.Index}] = clone(t.Hashes)
	}
	redacted := make(map[uint64]bool, len(b.Redactions))
	for _, r := range b.Redactions {
		if !redacted[r.Seq] {
			redacted[r.Seq] = true
			l.redact(r)
		}
	}
	for i := range b.Contents {
		l.keep(&b.Contents[i])
	}
	for _, k := range b.Claims {
		l.keys[k.KeyDigest] = k
	}
	l.head = copyHead(b.Head)
	return nil
}

// redact stores a redaction and deletes the record's references to content. It does nothing if the
// record is already redacted. It ignores an earlier redaction by an event at or beyond the head,
// because no commit wrote that redaction. The caller must hold l.mu.
func (l *ledger) redact(r storage.Redaction) {
	if by, already := l.redactions[r.Seq]; already && by < l.head.Size {
		return
	}
	l.redactions[r.Seq] = r.RedactingSeq
	for _, digest := range r.Digests {
		held, ok := l.contents[digest]
		if !ok {
			continue
		}
		if i, needed := slices.BinarySearch(held.references, r.Seq); needed {
			held.references = slices.Delete(held.references, i, i+1)
		}
		if len(held.references) == 0 {
			delete(l.contents, digest)
		}
	}
}

// keep stores a piece of content, or adds a reference if the ledger already has the content. The
// caller must hold l.mu.
func (l *ledger) keep(c *storage.Content) {
	held, ok := l.contents[c.Digest]
	if !ok {
		held = &content{bytes: clone(c.Bytes)}
		l.contents[c.Digest] = held
	}
	if i, needed := slices.BinarySearch(held.references, c.Seq); !needed {
		held.references = slices.Insert(held.references, i, c.Seq)
	}
}

// accepts returns an error unless b can be committed on top of old. The caller must hold l.mu.
func (l *ledger) accepts(ctx context.Context, old storage.Head, b storage.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if l.info.Frozen {
		return storage.ErrFrozen
	}
	if l.head.Size != old.Size || l.head.Tip != old.Tip {
		return fmt.Errorf("%w: the head has size %d, but the commit builds on size %d",
			storage.ErrConflict, l.head.Size, old.Size)
	}
	return b.Check(old)
}

// Freeze implements storage.Store.
func (l *ledger) Freeze(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("freezing ledger %q: %w", l.name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.info.Frozen = true
	return nil
}

// SetSetting implements storage.Store.
func (l *ledger) SetSetting(ctx context.Context, name string, value []byte) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("storing setting %q of ledger %q: %w", name, l.name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settings[name] = clone(value)
	return nil
}

// CheckWritable implements storage.Store. It never returns storage.ErrNoSpace.
func (l *ledger) CheckWritable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("checking free space: %w", err)
	}
	return nil
}

// clone returns a copy of b. The copy is never nil.
func clone(b []byte) []byte { return append([]byte{}, b...) }

// copyHead returns a copy of h. An empty checkpoint becomes nil.
func copyHead(h storage.Head) storage.Head {
	h.Checkpoint = append([]byte(nil), h.Checkpoint...)
	return h
}

// archived returns the stored ArchivedRange, or the zero ArchivedRange if there is none. The caller
// must hold l.mu.
func (l *ledger) archived() storage.ArchivedRange {
	a, _ := storage.ParseArchivedRange(l.settings[storage.ArchiveSetting]) // fails only if nothing has been archived
	return a
}

// Archive implements storage.Archiver.
func (l *ledger) Archive(ctx context.Context, a storage.ArchivedRange, keep []uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.archived()
	err := ctx.Err()
	if err == nil {
		err = a.CheckCanReplace(before, l.head.Size)
	}
	if err != nil {
		return fmt.Errorf("archiving ledger %q: %w", l.name, err)
	}
	for seq := before.EndSeq; seq < a.EndSeq; seq++ {
		if !slices.Contains(keep, seq) {
			delete(l.entries, seq)
		}
	}
	for index := before.EndSeq / storage.HashesPerTile; index < a.EndSeq/storage.HashesPerTile; index++ {
		delete(l.tiles, tileKey{0, index})
	}
	l.settings[storage.ArchiveSetting] = a.SettingValue()
	return nil
}
