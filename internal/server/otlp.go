package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"

	"colophon/api"
)

// checkOTLP checks the address for OTLP over gRPC.
func (c Config) checkOTLP() error {
	if c.OTLPGRPCListenAddress == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(c.OTLPGRPCListenAddress)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return fmt.Errorf("otlp-grpc-listen: %w; write host:port, such as 127.0.0.1:4317", err)
	}
	return nil
}

// serveGRPC serves OTLP over gRPC until the returned function is called. Each call holds the lock
// underWay, which keeps the database open.
func (n *Node) serveGRPC(service *api.Server, g gate, listener net.Listener, underWay sync.Locker) (shutdown func(context.Context) error) {
	server := service.GRPCServer()
	server.Handler = WithLock(server.Handler, underWay)
	go func() {
		if err := g.serve(server, service.LimitListener(listener)); !errors.Is(err, http.ErrServerClosed) {
			n.log.Error("the server for OTLP over gRPC has stopped", "error", err)
		}
	}()
	return func(ctx context.Context) error {
		if err := server.Shutdown(ctx); err != nil {
			return server.Close()
		}
		return nil
	}
}
