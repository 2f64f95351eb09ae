package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"colophon/storage"
)

var _ storage.PageReader = (*ledger)(nil)

// ReadPage implements storage.PageReader.
func (l *ledger) ReadPage(ctx context.Context, first, end uint64, digests, keys []storage.Hash) (*storage.Page, error) {
	page, err := l.readPage(ctx, first, end, distinct(digests), keys)
	if err != nil {
		return nil, fmt.Errorf("reading what ledger %q stores for events %d to %d: %w", l.name, first, end-1, err)
	}
	return page, nil
}

// pageRow is a row that belongs to a page: content, a reference, or a redaction.
type pageRow struct {
	digest, bytes []byte
	seq           *int64
	redactedBy    int64
}

func (l *ledger) readPage(ctx context.Context, first, end uint64, digests [][]byte, keys []storage.Hash) (*storage.Page, error) {
	p := &storage.Page{
		Contents: make(map[storage.Hash][]byte), References: make(map[storage.Reference]bool),
		Redactions: make(map[uint64]uint64), Claims: make(map[storage.Hash]storage.Claim),
	}
	head, err := l.stored(ctx)
	if err != nil {
		return nil, err
	}
	from, to := int64(first), min(int64(end), int64(head.Size))
	contents, err := collect(ctx, l.db, func(row pgx.CollectableRow) (r pageRow, err error) {
		return r, row.Scan(&r.digest, &r.seq, &r.bytes)
	}, `SELECT digest, seq, CASE WHEN octet_length(bytes) <= $3 THEN bytes END FROM colophon_contents
		WHERE ledger = $1 AND digest = ANY ($2::bytea[])`, l.number, digests, storage.MaxPageContent)
	if err != nil {
		return nil, err
	}
	references, err := collect(ctx, l.db, func(row pgx.CollectableRow) (r pageRow, err error) {
		return r, row.Scan(&r.digest, &r.seq)
	}, `SELECT digest, seq FROM colophon_references
		WHERE ledger = $1 AND digest = ANY ($2::bytea[]) AND seq >= $3 AND seq < $4`, l.number, digests, from, to)
	if err != nil {
		return nil, err
	}
	for _, r := range contents {
		p.Contents[storage.Hash(r.digest)] = r.bytes
		if r.seq != nil && *r.seq >= from && *r.seq < to {
			references = append(references, r)
		}
	}
	for _, r := range references {
		if _, stored := p.Contents[storage.Hash(r.digest)]; stored {
			p.References[storage.Reference{Digest: storage.Hash(r.digest), Seq: uint64(*r.seq)}] = true
		}
	}
	redactions, err := collect(ctx, l.db, func(row pgx.CollectableRow) (r pageRow, err error) {
		return r, row.Scan(&r.seq, &r.redactedBy)
	}, `SELECT seq, redacted_by FROM colophon_redactions
		WHERE ledger = $1 AND seq >= $2 AND seq < $3 AND redacted_by >= 0 AND redacted_by < $4`, l.number, from, to, int64(head.Size))
	if err != nil {
		return nil, err
	}
	for _, r := range redactions {
		p.Redactions[uint64(*r.seq)] = uint64(r.redactedBy)
	}
	claims, err := l.KeyClaims(ctx, keys)
	for _, claim := range claims {
		p.Claims[claim.KeyDigest] = claim
	}
	return p, err
}
