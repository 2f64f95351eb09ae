package ha_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"colophon/proofs"
)

const (
	// maxOutage is the longest time that a ledger may go without an acknowledged write. Time during which the
	// database itself accepts no writes does not count.
	maxOutage = 10 * time.Second
	// minCheckedRun is the minimum duration of a run in which an outage longer than maxOutage is an error. A
	// shorter run only logs the outage, which other work on the machine can cause.
	minCheckedRun = 5 * time.Minute
	// settleTime is the time limit for everything to recover after a fault.
	settleTime = 2 * time.Minute
)

// TestCampaign injects random faults while clients use the servers. It runs one campaign per seed.
func TestCampaign(t *testing.T) {
	p := findPrograms(t)
	for i := range settings.seeds {
		seed := settings.seed + uint64(i)
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { campaign(t, p, seed) })
	}
}

func campaign(t *testing.T, p programs, seed uint64) {
	dir := t.TempDir()
	reachable(t, dir)
	give(t, dir)
	reaper(t, dir)
	binary := build(t, strings.Trim("injectedclock,"+settings.tags, ","))
	w := &world{database: startDatabase(t, p, dir, 3)}
	w.servers = startServers(t, binary, w.database, dir, 3)
	t.Cleanup(w.clear)

	stop, endWriting := context.WithCancel(context.Background())
	quit, giveUp := context.WithCancel(context.Background())
	watched, endWatching := context.WithCancel(context.Background())
	var writing, watching sync.WaitGroup
	defer func() {
		endWriting()
		giveUp()
		endWatching()
		writing.Wait()
		watching.Wait()
	}()
	c := &clients{servers: w.servers, stop: stop, quit: quit}
	keys := make([]*proofs.Verifier, len(ledgers))
	var audits []*process
	for i, name := range ledgers {
		h := newHistory(name)
		c.histories, c.acked = append(c.histories, h), append(c.acked, new(successTimes))
		keys[i] = w.servers[0].verifier(t, name)
		watch(watched, &watching, w.servers, keys[i], h)
		witness(watched, &watching, w.servers, keys[i], h)
		audits = append(audits, follow(t, binary, dir, w.servers[i%len(w.servers)], keys[i], name))
	}
	probes := new(probes)
	probes.run(watched, &watching, w.database)
	defer func() {
		lost, of, err := probes.lost(w.database)
		switch {
		case err != nil:
			t.Logf("counting the test's own insertions: %v", err)
		case lost > 0:
			t.Errorf("the database itself has lost %d of %d insertions that it had acknowledged after a standby had them; this run does not show anything about Colophon", lost, of)
		default:
			t.Logf("the database has all %d of the test's own insertions that it acknowledged", of)
		}
	}()
	begin := time.Now()
	c.write(&writing, seed)
	well := func(since time.Time) bool {
		for _, acked := range c.acked {
			if !acked.after(since) {
				return false
			}
		}
		return probes.up.after(since)
	}
	require.Eventually(t, func() bool { return well(begin) }, settleTime, 50*time.Millisecond, "no write is acknowledged before the first fault")

	// The audit command exits if its first attempt fails, but retries later ones. Wait until every audit has
	// succeeded once.
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(audits, func(a *process) bool { return !strings.Contains(tail(a.log, 1<<20), ": clean") })
	}, settleTime, 50*time.Millisecond, "an audit has not finished before the first fault")

	r := rand.New(rand.NewPCG(seed, 0)) // #nosec G404 -- cases of tests
	from := time.Now()
	var deck []fault
	count := 0
	for until := from.Add(settings.lasts); time.Now().Before(until) && !t.Failed(); {
		if len(deck) == 0 {
			for _, i := range r.Perm(len(faults)) {
				if strings.Contains(faults[i].name, settings.only) {
					deck = append(deck, faults[i])
				}
			}
			require.NotEmpty(t, deck, "HA_ONLY names no fault")
		}
		one := deck[0]
		deck = deck[1:]
		began := time.Now()
		what := one.run(w, r)
		ended := time.Now()
		if what == "" {
			what = "not possible now, or on this machine"
		} else {
			count++
		}
		// Lasting faults, such as a wrong clock, are still in effect here.
		require.Eventually(t, func() bool { return well(ended) }, settleTime, 50*time.Millisecond, "%s, %s: the ledgers do not accept writes again", one.name, what)
		t.Logf("%6.1fs %s: %s; recovered %.1fs after its end", began.Sub(from).Seconds(), one.name, what, time.Since(ended).Seconds())
		time.Sleep(between(r, 500*time.Millisecond, 3*time.Second))
	}
	require.Positive(t, count, "no fault was injected")
	to := time.Now()
	w.clear()
	endWriting()
	time.AfterFunc(settleTime, giveUp)
	writing.Wait()
	for _, a := range audits {
		if a.started() > 1 {
			t.Errorf("%s has exited:\n%s", a.name, tail(a.log, 2000))
		}
		a.end(syscall.SIGINT)
	}
	endWatching()
	watching.Wait()

	down := probes.up.gaps(from, to, 700*time.Millisecond)
	report(t, c, down, from, to, count)
	inspect(t, w, c, keys, begin, binary)
}

// reachable lets other users traverse a temporary folder and its parents.
func reachable(t testing.TB, dir string) {
	t.Helper()
	for path := dir; len(path) > len(os.TempDir()); path = filepath.Dir(path) {
		require.NoError(t, os.Chmod(path, 0o711)) // #nosec G302 -- of the test
	}
}

// report logs how long each ledger went without an acknowledged write, and how much of that time the
// database accepted insertions. In a run that is long enough, exceeding maxOutage is an error.
func report(t *testing.T, c *clients, down []gap, from, to time.Time, count int) {
	t.Helper()
	var sum time.Duration
	for _, g := range down {
		sum += g.length()
	}
	t.Logf("%d faults in %.0f s; the database accepted no insertion for %.0f s in all", count, to.Sub(from).Seconds(), sum.Seconds())
	for i, h := range c.histories {
		var longest, worst gap
		for _, g := range c.acked[i].gaps(from, to, time.Second) {
			if g.length() > longest.length() {
				longest = g
			}
			if g.outside(down) > worst.outside(down) {
				worst = g
			}
			if g.outside(down) > 5*time.Second {
				t.Logf("ledger %s: no acknowledged write for %.1f s from %.1f s on, %.1f s of them while the database accepted insertions",
					h.ledger, g.length().Seconds(), g.from.Sub(from).Seconds(), g.outside(down).Seconds())
			}
		}
		sent, acknowledged := h.counts()
		t.Logf("ledger %s: %d records, %d acknowledged, %d sizes signed; the longest time without an acknowledged write was %.1f s, and %.1f s if the database accepted insertions",
			h.ledger, sent, acknowledged, len(h.checkpoints), longest.length().Seconds(), worst.outside(down).Seconds())
		if settings.lasts >= minCheckedRun && worst.outside(down) > maxOutage {
			t.Errorf("ledger %s: no acknowledged write for %.1f s in which the database accepted insertions", h.ledger, worst.outside(down).Seconds())
		}
	}
}

// inspect compares the final state of the ledgers with what clients and witnesses observed. It also runs the
// audit and fsck commands.
func inspect(t *testing.T, w *world, c *clients, keys []*proofs.Verifier, begin time.Time, binary string) {
	t.Helper()
	primary := w.database.primary()
	require.NotNil(t, primary)
	for i, h := range c.histories {
		if sent, acknowledged := h.counts(); sent != acknowledged {
			t.Errorf("ledger %s: the number of records that were never acknowledged is %d", h.ledger, sent-acknowledged)
		}
		err := primary.ask(2*time.Minute, "colophon", func(ctx context.Context, conn *pgx.Conn) error {
			return h.compare(ctx, conn, keys[i], begin)
		})
		if err != nil {
			t.Errorf("ledger %s: %v", h.ledger, err)
		}
		audit := exec.Command(binary, "audit", w.servers[0].url+"/v1/ledgers/"+h.ledger, "--key", keys[i].String()) // #nosec G204 -- of the test
		if out, err := audit.CombinedOutput(); err != nil {
			t.Errorf("audit of ledger %s: %v\n%s", h.ledger, err, out)
		}
	}
	for _, s := range w.servers {
		s.end(syscall.SIGTERM)
		s.supervise.Wait()
	}
	fsck := exec.Command(binary, "fsck", "--data", w.servers[0].data) // #nosec G204 -- of the test
	fsck.SysProcAttr = &syscall.SysProcAttr{Credential: account(t)}
	fsck.Env = append(fsck.Environ(), "COLOPHON_STORE="+w.database.url(0))
	if out, err := fsck.CombinedOutput(); err != nil {
		t.Errorf("fsck: %v\n%s", err, out)
	}
}
