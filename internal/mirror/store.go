// Package mirror follows a published copy of a log (internal/publish). It verifies the log, stores it in its
// own database, and serves it as of the last checkpoint that it has accepted.
//
// Entries are stored in commits of bounded size, so that an interrupted load can continue. Before each commit,
// Mirror proves that the log, including the entries in that commit, is a prefix of the log that a signed
// checkpoint covers. Only the last commit of a load changes the served checkpoint. Until then, the database
// shows the log as of the previous checkpoint.
package mirror

import (
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"colophon/ledger"
	"colophon/ledger/event"
	"colophon/proofs"
	"colophon/storage"
)

// Database holds the logs that a Mirror has loaded. It shows each log only up to the size that is
// being served. It implements storage.Database, but rejects all writes.
type Database struct {
	stored storage.Database

	mu   sync.Mutex
	logs map[string]*log // guarded by mu
}

// NewDatabase returns a Database that shows the logs in stored. Only a Mirror may write to stored.
func NewDatabase(stored storage.Database) *Database {
	return &Database{stored: stored, logs: make(map[string]*log)}
}

// Ledgers implements storage.Database. It omits logs for which no checkpoint is served yet.
func (d *Database) Ledgers(ctx context.Context) ([]storage.LedgerInfo, error) {
	all, err := d.stored.Ledgers(ctx)
	if err != nil {
		return nil, err
	}
	var served []storage.LedgerInfo
	for _, info := range all {
		l, err := d.open(ctx, info.Name)
		if err != nil {
			return nil, err
		}
		if l.served.Load().Size > 0 {
			served = append(served, info)
		}
	}
	return served, nil
}

// Ledger implements storage.Database.
func (d *Database) Ledger(ctx context.Context, name string) (storage.Store, error) {
	l, err := d.open(ctx, name)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (d *Database) open(ctx context.Context, name string) (*log, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.logs[name]; l != nil {
		return l, nil
	}
	stored, err := d.stored.Ledger(ctx, name)
	if err != nil {
		return nil, err
	}
	l := &log{Store: stored}
	served, err := servedHead(ctx, stored)
	if err != nil {
		return nil, fmt.Errorf("reading the checkpoint of ledger %q: %w", name, err)
	}
	l.served.Store(&served)
	d.logs[name] = l
	return l, nil
}

// CreateLedger implements storage.Database. It always fails.
func (d *Database) CreateLedger(context.Context, storage.LedgerInfo) (storage.Store, error) {
	return nil, storage.ErrLeaseNotHeld
}

// Close implements storage.Database.
func (d *Database) Close() error { return d.stored.Close() }

// servedHead returns the log's head as of the checkpoint in the stored head. If no checkpoint is served
// yet, it returns the zero Head.
func servedHead(ctx context.Context, stored storage.Store) (storage.Head, error) {
	head, err := stored.Head(ctx)
	if err != nil || len(head.Checkpoint) == 0 {
		return storage.Head{}, err
	}
	keys, err := ledger.ReadKeyHistory(ctx, stored)
	if err != nil {
		return storage.Head{}, err
	}
	signed, err := proofs.OpenCheckpoint(head.Checkpoint, keys.Verifiers()...)
	if err != nil {
		return storage.Head{}, fmt.Errorf("%w: verifying the stored checkpoint: %w", ledger.ErrDamaged, err)
	}
	if signed.Size == head.Size || signed.Size == 0 {
		return head, nil
	}
	last, err := stored.Entry(ctx, signed.Size-1)
	if err != nil {
		return storage.Head{}, fmt.Errorf("%w: reading entry %d: %w", ledger.ErrDamaged, signed.Size-1, err)
	}
	var decoder event.Decoder
	e, err := decoder.Decode(last)
	if err != nil {
		return storage.Head{}, fmt.Errorf("%w: decoding event %d: %w", ledger.ErrDamaged, signed.Size-1, err)
	}
	return storage.Head{Size: signed.Size, Tip: sha256.Sum256(last), TimeMicros: e.Time.UnixMicro(), Checkpoint: head.Checkpoint}, nil
}

// log is a read-only view of a stored log up to its served head. It implements storage.LeasedStore to
// report that this server holds no lease.
type log struct {
	storage.Store
	served atomic.Pointer[storage.Head]
}

var _ storage.LeasedStore = (*log)(nil)

// size returns the number of events that are served.
func (l *log) size() uint64 { return l.served.Load().Size }

// HoldsLease implements storage.LeasedStore.
func (l *log) HoldsLease() bool { return false }

// Head implements storage.Reader.
func (l *log) Head(ctx context.Context) (storage.Head, error) { return *l.served.Load(), ctx.Err() }

// Entry implements storage.Reader.
func (l *log) Entry(ctx context.Context, seq uint64) ([]byte, error) {
	if seq >= l.size() {
		return nil, fmt.Errorf("reading entry %d: %w", seq, storage.ErrNotFound)
	}
	return l.Store.Entry(ctx, seq)
}

// Entries implements storage.Reader.
func (l *log) Entries(ctx context.Context, from uint64) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		size := l.size()
		if from >= size {
			return
		}
		for entry, err := range l.Store.Entries(ctx, from) {
			if err == nil && entry.Seq >= size || !yield(entry, err) {
				return
			}
		}
	}
}

// Content implements storage.Reader.
func (l *log) Content(context.Context, storage.Hash) ([]byte, error) {
	return nil, storage.ErrLogOnly
}

// Setting implements storage.Reader.
func (l *log) Setting(ctx context.Context, name string) ([]byte, error) {
	if name == ledger.PayloadMemberSecretSetting {
		return nil, storage.ErrLogOnly
	}
	return l.Store.Setting(ctx, name)
}

// RedactingSeq implements storage.Reader.
func (l *log) RedactingSeq(ctx context.Context, seq uint64) (uint64, error) {
	by, err := l.Store.RedactingSeq(ctx, seq)
	if err == nil && by >= l.size() {
		return 0, storage.ErrNotFound
	}
	return by, err
}

// Redactions implements storage.Reader.
func (l *log) Redactions(ctx context.Context) iter.Seq2[storage.Redaction, error] {
	return func(yield func(storage.Redaction, error) bool) {
		size := l.size()
		for r, err := range l.Store.Redactions(ctx) {
			if (err != nil || r.RedactingSeq < size) && !yield(r, err) {
				return
			}
		}
	}
}

// KeyClaim implements storage.Reader.
func (l *log) KeyClaim(ctx context.Context, key storage.Hash) (storage.Claim, error) {
	claim, err := l.Store.KeyClaim(ctx, key)
	if err == nil && claim.Seq >= l.size() {
		return storage.Claim{}, storage.ErrNotFound
	}
	return claim, err
}

// KeyClaims implements storage.Reader.
func (l *log) KeyClaims(ctx context.Context, keys []storage.Hash) (claims []storage.Claim, err error) {
	all, err := l.Store.KeyClaims(ctx, keys)
	for _, claim := range all {
		if claim.Seq < l.size() {
			claims = append(claims, claim)
		}
	}
	return claims, err
}

// Commit implements storage.Store. Like every method that writes, it always fails.
func (l *log) Commit(context.Context, storage.Head, storage.Batch) error {
	return storage.ErrLeaseNotHeld
}

// Freeze implements storage.Store.
func (l *log) Freeze(context.Context) error { return storage.ErrLeaseNotHeld }

// SetSetting implements storage.Store.
func (l *log) SetSetting(context.Context, string, []byte) error { return storage.ErrLeaseNotHeld }

// CheckWritable implements storage.Store.
func (l *log) CheckWritable(context.Context) error { return storage.ErrLeaseNotHeld }
