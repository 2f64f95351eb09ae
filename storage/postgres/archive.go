package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"colophon/storage"
)

// Archive implements storage.Archiver. It locks the row of the archive setting but not the head
// row, because commits must not wait for it. It needs no fencing epoch: it deletes only what is in
// the archive copy, and the archived part of the log only grows, so any server can safely run it.
// If the outcome is unknown, the caller can call Archive again.
func (l *ledger) Archive(ctx context.Context, a storage.ArchivedRange, keep []uint64) error {
	err := l.db.writable(ctx)
	if err == nil && !l.HoldsLease() {
		err = storage.ErrLeaseNotHeld
	}
	if err == nil {
		err = l.archive(ctx, a, keep)
	}
	if err != nil {
		return fmt.Errorf("archiving ledger %q: %w", l.name, translateError(err))
	}
	return nil
}

func (l *ledger) archive(ctx context.Context, a storage.ArchivedRange, keep []uint64) error {
	head, err := l.head(ctx)
	if err != nil {
		return err
	}
	kept := make([]int64, 0, len(keep))
	for _, seq := range keep {
		kept = append(kept, int64(seq))
	}
	ctx, cancel := context.WithTimeout(ctx, l.db.patience)
	defer cancel()
	return inTransaction(ctx, l.db.writes, func(conn *pgx.Conn) error {
		if err := begin(ctx, conn); err != nil {
			return err
		}
		// Insert the archive setting if it is absent, so that the next query can lock its row.
		if _, err := conn.Exec(ctx, `INSERT INTO colophon_settings (ledger, name, value) VALUES ($1, $2, $3) ON CONFLICT (ledger, name) DO NOTHING`,
			l.number, storage.ArchiveSetting, storage.ArchivedRange{URL: a.URL}.SettingValue()); err != nil {
			return err
		}
		var value []byte
		if err := conn.QueryRow(ctx, `SELECT value FROM colophon_settings WHERE ledger = $1 AND name = $2 FOR UPDATE`,
			l.number, storage.ArchiveSetting).Scan(&value); err != nil {
			return err
		}
		before, err := storage.ParseArchivedRange(value)
		if err != nil {
			return err
		}
		if err := a.CheckCanReplace(before, head.Size); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, `DELETE FROM colophon_entries WHERE ledger = $1 AND seq >= $2 AND seq < $3 AND seq <> ALL ($4::bigint[])`,
			l.number, int64(before.EndSeq), int64(a.EndSeq), kept); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, `DELETE FROM colophon_tiles WHERE ledger = $1 AND level = 0 AND idx >= $2 AND idx < $3`,
			l.number, int64(before.EndSeq/storage.HashesPerTile), int64(a.EndSeq/storage.HashesPerTile)); err != nil {
			return err
		}
		_, err = conn.Exec(ctx, `UPDATE colophon_settings SET value = $3 WHERE ledger = $1 AND name = $2`, l.number, storage.ArchiveSetting, a.SettingValue())
		return err
	})
}
