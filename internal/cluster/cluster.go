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
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"colophon/ledger"
	"colophon/storage/postgres"
)

const (
	// roundPause is the maximum time between two reads of the database. It bounds how far a follower lags
	// behind if it is not notified of changes.
	roundPause = 200 * time.Millisecond
	// beatPause is the time between two renewals of the leases.
	beatPause = postgres.LeaseDuration / 6
	// grace is how long other servers wait for the preferred server to take a free lease before
	// they take it themselves.
	grace = time.Second
	// settle is how long another server must have been the preferred one, and this server must have held the
	// lease, before this server passes a ledger to it. A server that repeatedly fails and restarts therefore
	// receives no ledgers, and servers that disagree about the preferred one pass a ledger back and forth only
	// rarely.
	settle = 5 * time.Second
	// followTime is the time limit for one attempt to follow a ledger.
	followTime = 10 * time.Second
	// keyCheckTTL is how long the server relies on the result of its last check for a ledger's signing
	// key.
	keyCheckTTL = 10 * time.Second
	// minUnfit is how long a server waits before it tries again to take a ledger that it was unable to
	// write. Each further failure doubles the time, up to maxUnfit, because other ledgers may move when a
	// server offers to write a ledger or no longer offers to.
	minUnfit = time.Minute
	maxUnfit = time.Hour
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
	loops   sync.WaitGroup // tracks the two background loops and Listen
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
	c.loops.Go(func() { database.Listen(running, c.hear) })
	return c, nil
}

// Wake makes this server read the state of all ledgers from the database as soon as possible. It
// never blocks.
func (c *Member) Wake() {
	c.missed.Store(true)
	c.signal()
}

// signal makes the next round begin immediately. It never blocks.
func (c *Member) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// hear records a notification that a ledger has changed. An empty name means that notifications may have been
// lost.
func (c *Member) hear(name string) {
	if c.leases.HoldsLease(name) { // this server most likely made the change
		return
	}
	if name == "" {
		c.Wake()
		return
	}
	c.mu.Lock()
	c.heard[name] = true
	c.mu.Unlock()
	c.signal()
}

// every calls f immediately, and then again after each pause and whenever it receives from wake, until ctx is
// done. It logs when f starts to fail and when it succeeds again.
func (c *Member) every(ctx context.Context, pause time.Duration, wake <-chan struct{}, f func(context.Context) error) {
	failing := false
	for ctx.Err() == nil {
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, postgres.LeaseDuration/3)
		err := f(limited)
		cancel()
		switch {
		case ctx.Err() != nil:
		case err != nil && !failing:
			c.log.Warn("the leases on ledgers cannot be read or renewed: another server can take over this server's ledgers", "error", err)
		case err != nil: // at least the second failure in a row
			c.leases.CloseStaleConnections(began, err)
		case err == nil && failing:
			c.log.Info("the leases on ledgers can be read and renewed again")
		}
		next := pause
		if failing = err != nil; failing {
			next = min(pause, roundPause)
		}
		select {
		case <-time.After(next):
		case <-wake:
		case <-ctx.Done():
		}
	}
}

// beat renews the leases, and records that this server is running.
func (c *Member) beat(ctx context.Context) error {
	if err := c.leases.Renew(ctx); err != nil {
		return err
	}
	if c.leaving.Load() {
		return nil
	}
	return c.leases.Heartbeat(ctx, c.able(ctx))
}

// able returns the names of the ledgers that this server can write. The server has the signing keys of these
// ledgers and has not recently failed to write them.
func (c *Member) able(ctx context.Context) (names []string) {
	c.mu.Lock()
	var unknown []string
	for name, p := range c.places {
		if time.Since(p.ableChecked) > keyCheckTTL {
			unknown = append(unknown, name)
		}
	}
	c.mu.Unlock()
	for _, name := range unknown {
		err := c.host.CheckSigningKeys(ctx, name)
		if ctx.Err() != nil {
			break
		}
		c.mu.Lock()
		p := c.places[name]
		if p.able != (err == nil) || p.ableChecked.IsZero() && err != nil {
			c.log.Info("checked whether this server has the signing keys of a ledger", "ledger", name, "found", err == nil, "reason", err)
		}
		p.able, p.ableChecked = err == nil, time.Now()
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, p := range c.places {
		if p.able && time.Now().After(p.unfitUntil) {
			names = append(names, name)
		}
	}
	return names
}

// round reads the ledgers named in notifications, or all ledgers if a complete round is due. It then starts
// the next step for each ledger that needs one. It does nothing if the previous round already read the change
// that triggered this round.
func (c *Member) round(ctx context.Context) error {
	c.mu.Lock()
	names := slices.Collect(maps.Keys(c.heard))
	for _, name := range names {
		if p := c.places[name]; p != nil {
			p.stale = true
		}
	}
	clear(c.heard)
	all := !time.Now().Before(c.next) || c.failed.Load()
	c.mu.Unlock()
	switch {
	case c.missed.Swap(false) || all:
		names = nil
	case len(names) == 0:
		return nil
	}
	err := c.look(ctx, names...)
	c.failed.Store(err != nil)
	if err == nil {
		c.decide(ctx)
	}
	return err
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

// look reads the states of the named ledgers. If no names are given, it reads the states of all ledgers and of
// all servers.
func (c *Member) look(ctx context.Context, names ...string) error {
	begun := time.Now()
	states, err := c.leases.States(ctx, names...)
	if err != nil {
		return err
	}
	var servers []postgres.RunningServer
	complete := len(names) == 0
	if complete {
		if servers, err = c.leases.Servers(ctx); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := complete // whether the preferred servers can have changed
	if complete {
		c.servers, c.next = c.running(servers), begun.Add(c.pause)
		c.ledgers = c.ledgers[:0]
	}
	for _, state := range states {
		p := c.places[state.Name]
		if complete || p == nil {
			c.ledgers = append(c.ledgers, state.Name)
		}
		if p == nil {
			p = &place{}
			c.places[state.Name] = p
			changed = true
		}
		// Without this check, the lease of a stopped server would not expire if the database's clock was set
		// back, or if a standby with a different clock was promoted.
		if p.renewed.IsZero() || !p.LeaseExpiry.Equal(state.LeaseExpiry) {
			p.renewed = time.Now()
		}
		if p.expired = time.Since(p.renewed) > postgres.LeaseDuration; p.expired {
			state.LeaseHolder, state.LeaseTaken = nil, false
		}
		if p.Epoch != 0 && p.Epoch != state.Epoch {
			p.changes++
		}
		p.LedgerState = state
		if state.LeaseHolder != nil {
			p.free = time.Time{}
		} else if p.free.IsZero() {
			p.free = time.Now()
		}
	}
	if changed {
		preferred := PreferredWriters(c.ledgers, c.servers)
		for name, p := range c.places {
			if now := preferred[name]; now != p.preferred {
				p.preferred, p.since = now, time.Now()
			}
		}
	}
	return nil
}

// running returns the servers that recently reported that they are running. It also measures the time
// since each report with this server's clock, because the database's clock can be wrong. The caller
// must hold c.mu.
func (c *Member) running(servers []postgres.RunningServer) []postgres.RunningServer {
	beats := make(map[string]beat, len(servers))
	for _, s := range servers {
		b, known := c.beats[s.ID]
		if !known || !b.seen.Equal(s.LastHeartbeat) {
			b = beat{seen: s.LastHeartbeat, changed: time.Now()}
		}
		beats[s.ID] = b
	}
	c.beats = beats
	return slices.DeleteFunc(servers, func(s postgres.RunningServer) bool { return time.Since(beats[s.ID].changed) > postgres.LeaseDuration })
}

// decide starts the next step for each ledger that needs one, such as taking its lease.
func (c *Member) decide(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.noNewSteps {
		return
	}
	for name, p := range c.places {
		if p.busy {
			p.again = true
			continue
		}
		if step := c.step(p); step != nil {
			p.busy = true
			c.steps.Go(func() {
				for step != nil {
					step(context.WithoutCancel(ctx), name, p)
					step = c.after(p)
				}
			})
		}
	}
}

// after returns the next step for a ledger whose current step has completed, or nil if there is none.
// There is a next step only if a round ran in the meantime. That round has read the ledger's state, so
// after need not read the database again.
func (c *Member) after(p *place) (step func(context.Context, string, *place)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.again && !c.noNewSteps {
		step = c.step(p)
	}
	p.busy, p.again = step != nil, false
	return step
}

// step returns the next step for a ledger, or nil if there is nothing to do. It is called with c.mu
// held.
func (c *Member) step(p *place) func(context.Context, string, *place) {
	held, role := c.leases.HoldsLease(p.Name), c.host.Status(p.Name)
	switch self := c.leases.Self().ID; {
	case held && role == ledger.StatusWritable:
		p.heldBefore, p.unfitFor = true, 0
		other := p.preferred != self && p.preferred != ""
		if other && time.Since(p.since) > settle && !c.leaving.Load() {
			return c.pass
		}
		return nil
	case held: // the lease was lost and taken again, or the ledger could not be opened
		return c.lead
	case role == ledger.StatusWritable, role == ledger.StatusClosed: // the lease was lost
		return c.follow
	case c.mayTake(p, self):
		return c.take
	case p.Size > 0 && (role == ledger.StatusAbsent || p.failing || p.stale || p.followed != p.Version):
		return c.follow
	}
	return nil
}

// mayTake reports whether this server should take the lease on a ledger. It is called with c.mu
// held.
func (c *Member) mayTake(p *place, self string) bool {
	if !p.able || time.Now().Before(p.unfitUntil) || c.leaving.Load() {
		return false
	}
	if p.LeaseHolder != nil {
		return p.LeaseHolder.ID == self && (!p.LeaseTaken || !p.heldBefore) // the lease was offered to this server or is left over from its earlier run
	}
	return p.preferred == self || p.preferred == "" || time.Since(p.free) > grace
}

// take takes the lease on a ledger and opens the ledger for writing.
func (c *Member) take(ctx context.Context, name string, p *place) {
	limited, cancel := context.WithTimeout(ctx, 2*postgres.LeaseDuration)
	defer cancel()
	var stale time.Time
	c.mu.Lock()
	resume := !p.heldBefore
	if p.expired {
		stale = p.LeaseExpiry
	}
	c.mu.Unlock()
	if err := c.leases.Take(limited, name, resume, stale); err != nil {
		c.log.Debug("cannot take the lease on a ledger", "ledger", name, "error", err)
		return
	}
	c.mu.Lock()
	p.heldBefore, p.since = true, time.Now()
	c.mu.Unlock()
	c.lead(ctx, name, p)
}

// lead opens a ledger for writing. This server must hold the lease on the ledger. If this server cannot write
// the ledger, lead gives up the lease, so that another server can take it.
func (c *Member) lead(ctx context.Context, name string, p *place) {
	l, err := c.host.OpenLedger(ctx, name)
	switch {
	case err == nil && c.host.Status(name) == ledger.StatusWritable:
		c.log.Info("this server now writes the ledger", "ledger", name, "size", l.Head().Size)
		return
	case err == nil:
		err = l.CheckWritable(ctx)
	case !errors.Is(err, ledger.ErrDamaged):
		c.log.Warn("this server has taken the lease on a ledger but cannot open the ledger yet; trying again", "ledger", name, "error", err)
		time.Sleep(beatPause)
		return
	}
	c.log.Error("this server has taken the lease on a ledger but cannot write the ledger; releasing the lease", "ledger", name, "error", err)
	c.mu.Lock()
	p.unfitFor = min(max(minUnfit, 2*p.unfitFor), maxUnfit)
	p.unfitUntil = time.Now().Add(p.unfitFor)
	c.mu.Unlock()
	c.give(ctx, name, p, nil)
}

// pass passes the lease on a ledger to the preferred server.
func (c *Member) pass(ctx context.Context, name string, p *place) {
	c.mu.Lock()
	to := serverOf(c.servers, p.preferred)
	c.mu.Unlock()
	if to != nil {
		c.give(ctx, name, p, to)
	}
}

func serverOf(servers []postgres.RunningServer, id string) *postgres.LedgerServer {
	for _, s := range servers {
		if s.ID == id {
			return &s.LedgerServer
		}
	}
	return nil
}

// give commits the records that a ledger has accepted, gives up the lease on it, and then follows the
// ledger. If to is not nil, the lease is offered to that server; otherwise, any server can take it.
func (c *Member) give(ctx context.Context, name string, p *place, to *postgres.LedgerServer) {
	c.host.StepDown(name)
	limited, cancel := context.WithTimeout(ctx, postgres.LeaseDuration)
	defer cancel()
	if err := c.leases.Release(limited, name, to); err != nil {
		c.log.Warn("cannot release the lease on a ledger; another server can take the ledger when the lease expires", "ledger", name, "error", err)
	} else if to != nil {
		c.log.Info("passed the ledger to another server", "ledger", name, "server", to.Address)
	}
	c.follow(ctx, name, p)
}

// follow opens a ledger that another server writes. If the ledger is already open, follow
// brings it up to date.
func (c *Member) follow(ctx context.Context, name string, p *place) {
	c.mu.Lock()
	version := p.Version
	p.stale = false // cleared before the state is read, so that a change in the meantime is not missed
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, followTime)
	defer cancel()
	var err error
	switch c.host.Status(name) {
	case ledger.StatusReadOnly:
		err = c.host.Refresh(ctx, name)
	case ledger.StatusWritable, ledger.StatusClosed:
		c.log.Info("this server no longer writes the ledger; it follows the server that does", "ledger", name)
		fallthrough
	default:
		_, err = c.host.OpenLedger(ctx, name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		if !p.failing {
			c.log.Error("cannot follow a ledger that another server writes; reads on this server return an older state", "ledger", name, "error", err)
		}
		p.failing = true
		return
	}
	p.followed, p.failing = version, false
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
