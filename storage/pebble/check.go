package pebble

import (
	"context"
	"fmt"

	"colophon/storage"
	"colophon/storage/pebble/internal/keycheck"
)

var _ storage.KeyChecker = (*Database)(nil)

// CheckKeys implements storage.KeyChecker.
func (d *Database) CheckKeys(ctx context.Context, logs map[string]storage.LogSummary, progress func(keys uint64)) ([]*storage.StrayKeyError, error) {
	if err := d.usable(ctx); err != nil {
		return nil, fmt.Errorf("checking the keys in the database: %w", err)
	}
	strays, err := d.checkKeys(ctx, logs, progress)
	if err != nil {
		return nil, fmt.Errorf("checking the keys in the database: %w", damaged(err))
	}
	return strays, nil
}

func (d *Database) checkKeys(ctx context.Context, logs map[string]storage.LogSummary, progress func(keys uint64)) ([]*storage.StrayKeyError, error) {
	infos, err := d.Ledgers(ctx)
	if err != nil {
		return nil, err
	}
	ledgers := make([]keycheck.Ledger, 0, len(infos))
	for _, info := range infos {
		store, err := d.Ledger(ctx, info.Name)
		if err != nil {
			return nil, err
		}
		l := store.(*ledger)
		checked := keycheck.Ledger{Name: info.Name, Number: l.number, Head: *l.head.Load(), RedactingSeq: l.redaction, Location: l.location}
		if log, walked := logs[info.Name]; walked {
			checked.LogSummary = &log
		}
		ledgers = append(ledgers, checked)
	}
	return keycheck.Run(ctx, keycheck.Database{Engine: d.engine, Get: d.get}, ledgers, progress)
}
