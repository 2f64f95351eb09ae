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

// node is a host with the public ledger "default", and an HTTP server for it. The tests compare
// the copy with the server's responses.
type node struct {
	t      testing.TB
	host   *ledger.Host
	ledger *ledger.Ledger
	url    string
}

func open(t testing.TB, database storage.Database, keys string) *node {
	t.Helper()
	host, err := ledger.OpenHost(t.Context(), database, keystore.KeyFiles{Dir: keys}, func(string) ledger.Config { return ledger.Config{} })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, host.Close()) })
	l, err := host.Ledger(ledger.DefaultName)
	if err != nil {
		l, err = host.Create(t.Context(), ledger.CreateOptions{Name: ledger.DefaultName})
	}
	require.NoError(t, err)
	require.NoError(t, l.SetLogPublic(t.Context(), true))
	store, err := query.OpenIndex(index.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	service, err := api.New(api.Config{Host: host, Index: store, SpoolDir: t.TempDir(), Version: "test"})
	require.NoError(t, err)
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	return &node{t: t, host: host, ledger: l, url: server.URL}
}

func newNode(t testing.TB) *node { return open(t, memory.New(), t.TempDir()) }

// grow adds records until the log has the given size.
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

func (n *node) write() error {
	r, err := record.DefaultLimits().ParseRecord(record.KindIPCRecord, []byte(`{"payload":{"seed":1},"output":"x","model":"m","temperature":0.5,"max_tokens":10}`))
	if err != nil {
		return err
	}
	defer r.Release()
	sub, err := n.ledger.PrepareRecord(r, ledger.AnonymousActor, "")
	if err == nil {
		_, err = n.ledger.Submit(sub)
	}
	return err
}

// options returns options for publishing to b. Retries wait at most a millisecond.
func options(b bucket.Bucket) publish.Options {
	return publish.Options{Bucket: b, BucketURL: "memory", Logger: slog.New(slog.DiscardHandler), Timeout: time.Minute, MaxRetryPause: time.Millisecond}
}

// publish publishes the node's ledgers until stop is called. If the bucket is a
// buckettest.MemoryBucket, publish checks after each write of a checkpoint that the bucket contains
// everything that the checkpoint covers.
func (n *node) publish(o publish.Options) (p *publish.Publisher, stop func()) {
	n.t.Helper()
	if b, is := o.Bucket.(*buckettest.MemoryBucket); is {
		b.OnPut = func(name string, objects map[string][]byte) {
			if name == prefix+"checkpoint" {
				assert.NoError(n.t, checkCovered(objects))
			}
		}
	}
	p = publish.New(o)
	require.NoError(n.t, n.host.OnOpen(p.AddLedger))
	var once sync.Once
	stop = func() { once.Do(p.Close) }
	n.t.Cleanup(stop)
	return p, stop
}

// wait waits until a bucket contains the checkpoint of the ledger's head.
func (n *node) wait(b *buckettest.MemoryBucket) {
	n.t.Helper()
	require.Eventually(n.t, func() bool {
		return bytes.Equal(b.Objects()[prefix+"checkpoint"], n.ledger.Head().Checkpoint)
	}, time.Minute, time.Millisecond)
}

// waitIdle waits until p has published the ledger's head and has read the checkpoint back, and so does nothing
// with the bucket until the ledger grows.
func (n *node) waitIdle(p *publish.Publisher) {
	n.t.Helper()
	const published = "colophon_publish_tree_size"
	require.Eventually(n.t, func() bool {
		size, is := values(n.t, p, published)[published+" default"]
		return is && size == float64(n.ledger.Head().Size)
	}, time.Minute, time.Millisecond)
}

const prefix = "v1/ledgers/default/log/"

// get sends a GET request to the node's server, and returns the status and the body of the
// response.
func (n *node) get(path string) (int, []byte) {
	n.t.Helper()
	response, err := http.Get(n.url + path) //nolint:noctx // a local server
	require.NoError(n.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(n.t, err)
	return response.StatusCode, body
}

// wantCopy requires that every object equals the server's response body at its path, and that the
// objects include everything that the head's checkpoint covers.
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

// wantCovered requires that the objects include everything that their checkpoint covers, if there is a
// checkpoint among them.
func (n *node) wantCovered(objects map[string][]byte) {
	n.t.Helper()
	require.NoError(n.t, checkCovered(objects))
}

func checkCovered(objects map[string][]byte) error {
	text := objects[prefix+"checkpoint"]
	if text == nil {
		return nil
	}
	keys, err := proofs.ParseKeyHistory(objects[prefix+"key"])
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

// sizes holds tree sizes just below, at, and just above the sizes at which a tile becomes full.
var sizes = []uint64{1, 2, 3, 255, 256, 257, 511, 512, 513, 600}

// values returns the values of the named metric, keyed by its name and label values separated by
// spaces.
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

// restart returns a new bucket with the same objects. It injects no faults and has recorded no
// calls.
func restart(b *buckettest.MemoryBucket) *buckettest.MemoryBucket {
	again := new(buckettest.MemoryBucket)
	for name, body := range b.Objects() {
		again.SetObject(name, body)
	}
	return again
}

func wantFailure(t testing.TB, p *publish.Publisher, reason string) {
	t.Helper()
	const failures = "colophon_publish_failures_total"
	require.Eventually(t, func() bool { return values(t, p, failures)[failures+" default "+reason] > 0 }, time.Minute, time.Millisecond)
}

// heldBucket calls held before it writes a checkpoint.
type heldBucket struct {
	*buckettest.MemoryBucket
	held func()
}

// Put implements bucket.Bucket.
func (h *heldBucket) Put(ctx context.Context, name string, body []byte, a bucket.Attributes, c bucket.Condition) error {
	if strings.HasSuffix(name, "/checkpoint") {
		h.held()
	}
	return h.MemoryBucket.Put(ctx, name, body, a, c)
}

// keysOf returns a new key folder that contains a copy of the signing key in keys, as a staged key.
// A log created with the new folder therefore has the same first key.
func keysOf(t testing.TB, keys string) string {
	t.Helper()
	from, to := keystore.KeyFiles{Dir: keys}, keystore.KeyFiles{Dir: t.TempDir()}
	key, err := os.ReadFile(from.Path(ledger.DefaultName))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to.StagedKeyPath(ledger.DefaultName), key, 0o600))
	return to.Dir
}
