package monitor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"colophon/api"
	"colophon/internal/cli"
	"colophon/internal/server"
	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/query"
	"colophon/proofs"
)

// Oracle answers questions from a copy of the log, by the same code as a server: what a
// server of this version has to answer. Nobody else can ask it: it has no address.
type Oracle struct {
	host   *ledger.Host
	index  *index.Store
	server *http.Server
	pipe   *pipeListener
	Source RemoteServer
	// UnderWay is held to read during each request: closing the server does not wait for
	// handlers, and they read the index.
	UnderWay sync.RWMutex
}

// oracleMemory is what the oracle's index takes, in bytes: the auditor as a whole has
// half a gigabyte.
const oracleMemory = 96 << 20

// NewOracle folds the first size entries of a copy into an index of its own, below dir, which
// may have some of them already. The signer is the same each time.
func NewOracle(ctx context.Context, c *cli.Console, r *replica, dir string, signer *proofs.Signer) (*Oracle, error) {
	o := &Oracle{pipe: newPipeListener()}
	if err := r.sign(signer); err != nil {
		return nil, err
	}
	database := replicaDatabase{r, signer}
	var err error
	if o.host, err = ledger.OpenHost(ctx, database, database, func(string) ledger.Config { return ledger.Config{} }); err != nil {
		return nil, fmt.Errorf("opening the copy of the log: %w", err)
	}
	if o.index, err = query.Open(index.Config{Dir: filepath.Join(dir, "index"), Log: c.Warnings(), Memory: oracleMemory}); err != nil {
		return nil, errors.Join(err, o.host.Close())
	}
	service, err := api.New(api.Config{Host: o.host, Index: o.index, Log: slog.New(slog.DiscardHandler),
		Metrics: api.NewMetrics(prometheus.NewRegistry()), Version: "replay", SpoolDir: dir})
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	o.server = service.HTTP()
	o.server.Handler = server.Locked(o.server.Handler, o.UnderWay.RLocker())
	go func() { _ = o.server.Serve(o.pipe) }() // ends when it is closed
	o.Source = RemoteServer{Url: "http://127.0.0.1", Transport: &http.Transport{DialContext: o.pipe.dial}}
	if err := o.fold(ctx, c, r); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

// fold waits until the index has all that the copy shows.
func (o *Oracle) fold(ctx context.Context, c *cli.Console, r *replica) error {
	bar := cli.NewProgress(c, int64(r.size), "indexing "+r.Name)
	defer bar.Finish()
	follower := o.index.Follower(r.Name)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := follower.Err(); err != nil {
			return fmt.Errorf("folding the log: %w", err)
		}
		size := follower.Size()
		bar.Set(size)
		if size >= r.size {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close ends the requests that are under way, waits for them, and lets go of what they
// read. Nobody may ask afterwards.
func (o *Oracle) Close() error {
	var errs []error
	if o.server != nil {
		errs = append(errs, o.server.Close())
		o.UnderWay.Lock()
	}
	return errors.Join(append(errs, o.index.Close(), o.host.Close())...)
}

// pipeListener accepts connections that are made by dial alone.
type pipeListener struct {
	connections chan net.Conn
	closed      chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{make(chan net.Conn), make(chan struct{})}
}

func (p *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.connections <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case connection := <-p.connections:
		return connection, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It is called once, by the server.
func (p *pipeListener) Close() error {
	close(p.closed)
	return nil
}

// Addr implements net.Listener.
func (p *pipeListener) Addr() net.Addr { return &net.IPAddr{IP: net.IPv4(127, 0, 0, 1)} }
