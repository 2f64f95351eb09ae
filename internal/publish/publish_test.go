package publish_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"colophon/api"
	"colophon/internal/publish"
	"colophon/internal/publish/bucket"
	"colophon/internal/publish/bucket/buckettest"
	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/keystore"
	"colophon/ledger/query"
	"colophon/ledger/record"
	"colophon/proofs"
	"colophon/storage"
	"colophon/storage/memory"
)

// node is a host with the public ledger "default", and a server for it, whose answers the
// tests compare the copy with.
type node struct {
	t      testing.TB
	host   *ledger.Host
	ledger *ledger.Ledger
	url    string
}

func open(t testing.TB, database storage.Database, keys string) *node {
	t.Helper()
	host, err := ledger.OpenHost(t.Context(), database, keystore.Files{Dir: keys}, func(string) ledger.Config { return ledger.Config{} })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, host.Close()) })
	l, err := host.Ledger(ledger.Default)
	if err != nil {
		l, err = host.Create(t.Context(), ledger.New{Name: ledger.Default})
	}
	require.NoError(t, err)
	require.NoError(t, l.SetPublic(t.Context(), true))
	store, err := query.Open(index.Config{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	service, err := api.New(api.Config{Host: host, Index: store, SpoolDir: t.TempDir(), Version: "test"})
	require.NoError(t, err)
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	return &node{t: t, host: host, ledger: l, url: server.URL}
}

func newNode(t testing.TB) *node { return open(t, memory.New(), t.TempDir()) }

// grow adds records until the log has a size.
func (n *node) grow(size uint64) {
	n.t.Helper()
	const writers = 1000
	for n.ledger.Head().Size < size {
		var all sync.WaitGroup
		for range min(writers, size-n.ledger.Head().Size) {
			all.Go(func() { assert.NoError(n.t, n.write()) })
		}
		all.Wait()
	}
	require.Equal(n.t, size, n.ledger.Head().Size)
}

// write adds a record.
func (n *node) write() error {
	r, err := record.DefaultLimits().Parse(record.IPCRecord, []byte(`{"payload":{"seed":1},"output":"x","model":"m","temperature":0.5,"max_tokens":10}`))
	if err != nil {
		return err
	}
	defer r.Release()
	sub, err := n.ledger.Prepare(r, ledger.Anonymous, "")
	if err == nil {
		_, err = n.ledger.Submit(sub)
	}
	return err
}

// options are quick ones.
func options(b bucket.Bucket) publish.Options {
	return publish.Options{Bucket: b, Place: "memory", Log: slog.New(slog.DiscardHandler), Timeout: time.Minute, Longest: time.Millisecond}
}

// publish begins to publish the node's ledgers until stop is called. With a bucket in memory,
// it checks after each write that everything that the checkpoint covers is there.
func (n *node) publish(o publish.Options) (p *publish.Publisher, stop func()) {
	n.t.Helper()
	if b, is := o.Bucket.(*buckettest.Memory); is {
		b.Written = func(name string, objects map[string][]byte) {
			if name == prefix+"checkpoint" {
				assert.NoError(n.t, checkCovered(objects))
			}
		}
	}
	p = publish.New(o)
	require.NoError(n.t, n.host.OnOpen(p.Open))
	var once sync.Once
	stop = func() { once.Do(p.Close) }
	n.t.Cleanup(stop)
	return p, stop
}

// wait waits until a bucket has the checkpoint of the ledger's head.
func (n *node) wait(b *buckettest.Memory) {
	n.t.Helper()
	require.Eventually(n.t, func() bool {
		return bytes.Equal(b.Objects()[prefix+"checkpoint"], n.ledger.Head().Checkpoint)
	}, time.Minute, time.Millisecond)
}

const prefix = "v1/ledgers/default/log/"

// get returns an answer of the server.
func (n *node) get(path string) (int, []byte) {
	n.t.Helper()
	response, err := http.Get(n.url + path) //nolint:noctx // a local server
	require.NoError(n.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(n.t, err)
	return response.StatusCode, body
}

// wantCopy requires that every object equals the server's answer at its path, and that
// everything that the head's checkpoint covers is there.
func (n *node) wantCopy(objects map[string][]byte) {
	n.t.Helper()
	n.wantObjects(objects)
	require.Equal(n.t, string(n.ledger.Head().Checkpoint), string(objects[prefix+"checkpoint"]))
	n.wantCovered(objects)
}

func (n *node) wantObjects(objects map[string][]byte) {
	n.t.Helper()
	for name, body := range objects {
		if name == "colophon-probe" || strings.HasSuffix(name, "/checkpoint") {
			continue
		}
		status, served := n.get("/" + name)
		require.Equal(n.t, http.StatusOK, status, "%s: %s", name, served)
		require.True(n.t, bytes.Equal(served, body), "%s is %q, served is %q", name, body, served)
	}
}

// wantCovered requires that everything is there that the checkpoint covers, if there is one.
func (n *node) wantCovered(objects map[string][]byte) {
	n.t.Helper()
	require.NoError(n.t, checkCovered(objects))
}

func checkCovered(objects map[string][]byte) error {
	text := objects[prefix+"checkpoint"]
	if text == nil {
		return nil
	}
	keys, err := proofs.ParseLogKey(objects[prefix+"key"])
	if err != nil {
		return err
	}
	checkpoint, err := proofs.OpenCheckpoint(text, keys.Verifiers()...)
	if err != nil {
		return err
	}
	for _, tile := range tlog.NewTiles(8, 0, int64(checkpoint.Size)) {
		path := strings.Replace(tile.Path(), "tile/8/", "tile/", 1)
		for _, name := range []string{path, strings.Replace(path, "tile/0/", "tile/entries/", 1)} {
			if objects[prefix+name] == nil {
				return fmt.Errorf("%s is missing at size %d", name, checkpoint.Size)
			}
		}
	}
	return nil
}

// sizes are around tiles that fill.
var sizes = []uint64{1, 2, 3, 255, 256, 257, 511, 512, 513, 600}

// The copy has every byte that the server serves, at every size.
func TestCopyEqualsLog(t *testing.T) {
	n, b := newNode(t), new(buckettest.Memory)
	n.publish(options(b))
	for _, size := range sizes {
		n.grow(size)
		n.wait(b)
		n.wantCopy(b.Objects())
	}
}

// A log with full tiles of two levels is published at once, and from a smaller size.
func TestLargeCopy(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	n, b, small := newNode(t), new(buckettest.Memory), new(buckettest.Memory)
	n.grow(300)
	_, stop := n.publish(options(small))
	n.wait(small)
	stop()
	n.grow(66_000)
	n.publish(options(b))
	n.publish(options(small))
	n.wait(b)
	n.wait(small)
	for _, objects := range []map[string][]byte{b.Objects(), small.Objects()} {
		n.wantCovered(objects)
	}
	n.wantCopy(b.Objects())
}

// A change of keys is published together with the checkpoint that covers it.
func TestKeysArePublished(t *testing.T) {
	n, b := newNode(t), new(buckettest.Memory)
	n.publish(options(b))
	n.grow(3)
	_, err := n.host.RotateKey(t.Context(), ledger.Default, "a test")
	require.NoError(t, err)
	n.wait(b)
	n.wantCopy(b.Objects())
	n.grow(6)
	_, err = n.host.RetireKey(t.Context(), ledger.Default, "a test")
	require.NoError(t, err)
	n.wait(b)
	n.wantCopy(b.Objects())
}

// Only public ledgers and ledgers that the options name are published.
func TestWhichLedgersArePublished(t *testing.T) {
	n, b := newNode(t), new(buckettest.Memory)
	require.NoError(t, n.ledger.SetPublic(t.Context(), false))
	o := options(b)
	o.Ledgers = []string{"named"}
	p, stop := n.publish(o)
	_, err := n.host.Create(t.Context(), ledger.New{Name: "named"})
	require.NoError(t, err)
	_, err = n.host.Create(t.Context(), ledger.New{Name: "private"})
	require.NoError(t, err)
	n.grow(3)
	require.Eventually(t, func() bool { return b.Objects()["v1/ledgers/named/log/checkpoint"] != nil }, time.Minute, time.Millisecond)
	stop()
	for name := range b.Objects() {
		require.True(t, name == "colophon-probe" || strings.HasPrefix(name, "v1/ledgers/named/"), name)
	}
	require.Equal(t, map[string]float64{"colophon_publish_tree_size named": 1}, values(t, p, "colophon_publish_tree_size"))
}

// values returns the values of a metric by labels.
func values(t testing.TB, p *publish.Publisher, name string) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(p)
	families, err := registry.Gather()
	require.NoError(t, err)
	found := make(map[string]float64)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			text := name
			for _, label := range m.GetLabel() {
				text += " " + label.GetValue()
			}
			found[text] = valueOf(m)
		}
	}
	return found
}

func valueOf(m *dto.Metric) float64 { return m.GetGauge().GetValue() + m.GetCounter().GetValue() }

// A publication can end at any step, with or without its effect: everything that the
// checkpoint of the copy covers is there, and the next publication completes the copy.
func TestEndAtEveryStep(t *testing.T) {
	n := newNode(t)
	n.grow(254)
	start := new(buckettest.Memory)
	_, stop := n.publish(options(start))
	n.wait(start)
	stop()
	n.grow(600)

	whole := restart(start)
	_, stop = n.publish(options(whole))
	n.wait(whole)
	stop()
	steps := len(whole.Calls())
	require.Greater(t, steps, 20)
	for _, fault := range []buckettest.Fault{buckettest.FailBefore, buckettest.FailAfter} {
		for end := range steps {
			b := restart(start)
			var calls atomic.Int64
			ended := make(chan struct{})
			b.Fault = func(buckettest.Call) buckettest.Fault {
				switch done := int(calls.Add(1)) - 1; {
				case done < end:
					return buckettest.None
				case done == end:
					close(ended)
					return fault
				}
				return buckettest.FailBefore // it is dead
			}
			_, stop := n.publish(options(b))
			<-ended
			stop()
			n.wantCovered(b.Objects())

			again := restart(b)
			_, stop = n.publish(options(again))
			n.wait(again)
			stop()
			n.wantCopy(again.Objects())
		}
	}
}

// restart returns a bucket with the objects of another.
func restart(b *buckettest.Memory) *buckettest.Memory {
	again := new(buckettest.Memory)
	for name, body := range b.Objects() {
		again.Set(name, body)
	}
	return again
}

// A publisher catches up after its bucket has failed, hung, and lost objects.
func TestFaultsOfTheBucket(t *testing.T) {
	for name, fault := range map[string]buckettest.Fault{"fails": buckettest.FailBefore, "fails after it has written": buckettest.FailAfter,
		"hangs": buckettest.Hang, "forgets": buckettest.Forget} {
		t.Run(name, func(t *testing.T) {
			n, b := newNode(t), new(buckettest.Memory)
			b.Fault = every(3, fault)
			o := options(b)
			o.Timeout = 20 * time.Millisecond
			p, _ := n.publish(o)
			for _, size := range sizes {
				n.grow(size)
			}
			n.wait(b)
			n.wantCopy(b.Objects())
			require.Positive(t, values(t, p, "colophon_publish_failures_total")["colophon_publish_failures_total default unavailable"])
			require.Equal(t, 600.0, values(t, p, "colophon_publish_tree_size")["colophon_publish_tree_size default"])
			require.Zero(t, values(t, p, "colophon_publish_lag_events")["colophon_publish_lag_events default"])
		})
	}
}

// During an outage the metrics say how far the copy is behind.
func TestLag(t *testing.T) {
	n, b := newNode(t), new(buckettest.Memory)
	var down atomic.Bool
	b.Fault = func(buckettest.Call) buckettest.Fault {
		if down.Load() {
			return buckettest.FailBefore
		}
		return buckettest.None
	}
	p, _ := n.publish(options(b))
	n.wait(b)
	down.Store(true)
	n.grow(11)
	const failures = "colophon_publish_failures_total"
	require.Eventually(t, func() bool { return values(t, p, failures)[failures+" default unavailable"] > 2 }, time.Minute, time.Millisecond)
	require.Equal(t, 10.0, values(t, p, "colophon_publish_lag_events")["colophon_publish_lag_events default"])
	require.Positive(t, values(t, p, "colophon_publish_lag_seconds")["colophon_publish_lag_seconds default"])
	down.Store(false)
	n.wait(b)
	require.Eventually(t, func() bool {
		return values(t, p, "colophon_publish_lag_seconds")["colophon_publish_lag_seconds default"] == 0
	}, time.Minute, time.Millisecond)
}

// Closing publishes the last commits, but not to a bucket that has been failing.
func TestClosePublishesTheLastCommits(t *testing.T) {
	n, b := newNode(t), new(buckettest.Memory)
	o := options(b)
	o.Every = time.Hour
	_, stop := n.publish(o)
	n.wait(b)
	n.grow(20)
	stop()
	n.wantCopy(b.Objects())
}

// A bucket that ignores or refuses conditions gets the same copy, and the log says so.
func TestConditionsThatAreIgnored(t *testing.T) {
	for name, b := range map[string]*buckettest.Memory{
		"If-None-Match": {IgnoresAbsent: true}, "If-Match": {IgnoresTag: true}, "both": {IgnoresAbsent: true, IgnoresTag: true}, "refused": {Refuses: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			o := options(b)
			var said safeBuffer
			o.Log = slog.New(slog.NewTextHandler(&said, nil))
			_, stop := n.publish(o)
			for _, size := range sizes {
				n.grow(size)
				n.wait(b)
			}
			stop()
			n.wantCopy(b.Objects())
			require.Equal(t, b.IgnoresAbsent || b.Refuses, strings.Contains(said.String(), `condition="If-None-Match: *"`), said.String())
			require.Equal(t, b.IgnoresTag || b.Refuses, strings.Contains(said.String(), `condition=If-Match `), said.String())

			// An object with other bytes stays.
			tile := prefix + "tile/0/001"
			b.Set(tile, []byte("other"))
			b.Set(prefix+"checkpoint", nil)
			p, _ := n.publish(o)
			wantFailure(t, p, "different")
			require.Equal(t, "other", string(b.Objects()[tile]))
			require.NotContains(t, b.Objects(), prefix+"checkpoint")
		})
	}
}

// safeBuffer is a buffer for several goroutines.
type safeBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func wantFailure(t testing.TB, p *publish.Publisher, reason string) {
	t.Helper()
	const failures = "colophon_publish_failures_total"
	require.Eventually(t, func() bool { return values(t, p, failures)[failures+" default "+reason] > 0 }, time.Minute, time.Millisecond)
}

// An object with other bytes than the log has is reported, and stays.
func TestDifferentObjectStays(t *testing.T) {
	for _, name := range []string{"tile/0/000", "tile/entries/000", "tile/1/000.p/1", "tile/0/001.p/44"} {
		for _, other := range []string{"", "other", strings.Repeat("x", 100_000)} {
			n, b := newNode(t), new(buckettest.Memory)
			b.Set(prefix+name, []byte(other))
			n.grow(300)
			p, stop := n.publish(options(b))
			wantFailure(t, p, "different")
			stop()
			require.Equal(t, other, string(b.Objects()[prefix+name]))
			require.NotContains(t, b.Objects(), prefix+"checkpoint")
		}
	}
}

// Entries that the database has lost or changed are not published.
func TestDamagedLogIsNotPublished(t *testing.T) {
	for name, damage := range map[string]func(*memory.Tamper) error{
		"a changed entry": func(d *memory.Tamper) error { return d.SetEntry(270, bytes.Repeat([]byte("x"), 100)) },
		"a lost entry":    func(d *memory.Tamper) error { return d.DeleteEntry(5) },
		"a changed tile":  func(d *memory.Tamper) error { return d.SetTile(0, 0, make([]byte, 8192)) },
	} {
		t.Run(name, func(t *testing.T) {
			database, keys := memory.New(), t.TempDir()
			open(t, database, keys).grow(300)
			tamper, err := database.Tamper(ledger.Default)
			require.NoError(t, err)
			n, b := open(t, database, keys), new(buckettest.Memory) // with an empty cache of tiles
			require.NoError(t, damage(tamper))
			p, stop := n.publish(options(b))
			wantFailure(t, p, "unreadable")
			stop()
			require.NotContains(t, b.Objects(), prefix+"checkpoint")
		})
	}
}

// The copy of another log, of a fork, or of a log that has grown further is refused, and
// remains unchanged.
func TestForeignCopyIsRefused(t *testing.T) {
	database, keys := memory.New(), t.TempDir()
	n, theirs := open(t, database, keys), new(buckettest.Memory)
	n.grow(300)
	_, stop := n.publish(options(theirs))
	n.wait(theirs)
	stop()

	another := newNode(t)
	another.grow(400)
	fork := open(t, memory.New(), keysOf(t, keys))
	ahead := open(t, memory.New(), keysOf(t, keys))
	fork.grow(400)
	for name, other := range map[string]*node{"another log": another, "a fork": fork, "a log that is further": ahead} {
		t.Run(name, func(t *testing.T) {
			b := restart(theirs)
			p, stop := other.publish(options(b))
			wantFailure(t, p, "foreign")
			stop()
			got := b.Objects()
			delete(got, "colophon-probe")
			want := theirs.Objects()
			delete(want, "colophon-probe")
			require.Equal(t, want, got)
		})
	}
}

// Two publishers of one log, of which the second lags behind, never move the checkpoint back.
func TestLosingWriter(t *testing.T) {
	n := newNode(t)
	b := new(buckettest.Memory)
	n.grow(10)
	held := make(chan struct{})
	release := make(chan struct{})
	var once sync.Once
	slow := &heldBucket{Memory: b, held: func() { once.Do(func() { close(held); <-release }) }}
	p, _ := n.publish(options(slow))
	<-held // before it replaces the checkpoint
	n.grow(300)
	n.publish(options(b))
	n.wait(b)
	close(release)
	require.Eventually(t, func() bool {
		return values(t, p, "colophon_publish_tree_size")["colophon_publish_tree_size default"] == 300
	}, time.Minute, time.Millisecond)
	n.wantCopy(b.Objects())
}

// Of several servers, only the one that writes a ledger publishes it.
func TestOnlyTheWriterPublishes(t *testing.T) {
	n := newNode(t)
	n.grow(10)
	b := new(buckettest.Memory)
	var writes atomic.Bool
	asked := make(chan struct{}, 1)
	o := options(b)
	o.Writes = func(string) bool {
		select {
		case asked <- struct{}{}:
		default:
		}
		return writes.Load()
	}
	_, stop := n.publish(o)
	<-asked
	stop()
	require.Empty(t, b.Objects())
	writes.Store(true)
	n.publish(o)
	n.wait(b)
	n.wantCopy(b.Objects())
}

// heldBucket calls a function before it writes a checkpoint.
type heldBucket struct {
	*buckettest.Memory
	held func()
}

// Put implements bucket.Bucket.
func (h *heldBucket) Put(ctx context.Context, name string, body []byte, a bucket.Attributes, c bucket.Condition) error {
	if strings.HasSuffix(name, "/checkpoint") {
		h.held()
	}
	return h.Memory.Put(ctx, name, body, a, c)
}

// keysOf returns a folder with the signing key of the ledger in another folder, for another log.
func keysOf(t testing.TB, keys string) string {
	t.Helper()
	from, to := keystore.Files{Dir: keys}, keystore.Files{Dir: t.TempDir()}
	key, err := os.ReadFile(from.Path(ledger.Default))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to.StagedPath(ledger.Default), key, 0o600))
	return to.Dir
}

// Closing does not wait for a bucket that hangs, however many ledgers there are.
func TestCloseDoesNotHang(t *testing.T) {
	n := newNode(t)
	o := options(&buckettest.Memory{Fault: func(buckettest.Call) buckettest.Fault { return buckettest.Hang }})
	o.Timeout, o.Farewell = time.Hour, time.Millisecond
	o.Ledgers = []string{"a", "b", "c"}
	for _, name := range o.Ledgers {
		_, err := n.host.Create(t.Context(), ledger.New{Name: name})
		require.NoError(t, err)
	}
	_, stop := n.publish(o)
	n.grow(10)
	stop() // if this waits, the test times out
}

// The keys of another log, or of a log that has changed its keys more often, are not replaced.
func TestForeignKeysAreRefused(t *testing.T) {
	keys := t.TempDir()
	n := open(t, memory.New(), keys)
	older := open(t, memory.New(), keysOf(t, keys)) // a log with the same first key
	_, err := n.host.RotateKey(t.Context(), ledger.Default, "a test")
	require.NoError(t, err)
	for name, check := range map[string]struct{ owner, publisher *node }{"of another log": {newNode(t), n}, "that have changed": {n, older}} {
		t.Run(name, func(t *testing.T) {
			status, key := check.owner.get("/" + prefix + "key")
			require.Equal(t, http.StatusOK, status)
			b := new(buckettest.Memory)
			b.Set(prefix+"key", key)
			p, stop := check.publisher.publish(options(b))
			wantFailure(t, p, "foreign")
			stop()
			require.Equal(t, key, b.Objects()[prefix+"key"])
			require.Len(t, b.Objects(), 2, "with the probe")
		})
	}
}
