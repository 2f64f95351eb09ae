package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"colophon/api"
	"colophon/internal/cli"
)

// maxMetricsConnections limits the connections to the address of the metrics, so that they cannot take the
// file descriptors of the API.
const maxMetricsConnections = 64

// serveMetrics serves /metrics to anyone who can reach the address, until the returned server is
// closed. Each request holds the lock underWay, which keeps the database open while metrics are
// read from it.
func serveMetrics(config Config, log *slog.Logger, listener net.Listener, metrics *api.Metrics, underWay sync.Locker) *http.Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", WithLock(metrics.Handler(), underWay))
	if config.ServePprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	server := &http.Server{
		Handler:           checkHost(api.AllowedHosts(config.AllowedHosts), mux),
		ReadHeaderTimeout: 10 * time.Second,
		WriteTimeout:      2 * time.Minute, // allows for a CPU profile, whose duration the client chooses
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		if err := server.Serve(netutil.LimitListener(listener, maxMetricsConnections)); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the metrics server has stopped", "error", err)
		}
	}()
	return server
}

// checkHost returns a handler that refuses requests whose Host header names another server.
func checkHost(hosts api.AllowedHosts, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := hosts.Check(r); err != nil {
			http.Error(w, err.Error(), http.StatusMisdirectedRequest)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// checkObservation checks the settings for metrics and profiles.
func (c Config) checkObservation() error {
	if c.MetricsListenAddress == "" {
		if c.ServePprof {
			return errors.New("pprof: profiles need a separate address: set metrics-listen, for example to 127.0.0.1:9464")
		}
		return nil
	}
	host, port, err := net.SplitHostPort(c.MetricsListenAddress)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	switch {
	case err != nil:
		return fmt.Errorf("metrics-listen: %w; write host:port, such as 127.0.0.1:9464", err)
	case c.ServePprof && !c.Insecure && !cli.IsLoopback(host):
		return fmt.Errorf("pprof: %s can be reached from other machines, and profiles show data from the server's memory: "+
			"listen on 127.0.0.1, or pass --insecure only if everyone on the network is allowed to see that data", c.MetricsListenAddress)
	}
	return nil
}

// HostNames is a list of the names that a Host header may contain. In text form, the names are
// separated by commas.
type HostNames []string

var hostForm = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// UnmarshalText implements encoding.TextUnmarshaler. It refuses invalid names.
func (h *HostNames) UnmarshalText(text []byte) error {
	*h = nil
	if len(text) == 0 {
		return nil
	}
	for name := range strings.SplitSeq(string(text), ",") {
		if name = strings.TrimSpace(name); !hostForm.MatchString(name) {
			return fmt.Errorf("%q is not a host name; write the name without a scheme or a port; separate several names with commas", name)
		}
		*h = append(*h, name)
	}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (h HostNames) MarshalText() ([]byte, error) { return []byte(strings.Join(h, ",")), nil }
