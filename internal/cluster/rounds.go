package cluster

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"colophon/storage"
	"colophon/storage/postgres"
)

const (
	// roundPause is the maximum time between two reads of the database. It bounds how far a follower lags
	// behind if it is not notified of changes.
	roundPause = 200 * time.Millisecond
	// beatPause is the time between two renewals of the leases.
	beatPause = postgres.LeaseDuration / 6
	// keyCheckTTL is how long the server relies on the result of its last check for a ledger's signing
	// key.
	keyCheckTTL = 10 * time.Second
	// keyCheckTime limits the time in which the server checks the keys of all ledgers. The next check continues
	// where this one ends.
	keyCheckTime = 5 * time.Second
)

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
	return c.leases.Heartbeat(ctx, c.able())
}

// watchKeys calls checkKeys again and again, until ctx is done. Heartbeats do not wait for it, because it
// reads the database over the connections for reads, and queries can hold all of these.
func (c *Member) watchKeys(ctx context.Context) {
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, keyCheckTime)
		c.checkKeys(limited)
		cancel()
		select {
		case <-time.After(beatPause):
		case <-ctx.Done():
		}
	}
}

// checkKeys determines for which ledgers this server has the signing keys, unless it has done so recently.
func (c *Member) checkKeys(ctx context.Context) {
	if c.leaving.Load() {
		return
	}
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
		if ctx.Err() != nil || errors.Is(err, storage.ErrUnavailable) {
			return // what was last found out stays valid until the database answers
		}
		c.mu.Lock()
		p := c.places[name]
		if p.able != (err == nil) || p.ableChecked.IsZero() && err != nil {
			c.log.Info("checked whether this server has the signing keys of a ledger", "ledger", name, "found", err == nil, "reason", err)
		}
		p.able, p.ableChecked = err == nil, time.Now()
		c.mu.Unlock()
	}
}

// able returns the names of the ledgers that this server can write. The server has the signing keys of these
// ledgers and has not recently failed to write them.
func (c *Member) able() (names []string) {
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
