// Package cluster coordinates the servers that share a database. For each ledger, only the server
// that holds the lease writes to the ledger, and the other servers follow it; see postgres.Leases.
// A server can take a free lease if it has the ledger's signing key. If several servers have the
// key, rendezvous hashing with bounded load chooses the preferred one. Any other server that holds the
// lease passes it to the preferred server.
package cluster

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"colophon/ledger"
	"colophon/storage/postgres"
)

// Member represents this server among the servers that share one database. If the database is
// open for reading only, this server takes no lease, and the others do not see it. Its methods are
// safe for concurrent use.
type Member struct {
	leases *postgres.Leases
	host   *ledger.Host
	log    *slog.Logger
	pause  time.Duration // time between two rounds if nothing wakes the server
	wake   chan struct{} // holds a token if the next round must start immediately

	stop    context.CancelFunc
	loops   sync.WaitGroup // tracks the three background loops and Listen
	steps   sync.WaitGroup // tracks the goroutines started by decide
	leaving atomic.Bool    // set once the server takes no more leases
	failed  atomic.Bool    // the last round failed
	missed  atomic.Bool    // the next round must read all ledgers, because notifications may have been lost or Wake was called

	mu         sync.Mutex
	noNewSteps bool                     // set by FinishRoleChanges to prevent new steps; guarded by mu
	places     map[string]*place        // keyed by ledger name; guarded by mu
	ledgers    []string                 // names of all ledgers, from the oldest to the newest; guarded by mu
	servers    []postgres.RunningServer // servers found in the last complete round; guarded by mu
	beats      map[string]beat          // last beat of each server, keyed by ID; guarded by mu
	heard      map[string]bool          // ledgers named in notifications since the last round; guarded by mu
	next       time.Time                // when the next complete round is due; guarded by mu
}

// beat records when a server last reported that it is running.
type beat struct {
	seen    time.Time // time of the beat, by the database's clock
	changed time.Time // when this server noticed that seen had changed, by this server's clock
}

// place is what this server knows about a ledger.
type place struct {
	postgres.LedgerState               // state of the ledger when it was last read
	busy                 bool          // a step for this ledger is running
	stale                bool          // a notification says that the ledger has changed; needed because two changes can restore the same Version
	again                bool          // a round ran while busy was set, so another step may be needed
	heldBefore           bool          // this server has already held the lease in this run, so it must not resume one from an earlier run
	renewed              time.Time     // when this server last saw the lease change, by this server's clock
	expired              bool          // the lease has expired by this server's clock, so it counts as free even if the database's clock disagrees
	free                 time.Time     // when the lease became free; zero while it is taken
	preferred            string        // ID of the server that was preferred in the last round
	since                time.Time     // when preferred last changed, or when this server last took the lease
	followed             string        // Version of the ledger that this server has caught up with
	failing              bool          // the last attempt to follow the ledger failed
	able                 bool          // this server can sign for the ledger
	ableChecked          time.Time     // when able was last determined
	openFailed           time.Time     // when this server first failed to open the ledger while it held the lease; zero if it has not
	unfitUntil           time.Time     // this server does not try to take the ledger before this time
	unfitFor             time.Duration // how long this server last waited because it was unable to write the ledger
	changes              uint64        // number of epoch changes that this server has seen
}

// Start makes this server share the ledgers of a database with other servers. Before it returns, this
// server takes every lease that it can take, including leases that it still holds from an earlier run.
func Start(ctx context.Context, database *postgres.Database, host *ledger.Host, log *slog.Logger) (*Member, error) {
	return start(ctx, database, host, log, roundPause)
}

func start(ctx context.Context, database *postgres.Database, host *ledger.Host, log *slog.Logger, pause time.Duration) (*Member, error) {
	leases := database.Leases()
	c := &Member{leases: leases, host: host, log: log, pause: pause, wake: make(chan struct{}, 1), places: make(map[string]*place), heard: make(map[string]bool)}
	c.leaving.Store(leases.ReadOnly())
	// Two rounds are necessary because the server does not know which ledgers it has keys for until
	// the first one is complete.
	for range 2 {
		if err := c.look(ctx); err != nil {
			return nil, err
		}
		c.checkKeys(ctx)
		if err := c.beat(ctx); err != nil {
			return nil, err
		}
	}
	running, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.decide(running)
	c.steps.Wait()
	c.loops.Go(func() { c.every(running, c.pause, c.wake, c.round) })
	c.loops.Go(func() { c.every(running, beatPause, nil, c.beat) })
	c.loops.Go(func() { c.watchKeys(running) })
	c.loops.Go(func() { database.Listen(running, c.hear) })
	return c, nil
}

// StalenessError returns an error if this server may be showing an outdated state of a ledger that
// another server writes. The error does not name the ledger.
func (c *Member) StalenessError() error {
	if c.failed.Load() {
		return errors.New("the database does not respond; see the server's log for the cause")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.places {
		if p.failing {
			return errors.New("the server cannot follow a ledger, so reads return an older state; see the server's log for the ledger's name and the cause")
		}
	}
	return nil
}

// WriterAddress returns the address of the other server that writes a ledger. The address is empty
// if no server currently writes the ledger. ok is false if this server writes the ledger or does
// not know it.
func (c *Member) WriterAddress(name string) (address string, ok bool) {
	if role := c.host.Status(name); role == ledger.StatusWritable || role == ledger.StatusAbsent {
		return "", false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.places[name]
	if p == nil || p.LeaseHolder == nil || p.LeaseHolder.ID == c.leases.Self().ID {
		return "", true
	}
	return p.LeaseHolder.Address, true
}

// TransferLeases passes each lease that this server holds to another running server that has the
// ledger's key, if there is one. From then on, this server takes no more leases.
func (c *Member) TransferLeases(ctx context.Context) {
	c.leaving.Store(true)
	c.mu.Lock()
	others := slices.DeleteFunc(slices.Clone(c.servers), func(s postgres.RunningServer) bool { return s.ID == c.leases.Self().ID })
	preferred := PreferredWriters(c.ledgers, others)
	c.mu.Unlock()
	for _, l := range c.host.Ledgers() {
		to := serverOf(others, preferred[l.Name()])
		c.mu.Lock()
		p := c.places[l.Name()]
		begun := p != nil && to != nil && !p.busy && c.host.Status(l.Name()) == ledger.StatusWritable
		if begun {
			p.busy = true
		}
		c.mu.Unlock()
		if !begun {
			continue
		}
		c.give(ctx, l.Name(), p, to)
		c.mu.Lock()
		p.busy = false
		c.mu.Unlock()
	}
}

// FinishRoleChanges waits until no ledger is changing its role on this server, and prevents further
// changes. The server still renews its leases. FinishRoleChanges must be called before the host is
// closed.
func (c *Member) FinishRoleChanges() {
	c.mu.Lock()
	c.noNewSteps = true
	c.mu.Unlock()
	c.steps.Wait()
}

// Close stops sharing the ledgers and releases the leases that this server holds. The caller must
// close the host first, so that nothing is being written anymore.
func (c *Member) Close() error {
	c.leaving.Store(true)
	c.stop()
	c.loops.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), postgres.LeaseDuration)
	defer cancel()
	for _, l := range c.host.Ledgers() {
		if c.leases.HoldsLease(l.Name()) {
			if err := c.leases.Release(ctx, l.Name(), nil); err != nil {
				c.log.Warn("cannot release the lease on a ledger; another server can take the ledger when the lease expires", "ledger", l.Name(), "error", err)
			}
		}
	}
	if c.leases.ReadOnly() {
		return nil
	}
	return c.leases.Unregister(ctx)
}
