package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"colophon/storage"
)

var _ storage.KeyChecker = (*Database)(nil)

// CheckKeys implements storage.KeyChecker. In this package, a key is a row, so CheckKeys counts the
// rows of each table. The caller has already checked that everything the log mentions is stored, so
// if a count is too high, there is a stray row. To find it, CheckKeys then compares each row with
// the event that it belongs to.
func (d *Database) CheckKeys(ctx context.Context, logs map[string]storage.LogSummary, progress func(keys uint64)) ([]*storage.StrayKeyError, error) {
	c := &check{db: d, progress: progress}
	strays, err := c.run(ctx, logs)
	if err != nil {
		return nil, fmt.Errorf("checking the keys in the database: %w", err)
	}
	return strays, nil
}

// check holds the state of one call to CheckKeys.
type check struct {
	db       *Database
	progress func(keys uint64) // may be nil
	read     uint64            // number of rows counted so far
}

func (c *check) run(ctx context.Context, logs map[string]storage.LogSummary) ([]*storage.StrayKeyError, error) {
	ledgers, err := c.db.descriptions(ctx)
	if err != nil {
		return nil, err
	}
	var strays []*storage.StrayKeyError
	stray, err := c.strayLedgerRow(ctx)
	if err != nil {
		return nil, err
	}
	if stray != nil {
		strays = append(strays, stray)
	}
	for _, found := range ledgers {
		log, walked := logs[found.Name]
		if !walked {
			continue
		}
		l := &ledger{db: c.db, name: found.Name, number: found.number}
		head, err := l.head(ctx)
		if err != nil {
			return nil, fmt.Errorf("checking the tables of ledger %q: %w", l.name, err)
		}
		stray, err := (&ledgerCheck{check: c, ledger: l, head: head, log: log}).run(ctx)
		if err != nil {
			return nil, fmt.Errorf("checking the tables of ledger %q: %w", l.name, err)
		}
		if stray != nil {
			stray.Ledger = l.name
			strays = append(strays, stray)
		}
	}
	return strays, nil
}

// strayLedgerRow returns a stray row that belongs to a nonexistent ledger, or nil if there is none.
func (c *check) strayLedgerRow(ctx context.Context) (*storage.StrayKeyError, error) {
	for _, table := range []string{"heads", "entries", "tiles", "contents", "references", "redactions", "claims", "settings"} {
		numbers, err := collect(ctx, c.db, pgx.RowTo[int64], `SELECT t.ledger FROM colophon_`+table+` t
			WHERE NOT EXISTS (SELECT 1 FROM colophon_ledgers l WHERE l.number = t.ledger) LIMIT 1`)
		if err != nil {
			return nil, err
		}
		if len(numbers) > 0 {
			return &storage.StrayKeyError{Kind: storage.StrayOther, Message: fmt.Sprintf(
				"the table colophon_%s has a row for ledger number %d, which does not exist", table, numbers[0])}, nil
		}
	}
	return nil, nil
}

// count runs a query that returns one number, adds this number to c.read, and reports progress.
func (c *check) count(ctx context.Context, query string, arguments ...any) (uint64, error) {
	var n int64
	if err := c.db.row(ctx, []any{&n}, query, arguments...); err != nil {
		return 0, err
	}
	if c.read += uint64(n); c.progress != nil {
		c.progress(c.read)
	}
	return uint64(n), nil
}

// ledgerCheck checks the rows of one ledger against its head and its log.
type ledgerCheck struct {
	*check
	ledger *ledger
	head   storage.Head
	log    storage.LogSummary
}

// run runs all the checks and returns the first stray row that they find, or nil if there is none.
func (c *ledgerCheck) run(ctx context.Context) (*storage.StrayKeyError, error) {
	for _, part := range []func(context.Context) (*storage.StrayKeyError, error){c.entries, c.tiles, c.holdings, c.needs, c.claims, c.settings} {
		if stray, err := part(ctx); err != nil || stray != nil {
			return stray, err
		}
	}
	return nil, nil
}

func stray(kind storage.StrayKind, seq uint64, format string, arguments ...any) *storage.StrayKeyError {
	return &storage.StrayKeyError{Kind: kind, Seq: seq, Message: fmt.Sprintf(format, arguments...)}
}

func (c *ledgerCheck) entries(ctx context.Context) (*storage.StrayKeyError, error) {
	seqs, err := collect(ctx, c.db, pgx.RowTo[int64], `SELECT seq FROM colophon_entries
		WHERE ledger = $1 AND (seq >= $2 OR seq < 0) ORDER BY seq LIMIT 1`, c.ledger.number, int64(c.head.Size))
	if err != nil || len(seqs) == 0 {
		return nil, err
	}
	return stray(storage.StrayEntry, uint64(seqs[0]), "the entry is stored, but it is beyond the head (size %d)", c.head.Size), nil
}

// tiles checks that no stored tile has more hashes than the head's tree has at that position. The
// caller of CheckKeys has already checked the hashes themselves.
func (c *ledgerCheck) tiles(ctx context.Context) (found *storage.StrayKeyError, err error) {
	const height = 8 // log2 of storage.HashesPerTile
	err = c.db.read(ctx, func(pool *pgxpool.Pool) error {
		found = nil
		rows, err := pool.Query(ctx, `SELECT level, idx, max(stop) FROM colophon_tiles WHERE ledger = $1 GROUP BY level, idx`, c.ledger.number)
		if err != nil {
			return err
		}
		var level, index, stop int64
		_, err = pgx.ForEachRow(rows, []any{&level, &index, &stop}, func() error {
			hashes := c.head.Size >> min(uint64(level)*height, 64)
			first := uint64(index) << height
			if uint64(index) > hashes>>height || first >= hashes || uint64(stop) > min(hashes-first, storage.HashesPerTile) {
				found = stray(storage.StrayTile, c.head.Size, "tile %d/%d is stored with %d hashes, but a tree of %d entries has fewer hashes in that tile", level, uint64(index), stop, c.head.Size)
			}
			return nil
		})
		return err
	})
	return found, err
}

// holdings checks that the content of each reference is stored, that no record references the same
// content twice, and that each piece of content is needed by a record.
func (c *ledgerCheck) holdings(ctx context.Context) (*storage.StrayKeyError, error) {
	for _, wrong := range []struct{ query, message string }{
		{`SELECT r.digest, r.seq FROM colophon_references r WHERE r.ledger = $1 AND NOT EXISTS (
			SELECT 1 FROM colophon_contents c WHERE c.ledger = r.ledger AND c.digest = r.digest) LIMIT 1`,
			"a reference to content %x is stored, but the content is not"},
		{`SELECT r.digest, r.seq FROM colophon_references r JOIN colophon_contents c ON c.ledger = r.ledger AND c.digest = r.digest
			WHERE r.ledger = $1 AND r.seq = c.seq LIMIT 1`,
			"the event has two references to content %x"},
		{`SELECT c.digest, -1::bigint FROM colophon_contents c WHERE c.ledger = $1 AND c.seq IS NULL AND NOT EXISTS (
			SELECT 1 FROM colophon_references r WHERE r.ledger = c.ledger AND r.digest = c.digest) LIMIT 1`,
			"content %x is stored, but no record needs it"},
	} {
		found, err := collect(ctx, c.db, scanNeed, wrong.query, c.ledger.number)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			continue
		}
		seq := uint64(found[0].seq)
		if found[0].seq < 0 { // content that no record needs
			seq = c.head.Size
		}
		return stray(storage.StrayContent, seq, wrong.message, found[0].digest), nil
	}
	return nil, nil
}

// need pairs the digest of a piece of content with the seq of a record that needs it.
type need struct {
	digest []byte
	seq    int64
}

func scanNeed(row pgx.CollectableRow) (n need, err error) {
	return n, row.Scan(&n.digest, &n.seq)
}

// checkPage is the number of rows that each query reads while searching for a stray row.
const checkPage = 1024

// needs counts the stored references from records to the content that they need, and compares this
// count with the log's. If they differ, it returns a stray reference.
func (c *ledgerCheck) needs(ctx context.Context) (*storage.StrayKeyError, error) {
	first, err := c.count(ctx, `SELECT count(seq) FROM colophon_contents WHERE ledger = $1`, c.ledger.number)
	if err != nil {
		return nil, err
	}
	later, err := c.count(ctx, `SELECT count(*) FROM colophon_references WHERE ledger = $1`, c.ledger.number)
	if err != nil || first+later == c.log.ContentReferenceCount {
		return nil, err
	}
	for _, query := range []string{
		`SELECT digest, seq FROM colophon_contents WHERE ledger = $1 AND seq IS NOT NULL AND (digest > $2 OR digest = $2 AND seq > $3) ORDER BY digest LIMIT $4`,
		`SELECT digest, seq FROM colophon_references WHERE ledger = $1 AND (digest > $2 OR digest = $2 AND seq > $3) ORDER BY digest, seq LIMIT $4`,
	} {
		last := need{digest: []byte{}, seq: -1}
		for more := true; more; {
			page, err := collect(ctx, c.db, scanNeed, query, c.ledger.number, last.digest, last.seq, checkPage)
			if err != nil {
				return nil, err
			}
			for _, n := range page {
				if stray, err := c.need(ctx, n); err != nil || stray != nil {
					return stray, err
				}
			}
			if more = len(page) == checkPage; more {
				last = page[checkPage-1]
			}
		}
	}
	return stray(storage.StrayContent, c.head.Size, "%d references to content are stored, but the log accounts for %d", first+later, c.log.ContentReferenceCount), nil
}

// need returns a stray row if record n.seq does not need content n.digest, and nil otherwise.
func (c *ledgerCheck) need(ctx context.Context, n need) (*storage.StrayKeyError, error) {
	seq := uint64(n.seq)
	if seq >= c.head.Size {
		return stray(storage.StrayContent, seq, "content %x is kept for the event, but the event is beyond the head (size %d)", n.digest, c.head.Size), nil
	}
	e, err := c.log.ReadEvent(ctx, seq)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(e.ContentDigests, func(h storage.Hash) bool { return string(h[:]) == string(n.digest) }) {
		return stray(storage.StrayContent, seq, "content %x is kept for the event, but the event does not name that content", n.digest), nil
	}
	by, err := c.ledger.RedactingSeq(ctx, seq)
	switch {
	case err == nil:
		return stray(storage.StrayContent, seq, "content %x is kept for the event, but event %d has redacted the event", n.digest, by), nil
	case !errors.Is(err, storage.ErrNotFound):
		return nil, err
	}
	return nil, nil
}

// claims compares the number of stored claims with the number in the log. If they differ, it
// returns a stray claim.
func (c *ledgerCheck) claims(ctx context.Context) (*storage.StrayKeyError, error) {
	n, err := c.count(ctx, `SELECT count(*) FROM colophon_claims WHERE ledger = $1`, c.ledger.number)
	if err != nil || n == c.log.ClaimCount {
		return nil, err
	}
	last := []byte{}
	for more := true; more; {
		page, err := collect(ctx, c.db, scanNeed, `SELECT key, seq FROM colophon_claims WHERE ledger = $1 AND key > $2 ORDER BY key LIMIT $3`, c.ledger.number, last, checkPage)
		if err != nil {
			return nil, err
		}
		for _, claim := range page {
			var e storage.EventSummary
			if seq := uint64(claim.seq); seq < c.head.Size {
				if e, err = c.log.ReadEvent(ctx, seq); err != nil {
					return nil, err
				}
			}
			if e.IdempotencyKey == nil || string(e.IdempotencyKey[:]) != string(claim.digest) {
				return stray(storage.StrayClaim, uint64(claim.seq), "idempotency key %x refers to the event, but the event does not claim that key; a new record with this key would not be recorded", claim.digest), nil
			}
		}
		if more = len(page) == checkPage; more {
			last = page[checkPage-1].digest
		}
	}
	return stray(storage.StrayClaim, c.head.Size, "%d idempotency keys are stored, but the log accounts for %d", n, c.log.ClaimCount), nil
}

func (c *ledgerCheck) settings(ctx context.Context) (*storage.StrayKeyError, error) {
	type setting struct {
		name  string
		value []byte
	}
	all, err := collect(ctx, c.db, func(row pgx.CollectableRow) (s setting, err error) {
		return s, row.Scan(&s.name, &s.value)
	}, `SELECT name, value FROM colophon_settings WHERE ledger = $1 ORDER BY name`, c.ledger.number)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		if wrong := c.log.CheckSetting(s.name, s.value); wrong != nil {
			return stray(storage.StrayOther, c.head.Size, "setting %.100q: %v", s.name, wrong), nil
		}
	}
	return nil, nil
}
