package server

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"colophon/api/access"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/ledger"
	"colophon/storage/postgres"
)

// openTokens opens the database of the tokens, and moves those of the data folder into it. It has
// connections of its own, so that looking for revocations does not wait for other reads.
func openTokens(ctx context.Context, config Config, log *slog.Logger) (*postgres.Database, error) {
	if err := datadir.CheckElsewhere(config.Data); err != nil {
		return nil, err
	}
	database, err := postgres.Open(ctx, postgres.Config{URL: config.Store, Logger: log})
	if err != nil {
		return nil, err
	}
	if err := access.TakeOver(datadir.Access(config.Data), database); err != nil {
		_ = database.Close()
		return nil, cli.Refused("%w", err)
	}
	return database, nil
}

// settingsFollower lets the ledgers of a server have the settings that other servers store.
type settingsFollower struct {
	host     *ledger.Host
	database *postgres.Database
	log      *slog.Logger

	version int64 // of the settings that the ledgers have

	stop  context.CancelFunc
	ended sync.WaitGroup
}

// followSettings looks for changes every access.PollEvery until close.
func followSettings(host *ledger.Host, database *postgres.Database, log *slog.Logger) *settingsFollower {
	ctx, stop := context.WithCancel(context.Background())
	f := &settingsFollower{host: host, database: database, log: log, version: -1, stop: stop}
	f.ended.Go(func() { f.run(ctx) })
	return f
}

func (f *settingsFollower) run(ctx context.Context) {
	ticker := time.NewTicker(access.PollEvery)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := f.look(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failing {
			f.log.Warn("cannot read the settings of the ledgers: they stay as they are until this succeeds", "error", err)
		}
		failing = err != nil
	}
}

func (f *settingsFollower) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, access.StaleAfter)
	defer cancel()
	version, err := f.database.SettingsVersion(ctx)
	if err != nil || version == f.version {
		return err
	}
	if err := f.host.RefreshSettings(ctx); err != nil {
		return err
	}
	f.version = version
	return nil
}

func (f *settingsFollower) close() {
	f.stop()
	f.ended.Wait()
}
