package migrate

import (
	"context"
	"errors"
	"fmt"

	"colophon/api/access"
	"colophon/internal/archive"
	"colophon/internal/cli"
	"colophon/storage"
	"colophon/storage/pebble"
	"colophon/storage/postgres"
)

// TakeSnapshot copies all ledgers of the PostgreSQL database at url into a new Pebble database in
// the folder dir, and its tokens into the folder given by tokens. Servers can keep writing: each
// copy is the state of its ledger at a head that was signed after TakeSnapshot began.
func TakeSnapshot(ctx context.Context, c *cli.Console, url, dir, tokens string) (err error) {
	source, err := postgres.Open(ctx, postgres.Config{URL: url, Logger: c.WarningLogger(), ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	target, err := pebble.Open(ctx, pebble.Config{Dir: dir, Logger: c.WarningLogger()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	infos, err := source.Ledgers(ctx)
	if err != nil {
		return err
	}
	for _, info := range infos {
		if err := snapshotLedger(ctx, c, archive.Wrap(source, archive.Options{}), target, info); err != nil {
			return explain(ctx, fmt.Errorf("copying ledger %q: %w", info.Name, err))
		}
	}
	text, err := access.TokenStore{SharedStore: source}.ExportTokens()
	if err != nil || text == nil {
		return err
	}
	return access.TokenStore{Dir: tokens}.ReplaceTokens(text)
}

func snapshotLedger(ctx context.Context, c *cli.Console, source, target storage.Database, info storage.LedgerInfo) error {
	from, err := source.Ledger(ctx, info.Name)
	if err != nil {
		return err
	}
	head, err := from.Head(ctx)
	if err != nil {
		return err
	}
	frozen := info.Frozen
	info.Frozen = false
	to, err := target.CreateLedger(ctx, info)
	if err != nil {
		return err
	}
	bar := cli.NewProgress(c, int64(head.Size), "reading "+info.Name)
	defer bar.Finish()
	if err := copyGrowing(ctx, from, to, bar.Set); err != nil {
		return err
	}
	if frozen {
		return to.Freeze(ctx)
	}
	return nil
}

// copyGrowing copies a ledger to which servers may be writing. If content is erased during the
// copy, copyGrowing continues until the copy contains the events that erased it.
func copyGrowing(ctx context.Context, from storage.Reader, to storage.Store, progress func(entries uint64)) error {
	for {
		c := newCopier(ctx, from, to, progress)
		c.growing = true
		head, err := c.run()
		if err != nil {
			return err
		}
		if c.erasedBy < head.Size {
			return copySettings(ctx, from, to)
		}
	}
}
