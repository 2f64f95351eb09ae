package server

import (
	"fmt"

	"colophon/api"
	"colophon/internal/publish"
)

// publish begins to publish copies of logs, if the configuration says where. The function that
// it returns ends that.
func (n *Node) publish(config publish.Config, metrics *api.Metrics) (end func(), err error) {
	if config.URL == "" {
		return func() {}, nil
	}
	publisher, err := publish.Start(config, n.log.With("part", "publish"))
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
