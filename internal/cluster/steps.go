package cluster

import (
	"context"
	"errors"
	"slices"
	"time"

	"colophon/ledger"
	"colophon/storage"
	"colophon/storage/postgres"
)

const (
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
	// minUnfit is how long a server waits before it tries again to take a ledger that it was unable to
	// write. Each further failure doubles the time, up to maxUnfit, because other ledgers may move when a
	// server offers to write a ledger or no longer offers to.
	minUnfit = time.Minute
	maxUnfit = time.Hour
	// openTime is how long a server that holds a lease tries to open the ledger, before it lets another server
	// that has the keys try. The cause can be a fault of this server alone, such as a file that it cannot read.
	openTime = 3 * time.Second
)

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
		p.heldBefore, p.unfitFor, p.openFailed = true, 0, time.Time{}
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
	p.heldBefore, p.since, p.openFailed = true, time.Now(), time.Time{}
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
	case !errors.Is(err, ledger.ErrDamaged) && c.mayRetry(name, p, err):
		c.log.Warn("this server has taken the lease on a ledger but cannot open the ledger yet; trying again", "ledger", name, "error", err)
		time.Sleep(beatPause)
		return
	}
	c.log.Error("this server has taken the lease on a ledger but cannot write the ledger; releasing the lease", "ledger", name, "error", err)
	c.mu.Lock()
	p.unfitFor = min(max(minUnfit, 2*p.unfitFor), maxUnfit)
	p.unfitUntil, p.openFailed = time.Now().Add(p.unfitFor), time.Time{}
	c.mu.Unlock()
	c.give(ctx, name, p, nil)
}

// mayRetry reports whether this server should keep the lease on a ledger that it failed to open with err: for
// openTime, while the database is unavailable, and while no other running server has the keys.
func (c *Member) mayRetry(name string, p *place, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.openFailed.IsZero() {
		p.openFailed = time.Now()
	}
	others := slices.ContainsFunc(c.servers, func(s postgres.RunningServer) bool {
		return s.ID != c.leases.Self().ID && slices.Contains(s.Ledgers, name)
	})
	return errors.Is(err, storage.ErrUnavailable) || time.Since(p.openFailed) < openTime || !others
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
