package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"colophon/storage"
	"colophon/storage/postgres/notify"
)

const (
	headColumns = `epoch, writer, frozen, size, tip, time, checkpoint`
	selectHead  = `SELECT ` + headColumns + ` FROM colophon_heads WHERE ledger = $1`
)

// headRow receives one row of colophon_heads, with the columns listed in headColumns.
type headRow struct {
	epoch, size, time int64
	writer            string
	frozen            bool
	tip, checkpoint   []byte
}

func (r *headRow) values() []any {
	return []any{&r.epoch, &r.writer, &r.frozen, &r.size, &r.tip, &r.time, &r.checkpoint}
}

func (r *headRow) head() (storage.Head, error) {
	h := storage.Head{Size: uint64(r.size), TimeMicros: r.time}
	if len(r.checkpoint) > 0 {
		h.Checkpoint = r.checkpoint
	}
	err := setHash(&h.Tip, r.tip, "the tip")
	return h, err
}

// setHash copies stored into h. If stored has the wrong length, setHash returns an error that wraps
// storage.ErrDamaged. what names the value in that error.
func setHash(h *storage.Hash, stored []byte, what string) error {
	if len(stored) != len(h) {
		return fmt.Errorf("%w: %s has %d bytes, but must have %d", storage.ErrDamaged, what, len(stored), len(h))
	}
	*h = storage.Hash(stored)
	return nil
}

// Head implements storage.Reader.
func (l *ledger) Head(ctx context.Context) (storage.Head, error) {
	head, err := l.head(ctx)
	if err != nil {
		return storage.Head{}, fmt.Errorf("reading the head of ledger %q: %w", l.name, err)
	}
	head.Checkpoint = bytes.Clone(head.Checkpoint)
	return head, nil
}

// head returns the ledger's newest head. In the process that writes the ledger, it returns the
// newest head that is known to be durable, because a later one could be lost with a database
// server. On other servers that share the database, it waits until the stored head is durable. The
// caller must not modify the bytes of the checkpoint.
func (l *ledger) head(ctx context.Context) (storage.Head, error) {
	if known := l.durable.Load(); known != nil && l.HoldsLease() {
		return *known, l.db.usable(ctx)
	}
	head, err := l.stored(ctx)
	if shown := l.lastReadHead.Load(); err != nil || l.db.leases == nil || shown != nil && shown.Size == head.Size && shown.Tip == head.Tip {
		return head, err
	}
	return l.waitDurableHead(ctx)
}

// walkSize returns the number of entries that a walk covers. If another server holds the lease, the
// walk covers the entries of the newest head that this server has already returned, because that
// head is known to be durable.
func (l *ledger) walkSize(ctx context.Context) (uint64, error) {
	shown, known := l.lastReadHead.Load(), l.durable.Load()
	if l.db.leases == nil || l.HoldsLease() || shown == nil {
		head, err := l.head(ctx)
		return head.Size, err
	}
	if known != nil && known.Size > shown.Size {
		shown = known
	}
	return shown.Size, l.db.usable(ctx)
}

// waitDurableHead waits until the ledger's stored head is durable and returns it. If a commit's
// wait for the standby was cancelled, or the server was restarted, the commit is visible although
// it may not be on a standby and could be lost with the server. A server that only reads could then
// publish a checkpoint that later checkpoints contradict. Therefore the statement that reads the
// head also writes an empty message to the write-ahead log. Once the message is acknowledged,
// everything before it in that log is durable too (see the package comment). Engines without such
// messages show only durable commits.
func (l *ledger) waitDurableHead(ctx context.Context) (storage.Head, error) {
	var row headRow
	err := l.db.acknowledged(ctx, row.values(), selectHead+` AND (SELECT pg_logical_emit_message(true, 'colophon', '') IS NOT NULL)`, l.number)
	if notify.IsUnsupported(err) {
		err = l.db.row(ctx, row.values(), selectHead, l.number)
	}
	if errors.Is(err, storage.ErrNotFound) {
		err = fmt.Errorf("%w: the ledger's head is missing", storage.ErrDamaged)
	}
	if err != nil {
		return storage.Head{}, fmt.Errorf("waiting until the head is durable: %w", err)
	}
	head, err := row.head()
	if err != nil {
		return storage.Head{}, err
	}
	for {
		shown := l.lastReadHead.Load()
		if shown != nil && shown.Size >= head.Size || l.lastReadHead.CompareAndSwap(shown, &head) {
			return head, nil
		}
	}
}

// stored returns the ledger's stored head, even if that head is not durable yet.
func (l *ledger) stored(ctx context.Context) (storage.Head, error) {
	var row headRow
	err := l.db.row(ctx, row.values(), selectHead, l.number)
	if errors.Is(err, storage.ErrNotFound) {
		return storage.Head{}, fmt.Errorf("%w: the ledger's head is missing", storage.ErrDamaged)
	}
	if err != nil {
		return storage.Head{}, err
	}
	return row.head()
}

// Tile implements storage.Reader.
func (l *ledger) Tile(ctx context.Context, level uint8, index uint64) ([]byte, error) {
	hashes, err := l.tile(ctx, level, index)
	if err != nil {
		return nil, fmt.Errorf("reading tile %d/%d of ledger %q: %w", level, index, l.name, err)
	}
	return hashes, nil
}

func (l *ledger) tile(ctx context.Context, level uint8, index uint64) ([]byte, error) {
	type piece struct {
		stop   int64
		hashes []byte
	}
	stored, err := collect(ctx, l.db, func(row pgx.CollectableRow) (p piece, err error) {
		return p, row.Scan(&p.stop, &p.hashes)
	}, `SELECT stop, hashes FROM colophon_tiles WHERE ledger = $1 AND level = $2 AND idx = $3 ORDER BY stop`,
		l.number, int64(level), int64(index))
	if err != nil {
		return nil, err
	}
	if len(stored) == 0 {
		return nil, storage.ExplainMissingTile(ctx, l, level, index)
	}
	var hashes []byte
	for i := range stored {
		hashes = append(hashes, stored[i].hashes...)
		if int64(len(hashes)) != stored[i].stop*storage.HashSize {
			return nil, fmt.Errorf("%w: the stored pieces of the tile up to hash %d have an unexpected total length of %d bytes", storage.ErrDamaged, stored[i].stop, len(hashes))
		}
	}
	return hashes, nil
}

// Setting implements storage.Reader.
func (l *ledger) Setting(ctx context.Context, name string) ([]byte, error) {
	var value []byte
	err := l.db.row(ctx, []any{&value}, `SELECT value FROM colophon_settings WHERE ledger = $1 AND name = $2`, l.number, name)
	if err != nil {
		return nil, fmt.Errorf("reading setting %q of ledger %q: %w", name, l.name, err)
	}
	return value, nil
}

// Entry implements storage.Reader.
func (l *ledger) Entry(ctx context.Context, seq uint64) ([]byte, error) {
	entry, err := l.entry(ctx, seq)
	if err != nil {
		return nil, fmt.Errorf("reading entry %d of ledger %q: %w", seq, l.name, err)
	}
	return entry, nil
}

func (l *ledger) entry(ctx context.Context, seq uint64) ([]byte, error) {
	if seq > math.MaxInt64 {
		return nil, cmp.Or(l.db.usable(ctx), storage.ErrNotFound)
	}
	var size int64
	var entry []byte
	err := l.db.row(ctx, []any{&size, &entry}, `SELECT h.size, e.bytes FROM colophon_heads h
		LEFT JOIN colophon_entries e ON e.ledger = h.ledger AND e.seq = $2 WHERE h.ledger = $1`, l.number, int64(seq))
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil, fmt.Errorf("%w: the ledger's head is missing", storage.ErrDamaged)
	case err != nil:
		return nil, err
	case int64(seq) >= size:
		return nil, storage.ErrNotFound
	case entry == nil:
		return nil, storage.ExplainMissingEntry(ctx, l, seq, uint64(size))
	}
	return entry, nil
}

// Content implements storage.Reader.
func (l *ledger) Content(ctx context.Context, digest storage.Hash) ([]byte, error) {
	var bytes []byte
	err := l.db.row(ctx, []any{&bytes}, `SELECT bytes FROM colophon_contents WHERE ledger = $1 AND digest = $2`, l.number, digest[:])
	if err != nil {
		return nil, fmt.Errorf("reading content %x of ledger %q: %w", digest, l.name, err)
	}
	return bytes, nil
}

// HasReference implements storage.Reader.
func (l *ledger) HasReference(ctx context.Context, digest storage.Hash, seq uint64) (bool, error) {
	var referenced bool
	err := l.db.row(ctx, []any{&referenced}, `SELECT $3 < h.size AND (coalesce(c.seq = $3, false)
			OR EXISTS (SELECT 1 FROM colophon_references r WHERE r.ledger = $1 AND r.digest = $2 AND r.seq = $3))
		FROM colophon_contents c JOIN colophon_heads h ON h.ledger = c.ledger
		WHERE c.ledger = $1 AND c.digest = $2`, l.number, digest[:], int64(seq))
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return false, fmt.Errorf("checking whether record %d of ledger %q needs content %x: %w", seq, l.name, digest, err)
	}
	return referenced && seq <= math.MaxInt64, nil
}

// RedactingSeq implements storage.Reader.
func (l *ledger) RedactingSeq(ctx context.Context, seq uint64) (uint64, error) {
	var by int64
	err := l.db.row(ctx, []any{&by}, `SELECT r.redacted_by FROM colophon_redactions r JOIN colophon_heads h ON h.ledger = r.ledger
		WHERE r.ledger = $1 AND r.seq = $2 AND r.redacted_by >= 0 AND r.redacted_by < h.size`, l.number, int64(seq))
	if err != nil {
		return 0, fmt.Errorf("reading the redaction of record %d of ledger %q: %w", seq, l.name, err)
	}
	return uint64(by), nil
}

const selectClaims = `SELECT c.key, c.record, c.seq FROM colophon_claims c JOIN colophon_heads h ON h.ledger = c.ledger
	WHERE c.ledger = $1 AND c.seq >= 0 AND c.seq < h.size`

func scanClaim(row pgx.CollectableRow) (k storage.Claim, err error) {
	var key, record []byte
	var seq int64
	if err := row.Scan(&key, &record, &seq); err != nil {
		return k, err
	}
	k.Seq = uint64(seq)
	return k, errors.Join(setHash(&k.KeyDigest, key, "the key"), setHash(&k.RecordDigest, record, "the record's digest"))
}

// KeyClaim implements storage.Reader.
func (l *ledger) KeyClaim(ctx context.Context, key storage.Hash) (storage.Claim, error) {
	claims, err := collect(ctx, l.db, scanClaim, selectClaims+` AND c.key = $2`, l.number, key[:])
	if err == nil && len(claims) == 0 {
		err = storage.ErrNotFound
	}
	if err != nil {
		return storage.Claim{}, fmt.Errorf("reading idempotency key %x of ledger %q: %w", key, l.name, err)
	}
	return claims[0], nil
}

// keysPerQuery is the maximum number of keys that one query looks up.
const keysPerQuery = 4096

// KeyClaims implements storage.Reader.
func (l *ledger) KeyClaims(ctx context.Context, keys []storage.Hash) ([]storage.Claim, error) {
	var claims []storage.Claim
	err := l.db.usable(ctx)
	for chunk := range slices.Chunk(distinct(keys), keysPerQuery) {
		if err != nil {
			break
		}
		var found []storage.Claim
		found, err = collect(ctx, l.db, scanClaim, selectClaims+` AND c.key = ANY ($2::bytea[])`, l.number, chunk)
		claims = append(claims, found...)
	}
	if err != nil {
		return nil, fmt.Errorf("reading idempotency keys of ledger %q: %w", l.name, err)
	}
	return claims, nil
}

// distinct returns the hashes in list without duplicates.
func distinct(list []storage.Hash) [][]byte {
	found := make(map[storage.Hash]bool, len(list))
	hashes := make([][]byte, 0, len(list))
	for i := range list {
		if !found[list[i]] {
			found[list[i]] = true
			hashes = append(hashes, list[i][:])
		}
	}
	return hashes
}
