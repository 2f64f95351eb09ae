package ha_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// fault is a kind of failure. run causes a failure, waits until it ends if it is temporary, and
// describes what happened. It returns "" if the failure is not possible.
type fault struct {
	name string
	run  func(w *world, r *rand.Rand) (what string)
}

// faults lists all kinds of faults. Each is chosen equally often.
var faults = []fault{
	{"kill a server", killServer},
	{"kill all servers", killServers},
	{"stop a server", stopServer},
	{"cut a server off", cutServer},
	{"connections to a server", troubleServer},
	{"connections from a server to databases", troubleStore},
	{"a server's disk is full", fillServer},
	{"a server's clock", jumpServer},
	{"kill PostgreSQL", killPostgres},
	{"kill a node", killNode},
	{"stop a node", stopNode},
	{"connections between nodes", troublePeers},
	{"a node without etcd", cutRegister},
	{"isolate a node", isolateNode},
	{"promotion", promote},
	{"a node's disk is full", fillNode},
	{"a node's clock", jumpNode},
	{"cancelled waits", cancelWaits},
	{"commits that only the primary has", loseReplicas},
}

// world contains everything that faults act on.
type world struct {
	database *database
	servers  []*server
}

func (w *world) clear() {
	w.database.clear()
	for _, s := range w.servers {
		s.clear()
	}
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// between returns a random duration in the range [least, most), rounded to milliseconds.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return (least + time.Duration(r.Int64N(int64(most-least)))).Round(time.Millisecond)
}

// victim returns a random node, usually the primary. It also returns the node's name for use in log
// messages.
func (w *world) victim(r *rand.Rand) (*node, string) {
	n := pick(r, w.database.nodes)
	primary := w.database.primary()
	if primary != nil && r.IntN(3) > 0 {
		n = primary
	}
	if n == primary {
		return n, n.name + " (primary)"
	}
	return n, n.name
}

// trouble cuts, stalls, or delays all of the given lines for a few seconds.
func trouble(r *rand.Rand, lines ...*line) string {
	lasts := between(r, time.Second, 8*time.Second)
	defer heal(lines...)
	how := r.IntN(3)
	slow := between(r, 20*time.Millisecond, 400*time.Millisecond)
	for _, l := range lines {
		switch how {
		case 0:
			l.cut()
		case 1:
			l.stall()
		case 2:
			l.delay(slow)
		}
	}
	time.Sleep(lasts)
	return fmt.Sprintf("%s for %v", []string{"cut", "silent", fmt.Sprintf("slower by %v", slow)}[how], lasts)
}

func killServer(w *world, r *rand.Rand) string {
	s, away := pick(r, w.servers), between(r, 0, 6*time.Second)
	s.kill(away)
	time.Sleep(away)
	return fmt.Sprintf("%s for %v", s.name, away)
}

func killServers(w *world, r *rand.Rand) string {
	away := between(r, 0, 2*time.Second)
	for _, s := range w.servers {
		s.kill(away)
	}
	time.Sleep(away)
	return fmt.Sprintf("for %v", away)
}

func stopServer(w *world, r *rand.Rand) string {
	s, lasts := pick(r, w.servers), between(r, 500*time.Millisecond, 10*time.Second)
	s.signal(syscall.SIGSTOP)
	time.Sleep(lasts)
	s.signal(syscall.SIGCONT)
	return fmt.Sprintf("%s for %v", s.name, lasts)
}

// cutServer disturbs all lines to and from one server at the same time.
func cutServer(w *world, r *rand.Rand) string {
	i := r.IntN(len(w.servers))
	lines := []*line{w.servers[i].line}
	for _, n := range w.database.nodes {
		lines = append(lines, n.from[i])
	}
	return w.servers[i].name + " " + trouble(r, lines...)
}

func troubleServer(w *world, r *rand.Rand) string {
	s := pick(r, w.servers)
	return s.name + " " + trouble(r, s.line)
}

// troubleStore disturbs the lines from one server to one or more nodes, or from two servers to one
// node.
func troubleStore(w *world, r *rand.Rand) string {
	i := r.IntN(len(w.servers))
	what, lines := w.servers[i].name+" to ", []*line(nil)
	n, name := w.victim(r)
	switch r.IntN(3) {
	case 0:
		what, lines = what+"all nodes ", nil
		for _, n := range w.database.nodes {
			lines = append(lines, n.from[i])
		}
	case 1:
		what, lines = what+name+" ", []*line{n.from[i]}
	case 2:
		j := (i + 1) % len(w.servers)
		what, lines = what+name+", "+w.servers[j].name+" too, ", []*line{n.from[i], n.from[j]}
	}
	return what + trouble(r, lines...)
}

func fillServer(w *world, r *rand.Rand) string {
	s := pick(r, w.servers)
	if !s.disk {
		return ""
	}
	return s.name + fillFor(s.data, between(r, 500*time.Millisecond, 8*time.Second))
}

func fillNode(w *world, r *rand.Rand) string {
	n, name := w.victim(r)
	if !n.disk {
		return ""
	}
	return name + fillFor(n.dir, between(r, 500*time.Millisecond, 8*time.Second))
}

func fillFor(dir string, lasts time.Duration) string {
	empty, err := fill(dir)
	if err != nil {
		return ": " + err.Error()
	}
	time.Sleep(lasts)
	empty()
	return fmt.Sprintf(" for %v", lasts)
}

// jumpServer sets a server's clock back, or ahead by less than one day. An audit rejects events
// that are more than one day ahead.
func jumpServer(w *world, r *rand.Rand) string {
	s, jump := pick(r, w.servers), pick(r, jumps)
	s.setClock(jump)
	return fmt.Sprintf("%s by %v from now on", s.name, jump)
}

var jumps = []time.Duration{-40 * time.Hour, -time.Hour, -5 * time.Second, 0, 5 * time.Second, time.Hour, 20 * time.Hour}

func jumpNode(w *world, r *rand.Rand) string {
	n, name := w.victim(r)
	if n.clock == "" {
		return ""
	}
	jump := pick(r, jumps)
	_ = os.WriteFile(n.clock, fmt.Appendf(nil, "%+ds\n", int(jump.Seconds())), 0o644) // #nosec G306 -- PostgreSQL's user reads it
	time.Sleep(3 * time.Second)
	return fmt.Sprintf("%s by %v from now on", name, jump)
}

// killPostgres kills a node's main PostgreSQL process. Patroni then restarts PostgreSQL or promotes
// another node.
func killPostgres(w *world, r *rand.Rand) string {
	n, name := w.victim(r)
	if pid := n.postmaster(); pid != 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return name
}

func killNode(w *world, r *rand.Rand) string {
	n, name := w.victim(r)
	away := between(r, 0, 20*time.Second)
	n.kill(away)
	time.Sleep(away)
	return fmt.Sprintf("%s for %v", name, away)
}

// watchdog is the longest time for which a node is stopped before the test kills it, as the watchdog of a
// machine resets the machine if Patroni stops. It is Patroni's default: 5 s before the leader key expires.
// Without a watchdog, Patroni 3.0 can return to the old primary and lose commits (docs/servers.md).
const watchdog = 5 * time.Second

func stopNode(w *world, r *rand.Rand) string {
	n, name := w.victim(r)
	lasts := between(r, 500*time.Millisecond, 20*time.Second)
	n.signal(syscall.SIGSTOP)
	time.Sleep(min(lasts, watchdog))
	if lasts <= watchdog {
		n.signal(syscall.SIGCONT)
		return fmt.Sprintf("%s for %v", name, lasts)
	}
	n.kill(lasts - watchdog)
	time.Sleep(lasts - watchdog)
	return fmt.Sprintf("%s for %v, killed by its watchdog", name, lasts)
}

func troublePeers(w *world, r *rand.Rand) string {
	n, name := w.victim(r)
	return name + " " + trouble(r, n.peers...)
}

func cutRegister(w *world, r *rand.Rand) string {
	n, name := w.victim(r)
	return name + " " + trouble(r, n.register)
}

// isolateNode stalls all lines to and from a node, sometimes for so long that another node is
// promoted.
func isolateNode(w *world, r *rand.Rand) string {
	n, name := w.victim(r)
	lasts := between(r, time.Second, 20*time.Second)
	lines := append([]*line{n.register, n.peers[0], n.peers[1]}, n.from...)
	for _, m := range w.database.nodes { // the node must not be able to reach the other nodes either
		if m != n {
			lines = append(lines, m.peers...)
		}
	}
	for _, l := range lines {
		l.stall()
	}
	time.Sleep(lasts)
	heal(lines...)
	return fmt.Sprintf("%s for %v", name, lasts)
}

func promote(w *world, _ *rand.Rand) string { return w.database.promote() }

// cancelWaits slows down replication and repeatedly cancels the waits of commits for the standby.
func cancelWaits(w *world, r *rand.Rand) string {
	n := w.database.primary()
	if n == nil {
		return ""
	}
	for _, l := range n.peers {
		l.delay(200 * time.Millisecond)
	}
	defer heal(n.peers...)
	cancelled := n.cancel(between(r, time.Second, 4*time.Second))
	return fmt.Sprintf("%d on %s", cancelled, n.name)
}

// cancel keeps cancelling, for the given time, every wait of a Colophon commit for the standby. It
// returns how many waits it has cancelled.
func (n *node) cancel(lasts time.Duration) (cancelled int) {
	_ = n.ask(lasts+time.Second, "postgres", func(ctx context.Context, conn *pgx.Conn) error {
		for until := time.Now().Add(lasts); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
			var now int
			err := conn.QueryRow(ctx, `SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = 'colophon'`).Scan(&now)
			if err != nil {
				return err
			}
			cancelled += now
		}
		return nil
	})
	return cancelled
}

// loseReplicas cuts replication and cancels the waits for the standby, so that commits become visible
// although no standby has them. Soon afterwards it kills the primary, and Patroni promotes another node.
func loseReplicas(w *world, r *rand.Rand) string {
	n := w.database.primary()
	if n == nil {
		return ""
	}
	// If Patroni kept running, it could notice in time that no standby can be promoted.
	n.patroni.signal(syscall.SIGSTOP)
	for _, l := range n.peers {
		l.cut()
	}
	defer heal(n.peers...)
	cancelled := n.cancel(between(r, 200*time.Millisecond, 600*time.Millisecond))
	away := between(r, 13*time.Second, 18*time.Second) // longer than the primary's leader key in etcd remains valid
	n.kill(away)
	time.Sleep(away)
	return fmt.Sprintf("%d on %s, which is away for %v", cancelled, n.name, away)
}
