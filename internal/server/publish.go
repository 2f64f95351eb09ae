package server

import (
	"context"
	"fmt"

	"colophon/api"
	"colophon/internal/archive"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/publish"
	"colophon/internal/publish/bucket"
	"colophon/internal/webhook"
	"colophon/ledger"
	"colophon/storage"
)

// openArchive makes the database read old entries from the bucket if archiving is enabled. Otherwise,
// it returns an error if a ledger has entries that exist only in a bucket.
func (n *Node) openArchive(ctx context.Context, config Config) error {
	if config.ArchiveOldEntries {
		b, err := bucket.Open(config.BucketURL)
		if err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		n.archive = archive.Wrap(n.database, archive.Options{Bucket: b})
		n.database = n.archive
		return nil
	}
	ledgers, err := n.database.Ledgers(ctx)
	if err != nil {
		return err
	}
	for _, info := range ledgers {
		store, err := n.database.Ledger(ctx, info.Name)
		if err != nil {
			return err
		}
		archived, err := storage.ReadArchivedRange(ctx, store)
		if err != nil {
			return fmt.Errorf("looking up which entries of ledger %q are archived: %w", info.Name, err)
		}
		if archived.EndSeq > 0 {
			return cli.ExitErrorf(cli.ExitUsage, "ledger %q: %w", info.Name, &storage.ArchivedError{ArchivedRange: archived})
		}
	}
	return nil
}

// publish starts publishing copies of the logs if the settings name a bucket. The caller must call
// the returned function to stop.
func (n *Node) publish(settings publish.Settings, metrics *api.Metrics) (end func(), err error) {
	if settings.BucketURL == "" {
		return func() {}, nil
	}
	var writes func(string) bool
	if n.cluster != nil {
		writes = func(name string) bool { return n.Host.Status(name) == ledger.StatusWritable }
	}
	publisher, err := publish.NewFromSettings(settings, writes, n.log.With("part", "publish"))
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	metrics.Register(publisher)
	if err := n.Host.OnOpen(publisher.AddLedger); err != nil {
		publisher.Close()
		return nil, err
	}
	return publisher.Close, nil
}

// sendWebhooks starts sending messages about what the ledgers record if the settings name a file of
// webhooks. The caller must call the returned function to stop.
func (n *Node) sendWebhooks(config Config, metrics *api.Metrics) (end func(), err error) {
	if config.WebhooksFile == "" {
		return func() {}, nil
	}
	hooks, err := webhook.LoadHooks(config.WebhooksFile)
	if err != nil {
		return nil, fmt.Errorf("webhooks: %w", err)
	}
	var writes func(string) bool
	if n.cluster != nil {
		writes = func(name string) bool { return n.Host.Status(name) == ledger.StatusWritable }
	}
	sender, err := webhook.New(webhook.Options{Hooks: hooks, CursorDir: datadir.WebhookFolder(config.DataDir), Logger: n.log.With("part", "webhooks"), Follower: n.Index.Follower, WritesLedger: writes})
	if err != nil {
		return nil, fmt.Errorf("webhooks: %w", err)
	}
	metrics.Register(sender)
	if err := n.Host.OnOpen(sender.Follow); err != nil {
		sender.Close()
		return nil, err
	}
	return sender.Close, nil
}
