package server

import (
	"fmt"

	"colophon/api"
	"colophon/internal/datadir"
	"colophon/internal/webhook"
	"colophon/ledger"
)

// sendWebhooks begins to send messages about what the ledgers record, if the settings name a
// file of hooks. The caller must call the returned function to stop.
func (n *Node) sendWebhooks(config Config, metrics *api.Metrics) (end func(), err error) {
	if config.Webhooks == "" {
		return func() {}, nil
	}
	hooks, err := webhook.Load(config.Webhooks)
	if err != nil {
		return nil, fmt.Errorf("webhooks: %w", err)
	}
	var writes func(string) bool
	if n.cluster != nil {
		writes = func(name string) bool { return n.Host.Role(name) == ledger.Writer }
	}
	sender, err := webhook.New(webhook.Options{Hooks: hooks, Dir: datadir.Webhooks(config.Data), Log: n.log.With("part", "webhooks"), Follower: n.Index.Follower, Writes: writes})
	if err != nil {
		return nil, fmt.Errorf("webhooks: %w", err)
	}
	metrics.Register(sender)
	if err := n.Host.OnOpen(sender.Open); err != nil {
		sender.Close()
		return nil, err
	}
	return sender.Close, nil
}
