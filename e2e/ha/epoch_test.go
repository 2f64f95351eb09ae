package ha_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"colophon/proofs"
	"colophon/storage/postgres/postgrestest"
)

// TestEpoch cancels a commit's wait for the standby, so the commit becomes visible on the primary although
// no standby has it. It then kills the primary and promotes the standby. A build without epochs reads only
// the head to find out whether the commit was made. It therefore acknowledges the record, which is then
// lost. The ordinary build acknowledges the record only after the standby has it.
func TestEpoch(t *testing.T) {
	if installed, err := postgrestest.IsInstalled(); err != nil {
		t.Fatal(err)
	} else if !installed {
		t.Skip("PostgreSQL is not installed: install Debian's package postgresql")
	}
	for name, c := range map[string]struct {
		tags string
		lost bool
	}{
		"ordinary":      {"", false},
		"without epoch": {"withoutepoch", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newEpochScene(t, build(t, c.tags))
			early := s.run()
			err := s.compare()
			if c.lost {
				require.True(t, early, "the record must be acknowledged before a standby has it")
				require.ErrorContains(t, err, "LOST")
				return
			}
			require.False(t, early, "the record must not be acknowledged before a standby has it")
			require.NoError(t, err)
		})
	}
}

// epochScene is the setup of TestEpoch. It consists of a server, its primary, and a synchronous
// standby.
type epochScene struct {
	t                *testing.T
	primary, standby *postgrestest.Server
	server           *server
	clients          *clients
	history          *history
	key              *proofs.Verifier
}

func newEpochScene(t *testing.T, binary string) *epochScene {
	dir := t.TempDir()
	reachable(t, dir)
	give(t, dir)
	s := &epochScene{t: t, primary: postgrestest.Start(t)}
	s.standby = postgrestest.StartStandby(t, s.primary)
	require.NoError(t, s.primary.Execute(`ALTER SYSTEM SET synchronous_standby_names = '`+postgrestest.StandbyName+`'`, `SELECT pg_reload_conf()`))
	s.server = startServer(t, binary, s.primary.URLWithFallback(s.standby), dir, "server", func(string) {})
	s.key, s.history = s.server.verifier(t, "default"), newHistory("default")
	s.clients = &clients{servers: []*server{s.server}, histories: []*history{s.history}, acked: []*successTimes{new(successTimes)},
		http: &http.Client{Timeout: time.Minute}}
	return s
}

// post repeatedly posts a record in the background until it is acknowledged, and then closes the
// returned channel. It stops early if ctx is done.
func (s *epochScene) post(ctx context.Context, group *sync.WaitGroup) (acknowledged chan struct{}) {
	acknowledged = make(chan struct{})
	a := s.history.begin(1)[0]
	group.Go(func() {
		for s.clients.single(s.server, 0, a, false); a.receipt == nil && ctx.Err() == nil; s.clients.single(s.server, 0, a, false) {
			time.Sleep(50 * time.Millisecond)
		}
		if a.receipt != nil {
			close(acknowledged)
		}
	})
	return acknowledged
}

// patience is the time limit for waits that take milliseconds on an idle machine. It is not part of
// what is being tested.
const patience = time.Minute

func (s *epochScene) wait(done <-chan struct{}, what string) {
	s.t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		s.t.Fatal(what)
	}
}

// run performs the steps that TestEpoch describes. It reports whether the record was acknowledged
// before a standby had it.
func (s *epochScene) run() (early bool) {
	ctx, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	s.wait(s.post(ctx, &group), "the first record is not acknowledged")

	require.NoError(s.t, s.standby.StopReplication())
	second := s.post(ctx, &group)
	admin, err := pgx.Connect(ctx, s.primary.URL())
	require.NoError(s.t, err)
	defer admin.Close(ctx)
	count := func(query string) (n int) {
		require.NoError(s.t, admin.QueryRow(ctx, query).Scan(&n))
		return n
	}
	// Cancel the commit's wait for the standby, as an operator, a timeout, or a shutdown might.
	require.Eventually(s.t, func() bool {
		return count(`SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'commit'`) > 0
	}, patience, 5*time.Millisecond)
	require.Eventually(s.t, func() bool { return count(`SELECT size::int FROM colophon_heads`) == 3 }, patience, 5*time.Millisecond, "the commit must be visible")
	// Now either the record is acknowledged, or the transaction that raises the epoch is waiting for the
	// standby.
	require.Eventually(s.t, func() bool {
		select {
		case <-second:
			early = true
		default:
		}
		return early || count(`SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'commit'`) > 0
	}, patience, 5*time.Millisecond)

	require.NoError(s.t, s.primary.KillAll())
	require.NoError(s.t, s.standby.Promote())
	if !early {
		s.wait(second, "the second record is not acknowledged after the promotion")
		s.wait(s.post(ctx, &group), "the third record is not acknowledged")
	}
	return early
}

// compare compares the receipts with the log on the promoted standby.
func (s *epochScene) compare() error {
	conn, err := pgx.Connect(s.t.Context(), s.standby.URL())
	require.NoError(s.t, err)
	defer conn.Close(s.t.Context())
	return s.history.compare(s.t.Context(), conn, s.key, time.Now())
}
