package ha_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// database is a PostgreSQL cluster of nodes that Patroni and etcd manage.
type database struct {
	nodes []*node
}

// node is a PostgreSQL server together with the Patroni process that manages it. The other nodes
// and the Colophon servers connect to it through lines, which are TCP relays that faults can
// disturb.
type node struct {
	name       string
	dir        string // node's folder, on its own small disk if one can be mounted
	disk       bool   // whether dir is on its own disk
	patroni    *process
	sql, rest  string  // ports of PostgreSQL and of Patroni's REST API
	peers      []*line // lines from the other nodes to this node's PostgreSQL and Patroni
	register   *line   // line from this node to etcd
	clock      string  // file with the offset of PostgreSQL's clock; "" if the clock cannot be changed
	from       []*line // line from each Colophon server to PostgreSQL
	management string  // URL of Patroni's REST API
}

// patroniConfig is a template for the configuration of Patroni. It uses the shortest times that
// Patroni 3.0 accepts: ttl must be at least loop_wait + 2 × retry_timeout. Without slots, a node that
// comes back needs the write-ahead log since it left: on a quick machine, 20 to 40 MB for each second.
const patroniConfig = `scope: colophon
name: %[1]s
restapi: {listen: 127.0.0.1:%[2]s, connect_address: %[3]s}
etcd3: {hosts: [%[4]s], use_proxies: true}
bootstrap:
  dcs:
    ttl: 10
    loop_wait: 1
    retry_timeout: 3
    maximum_lag_on_failover: 104857600
    primary_start_timeout: 15
    synchronous_mode: true
    synchronous_mode_strict: true
    postgresql: {use_pg_rewind: true, use_slots: false}
  initdb: [encoding: UTF8, locale: C, no-sync]
postgresql:
  listen: 127.0.0.1:%[5]s
  connect_address: %[6]s
  data_dir: %[7]s/data
  bin_dir: %[7]s/bin
  pgpass: %[7]s/pgpass
  authentication:
    superuser: {username: postgres}
    replication: {username: postgres}
  parameters:
    unix_socket_directories: %[7]s
    shared_buffers: 32MB
    max_connections: 100
    max_wal_size: 256MB
    min_wal_size: 64MB
    wal_keep_size: 1500MB
    wal_log_hints: "on"
    wal_sender_timeout: 5s
    wal_receiver_timeout: 5s
    wal_receiver_status_interval: 1s
    wal_retrieve_retry_interval: 500ms
  pg_hba: ["local all all trust", "host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"]
  remove_data_directory_on_rewind_failure: true
  remove_data_directory_on_diverged_timelines: true
  basebackup: {checkpoint: fast}
`

// clockWrapper is a shell script that starts PostgreSQL with a clock that can be changed. The clock is
// correct for the first two seconds, because Patroni compares the start time of PostgreSQL with the
// system clock.
const clockWrapper = `#!/bin/sh
LD_PRELOAD=%s FAKETIME_TIMESTAMP_FILE=%s FAKETIME_CACHE_DURATION=1 FAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME_DISABLE_SHM=1 \
FAKETIME_START_AFTER_SECONDS=2 exec %s/postgres "$@"
`

// startDatabase starts etcd and three nodes, and waits until both standbys are replicating. Each node
// gets one line for each server.
func startDatabase(t testing.TB, p programs, dir string, servers int) *database {
	t.Helper()
	client, peer := freePort(t), freePort(t)
	start(t, dir, "etcd", nil, p.etcd, "--name", "etcd", "--data-dir", filepath.Join(dir, "etcd"), "--enable-v2=false",
		"--listen-client-urls", "http://127.0.0.1:"+client, "--advertise-client-urls", "http://127.0.0.1:"+client,
		"--listen-peer-urls", "http://127.0.0.1:"+peer, "--initial-advertise-peer-urls", "http://127.0.0.1:"+peer,
		"--initial-cluster", "etcd=http://127.0.0.1:"+peer, "--logger", "zap", "--log-level", "error")
	d := new(database)
	for i := range 3 {
		n := &node{name: fmt.Sprintf("node%d", i+1), sql: freePort(t), rest: freePort(t)}
		n.dir = folder(t, filepath.Join(dir, n.name))
		n.disk = mountDisk(t, n.dir, "6g")
		postgres, rest := newLine(t, n.sql), newLine(t, n.rest)
		n.peers, n.register = []*line{postgres, rest}, newLine(t, client)
		n.management = "http://127.0.0.1:" + n.rest
		for range servers {
			n.from = append(n.from, newLine(t, n.sql))
		}
		n.link(t, p)
		config := fmt.Sprintf(patroniConfig, n.name, n.rest, rest.address(), n.register.address(), n.sql, postgres.address(), n.dir)
		write(t, filepath.Join(n.dir, "patroni.yml"), config, 0o600)
		n.patroni = start(t, dir, n.name, nil, p.patroni, filepath.Join(n.dir, "patroni.yml"))
		t.Cleanup(func() { n.signal(syscall.SIGKILL) })
		d.nodes = append(d.nodes, n)
	}
	require.Eventually(t, func() bool { return d.standbys() == 2 }, 3*time.Minute, 200*time.Millisecond, "the standbys do not replicate")
	return d
}

// link creates the folder from which the node runs PostgreSQL's programs. If libfaketime is available,
// clockWrapper takes the place of the program postgres.
func (n *node) link(t testing.TB, p programs) {
	t.Helper()
	bin := folder(t, filepath.Join(n.dir, "bin"))
	all, err := filepath.Glob(filepath.Join(p.postgres, "*"))
	require.NoError(t, err)
	for _, program := range all {
		if filepath.Base(program) == "postgres" && p.faketime != "" {
			n.clock = filepath.Join(filepath.Dir(n.dir), n.name+".clock")
			write(t, n.clock, "+0s\n", 0o644)
			write(t, filepath.Join(bin, "postgres"), fmt.Sprintf(clockWrapper, p.faketime, n.clock, p.postgres), 0o755)
			continue
		}
		require.NoError(t, os.Symlink(program, filepath.Join(bin, filepath.Base(program))))
	}
}

// url returns the connection string for the server with the given index. It contains the address of
// the server's line to each node.
func (d *database) url(server int) string {
	var hosts []string
	for _, n := range d.nodes {
		hosts = append(hosts, n.from[server].address())
	}
	return "postgres://colophon@" + strings.Join(hosts, ",") + "/colophon?sslmode=disable&target_session_attrs=read-write"
}

// ask opens a connection to the node that bypasses all lines, and passes it to use.
func (n *node) ask(timeout time.Duration, database string, use func(context.Context, *pgx.Conn) error) error {
	return n.askWith(timeout, database, nil, use)
}

// askWith is like ask, but also passes notices and warnings from the database to notice.
func (n *node) askWith(timeout time.Duration, database string, notice pgconn.NoticeHandler, use func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	config, err := pgx.ParseConfig("postgres://postgres@127.0.0.1:" + n.sql + "/" + database + "?sslmode=disable")
	if err != nil {
		return err
	}
	config.OnNotice = notice
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	return use(ctx, conn)
}

func (n *node) execute(database string, statements ...string) error {
	return n.ask(10*time.Second, database, func(ctx context.Context, conn *pgx.Conn) error {
		for _, statement := range statements {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

// primary returns the node that Patroni reports as the primary, or nil if there is none.
func (d *database) primary() (found *node) {
	for _, n := range d.nodes {
		if status(n.management+"/primary") == http.StatusOK {
			found = n
		}
	}
	return found
}

var quick = &http.Client{Timeout: 2 * time.Second}

// status sends a GET request and returns the status code of the response, or 0 if the request
// fails.
func status(url string) int {
	answer, err := quick.Get(url) // #nosec G107 -- of the test
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	return answer.StatusCode
}

// standbys returns how many standbys replicate from the primary. It returns 0 if none of them is synchronous.
func (d *database) standbys() (count int) {
	n := d.primary()
	if n == nil {
		return 0
	}
	_ = n.ask(2*time.Second, "postgres", func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT CASE WHEN bool_or(sync_state = 'sync') THEN count(*) ELSE 0 END FROM pg_stat_replication WHERE state = 'streaming'`).Scan(&count)
	})
	return count
}

// promote asks Patroni to make another node the primary and returns Patroni's response. Patroni may
// refuse.
func (d *database) promote() string {
	n := d.primary()
	if n == nil {
		return "there is no primary"
	}
	answer, err := quick.Post(n.management+"/switchover", "application/json", bytes.NewReader([]byte(`{"leader": "`+n.name+`"}`)))
	if err != nil {
		return "no response yet"
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return string(text)
}

// postmaster returns the PID of the node's main PostgreSQL process (the postmaster), or 0 if it is
// not running.
func (n *node) postmaster() int {
	text, err := os.ReadFile(filepath.Join(n.dir, "data", "postmaster.pid"))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, _ := strconv.Atoi(first)
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // the PID file can be stale, in which case another process may have this ID
	if err != nil || !bytes.Contains(command, []byte(n.dir)) {
		return 0
	}
	return pid
}

// signal sends a signal to Patroni and to all PostgreSQL processes of the node.
func (n *node) signal(signal syscall.Signal) {
	n.patroni.signal(signal)
	n.signalPostgres(signal)
}

// signalPostgres sends a signal to all PostgreSQL processes of the node.
func (n *node) signalPostgres(signal syscall.Signal) {
	pid := n.postmaster()
	if pid == 0 {
		return
	}
	all := children(pid)                                        // when the main process is dead, its children can no longer be found, and those that are stopped stay
	if signal == syscall.SIGSTOP || signal == syscall.SIGKILL { // signal the main process first so that it cannot start more processes
		_ = syscall.Kill(pid, signal)
	}
	for _, child := range append(all, children(pid)...) {
		_ = syscall.Kill(child, signal)
	}
	if signal == syscall.SIGCONT {
		_ = syscall.Kill(pid, signal)
	}
}

// kill kills all processes of the node and keeps Patroni from restarting for at least the given
// time.
func (n *node) kill(away time.Duration) {
	n.patroni.kill(away)
	n.signalPostgres(syscall.SIGKILL)
}

// clear undoes any lasting effects of faults on the nodes.
func (d *database) clear() {
	for _, n := range d.nodes {
		n.signal(syscall.SIGCONT)
		heal(append([]*line{n.register, n.peers[0], n.peers[1]}, n.from...)...)
		if n.clock != "" {
			_ = os.WriteFile(n.clock, []byte("+0s\n"), 0o644) // #nosec G306 -- PostgreSQL's user reads it
		}
	}
}

// probes inserts rows without using Colophon. The test thus learns when the database itself accepts
// writes, and whether it loses any of them.
type probes struct {
	up   successTimes // times at which any node acknowledged a row
	next atomic.Int64

	mu    sync.Mutex
	acked []int64 // rows that were acknowledged without a warning, which means that a standby had them; guarded by mu
}

// run repeatedly tries to insert rows into each node until ctx is done.
func (p *probes) run(ctx context.Context, group *sync.WaitGroup, d *database) {
	for _, n := range d.nodes {
		group.Go(func() {
			for ctx.Err() == nil {
				var warned atomic.Bool
				notice := func(*pgconn.PgConn, *pgconn.Notice) { warned.Store(true) }
				_ = n.askWith(5*time.Second, "postgres", notice, func(_ context.Context, conn *pgx.Conn) error {
					for ctx.Err() == nil {
						warned.Store(false)
						if err := p.insert(conn, &warned); err != nil {
							return err
						}
						time.Sleep(100 * time.Millisecond)
					}
					return nil
				})
				time.Sleep(200 * time.Millisecond)
			}
		})
	}
}

// insert inserts one row. The notice handler of conn must set warned if the database warns that it did not
// wait for a standby.
func (p *probes) insert(conn *pgx.Conn, warned *atomic.Bool) error {
	limited, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	number := p.next.Add(1)
	if _, err := conn.Exec(limited, `INSERT INTO probe VALUES ($1)`, number); err != nil {
		return err
	}
	p.up.note()
	if !warned.Load() {
		p.mu.Lock()
		p.acked = append(p.acked, number)
		p.mu.Unlock()
	}
	return nil
}

// lost returns the number of acknowledged rows that are missing from the primary, and the number of
// all acknowledged rows. If any are missing, the database itself has lost data, so no server that
// uses it can keep its promises. Versions of Patroni before 3.1 can cause this. If a newly promoted
// node does not renew its key in time, Patroni goes back to the previous primary, which lacks the
// new commits (Patroni pull request 2787).
func (p *probes) lost(d *database) (lost, of int, err error) {
	n := d.primary()
	if n == nil {
		return 0, 0, errors.New("there is no primary")
	}
	p.mu.Lock()
	acked := slices.Clone(p.acked)
	p.mu.Unlock()
	err = n.ask(10*time.Second, "postgres", func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT count(*) FROM unnest($1::bigint[]) AS a (n) WHERE NOT EXISTS (SELECT FROM probe p WHERE p.n = a.n)`, acked).Scan(&lost)
	})
	return lost, len(acked), err
}
