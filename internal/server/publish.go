package server

import (
	"fmt"

	"colophon/api"
	"colophon/internal/publish"
	"colophon/ledger"
)

// publish begins to publish copies of logs, if the settings say where. The caller must call
// the returned function to stop.
func (n *Node) publish(settings publish.Settings, metrics *api.Metrics) (end func(), err error) {
	if settings.Publish == "" {
		return func() {}, nil
	}
	var writes func(string) bool
	if n.cluster != nil {
		writes = func(name string) bool { return n.Host.Role(name) == ledger.Writer }
	}
	publisher, err := publish.Start(settings, writes, n.log.With("part", "publish"))
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	metrics.Register(publisher)
	if err := n.Host.OnOpen(publisher.Open); err != nil {
		publisher.Close()
		return nil, err
	}
	return publisher.Close, nil
}
