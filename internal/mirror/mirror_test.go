package mirror

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"colophon/internal/publish"
	"colophon/internal/publish/bucket"
	"colophon/ledger"
	"colophon/ledger/keystore"
	"colophon/ledger/record"
	"colophon/ledger/record/seqs"
	"colophon/proofs"
	"colophon/proofs/monitor/fetch"
	"colophon/storage"
	"colophon/storage/memory"
)

// logDir is the folder of the log within a published copy.
const logDir = "v1/ledgers/default/log"

// writer is a server that publishes its ledger "default" into a folder.
type writer struct {
	*testing.T
	host   *ledger.Host
	ledger *ledger.Ledger
	copy   string // folder of the published copy
}

// startWriter starts a writer. signer is the key of its ledger; if it is nil, the ledger gets a new key.
func startWriter(t *testing.T, signer *proofs.Signer) *writer {
	t.Helper()
	w := &writer{T: t, copy: t.TempDir()}
	keys := keystore.KeyFiles{Dir: t.TempDir()}
	if signer != nil {
		require.NoError(t, keys.Stage(ledger.DefaultName, signer))
	}
	var err error
	w.host, err = ledger.OpenHost(t.Context(), memory.New(), keys, func(string) ledger.Config { return ledger.Config{} })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.host.Close()) })
	w.ledger, err = w.host.Create(t.Context(), ledger.CreateOptions{Name: ledger.DefaultName})
	require.NoError(t, err)
	return w
}

// publish publishes the whole log.
func (w *writer) publish() {
	w.Helper()
	b, err := bucket.Open("file://" + filepath.ToSlash(w.copy))
	require.NoError(w, err)
	p := publish.New(publish.Options{Bucket: b, BucketURL: w.copy, Ledgers: []string{ledger.DefaultName}, Logger: slog.New(slog.DiscardHandler), Timeout: time.Minute, MaxRetryPause: time.Millisecond})
	require.NoError(w, p.AddLedger(w.ledger))
	p.Close()
	require.Equal(w, string(w.ledger.Head().Checkpoint), string(w.read("checkpoint")))
}

func (w *writer) read(object string) []byte {
	w.Helper()
	text, err := os.ReadFile(filepath.Join(w.copy, logDir, object))
	require.NoError(w, err)
	return text
}

// grow adds records until the log has the given size, and publishes the log.
func (w *writer) grow(size uint64) {
	w.Helper()
	for w.ledger.Head().Size < size {
		var all sync.WaitGroup
		for range min(500, size-w.ledger.Head().Size) {
			all.Go(func() { assert.NoError(w, w.write()) })
		}
		all.Wait()
	}
	w.publish()
}

var written atomic.Int64

func (w *writer) write() error {
	text := fmt.Sprintf(`{"run_id":"run-%d","payload":{"seed":1},"output":"x","model":"m","temperature":0.5,"max_tokens":10}`, written.Add(1))
	limits := record.DefaultLimits()
	r, err := limits.WithPayloadMemberSecret(w.ledger.PayloadMemberSecret()).ParseRecord(record.KindIPCRecord, []byte(text))
	if err != nil {
		return err
	}
	defer r.Release()
	sub, err := w.ledger.PrepareRecord(r, ledger.AnonymousActor, "")
	if err == nil {
		_, err = w.ledger.Submit(sub)
	}
	return err
}

// fault is a way in which an endpoint mishandles a request. If it is empty, the endpoint serves the
// requested file.
type fault string

const (
	missing   fault = "missing"
	failed    fault = "failed"
	truncated fault = "truncated"
	garbage   fault = "garbage"
	empty     fault = "empty"
	endless   fault = "endless"
	silent    fault = "silent"
)

// endpoint serves the folder of a copy over HTTP. It can inject faults.
type endpoint struct {
	server *httptest.Server

	mu    sync.Mutex
	dir   string
	fault func(path string) fault
	asked map[string]int // number of requests, keyed by path
}

func serve(t *testing.T, dir string) *endpoint {
	e := &endpoint{dir: dir, fault: func(string) fault { return "" }, asked: make(map[string]int)}
	e.server = httptest.NewServer(e)
	t.Cleanup(e.server.Close)
	t.Cleanup(func() { e.set("", func(string) fault { return "" }) })
	return e
}

// set replaces the faults and, unless dir is empty, the folder. It resets the request counts.
func (e *endpoint) set(dir string, fault func(path string) fault) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if dir != "" {
		e.dir = dir
	}
	e.fault, e.asked = fault, make(map[string]int)
}

func (e *endpoint) requests(path string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked[path]
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/"+logDir+"/")
	e.mu.Lock()
	e.asked[path]++
	fault, dir := e.fault(path), e.dir
	e.mu.Unlock()
	text, err := os.ReadFile(filepath.Join(dir, logDir, filepath.FromSlash(path)))
	if err != nil || fault == missing {
		http.NotFound(w, r)
		return
	}
	switch fault {
	case failed:
		http.Error(w, "broken", http.StatusInternalServerError)
	case truncated:
		_, _ = w.Write(text[:len(text)/2])
	case garbage:
		for i := range text {
			text[i] ^= 0x55
		}
		_, _ = w.Write(text)
	case empty:
	case endless:
		for range 1 << 15 {
			if _, err := w.Write(make([]byte, 1<<10)); err != nil {
				return
			}
		}
	case silent:
		<-r.Context().Done()
	default:
		_, _ = w.Write(text)
	}
}

// reader is a server that follows an endpoint.
type reader struct {
	*testing.T
	stored *memory.Database
	host   *ledger.Host
	mirror *Mirror
	stop   func()
}

// follow starts a reader on a database that is either empty or left behind by an earlier reader.
func follow(t *testing.T, from *endpoint, stored *memory.Database, key string) *reader {
	t.Helper()
	trusted, err := proofs.ParseVerifier(key)
	require.NoError(t, err)
	database := NewDatabase(stored)
	host, err := ledger.OpenHost(t.Context(), database, keystore.KeyFiles{Dir: t.TempDir()}, func(string) ledger.Config { return ledger.Config{} })
	require.NoError(t, err)
	m, err := New(t.Context(), database, host, Options{Source: fetch.Server{URL: from.server.URL}, Ledger: ledger.DefaultName, CopyURL: from.server.URL, Keys: []*proofs.Verifier{trusted},
		Logger: slog.New(slog.DiscardHandler), PollInterval: time.Millisecond, MaxRetryPause: time.Millisecond, Timeout: 200 * time.Millisecond, MaxBatchEntries: 300})
	require.NoError(t, err)
	r := &reader{T: t, stored: stored, host: host, mirror: m}
	r.stop = sync.OnceFunc(func() {
		m.Close()
		require.NoError(t, host.Close())
	})
	t.Cleanup(r.stop)
	return r
}

// shows waits until the reader serves the writer's current head.
func (r *reader) shows(w *writer) {
	r.Helper()
	require.Eventually(r, func() bool {
		l, err := r.host.Ledger(ledger.DefaultName)
		return err == nil && string(l.Head().Checkpoint) == string(w.ledger.Head().Checkpoint) && r.mirror.StalenessError() == nil
	}, time.Minute, time.Millisecond, "%v", r.mirror.state.Load().err)
}

// fails waits until the reader fails for the given reason, and requires that it still serves the log at the
// given size.
func (r *reader) fails(reason int, size uint64) {
	r.Helper()
	assert.Eventually(r, func() bool {
		err := r.mirror.state.Load().err
		return err != nil && err != errLoading && reasonOf(err) == reason
	}, time.Minute, time.Millisecond)
	require.False(r, r.Failed(), "%v", r.mirror.state.Load().err)
	require.Error(r, r.mirror.StalenessError())
	require.Equal(r, size, r.size())
}

func (r *reader) size() uint64 {
	l, err := r.host.Ledger(ledger.DefaultName)
	if err != nil {
		return 0
	}
	return l.Head().Size
}

// A reader serves the log, its proofs, its keys, and its redactions exactly as the writer does. It does not
// serve content.
func TestMirror(t *testing.T) {
	w := startWriter(t, nil)
	key := w.ledger.VerifierKey()
	w.grow(1000)
	from := serve(t, w.copy)
	r := follow(t, from, memory.New(), key)
	r.shows(w)
	_, err := w.host.RotateKey(t.Context(), ledger.DefaultName, "x")
	require.NoError(t, err)
	w.grow(1300)
	r.shows(w)
	_, err = w.host.RetireKey(t.Context(), ledger.DefaultName, "x")
	require.NoError(t, err)
	var records seqs.Set
	records.Add(7)
	require.NoError(t, w.ledger.Redact(t.Context(), &records, "r", "x", func(ledger.Ack, int) error { return nil }))
	w.grow(2100)
	r.shows(w)

	l, err := r.host.Ledger(ledger.DefaultName)
	require.NoError(t, err)
	require.Equal(t, ledger.StatusReadOnly, r.host.Status(ledger.DefaultName))
	require.Equal(t, fmt.Sprint(w.ledger.KeyHistory().Verifiers()), fmt.Sprint(l.KeyHistory().Verifiers()))
	require.Equal(t, w.ledger.Info().Origin, l.Info().Origin)
	var next uint64
	for entry, err := range l.Reader().Entries(t.Context(), 0) {
		require.NoError(t, err)
		want, err := w.ledger.Reader().Entry(t.Context(), next)
		require.NoError(t, err)
		require.Equal(t, want, entry.Bytes)
		next++
	}
	require.Equal(t, uint64(2100), next)
	path, err := l.Prover(t.Context(), l.Head()).InclusionProof(17, 2100)
	require.NoError(t, err)
	entry, err := l.Reader().Entry(t.Context(), 17)
	require.NoError(t, err)
	require.NoError(t, proofs.VerifyInclusion(proofs.LeafHash(entry), 17, 2100, path, w.ledger.Head().Root))
	want, err := w.ledger.Reader().RedactingSeq(t.Context(), 7)
	require.NoError(t, err)
	by, err := l.Reader().RedactingSeq(t.Context(), 7)
	require.NoError(t, err)
	require.Equal(t, want, by)
	_, err = l.Reader().Content(t.Context(), storage.Hash{})
	require.ErrorIs(t, err, storage.ErrLogOnly)
	_, err = l.Reader().Setting(t.Context(), ledger.PayloadMemberSecretSetting)
	require.ErrorIs(t, err, storage.ErrLogOnly)
	require.Nil(t, l.PayloadMemberSecret())
	_, err = l.Submit(ledger.Submission{})
	require.ErrorIs(t, err, storage.ErrLeaseNotHeld)
}

// Of the level-0 tiles, a load reads only those in which one of its commits ends.
func TestLoadReadsFewTiles(t *testing.T) {
	w := startWriter(t, nil)
	w.grow(2000)
	from := serve(t, w.copy)
	follow(t, from, memory.New(), w.ledger.VerifierKey()).shows(w)
	require.Positive(t, from.requests("tile/0/001"), "the first commit has 300 events")
	require.Zero(t, from.requests("tile/0/000"))
	require.Zero(t, from.requests("tile/0/006"))
	require.Positive(t, from.requests("tile/entries/006"))
}

// The log is not served until its first load is complete, and an interrupted load continues where it stopped.
// While a later checkpoint is being loaded, the served state does not change.
func TestLoadContinues(t *testing.T) {
	w := startWriter(t, nil)
	w.grow(3000)
	from := serve(t, w.copy)
	stuck := func(path string) fault {
		if strings.HasPrefix(path, "tile/entries/008") {
			return missing
		}
		return ""
	}
	from.set("", stuck)
	stored := memory.New()
	r := follow(t, from, stored, w.ledger.VerifierKey())
	r.fails(unavailable, 0)
	require.GreaterOrEqual(t, r.mirror.loaded.Load(), uint64(1500))
	r.stop()

	from.set("", stuck)
	r = follow(t, from, stored, w.ledger.VerifierKey())
	r.fails(unavailable, 0)
	require.Empty(t, r.host.Ledgers())
	from.set("", func(string) fault { return "" })
	r.shows(w)
	require.Zero(t, from.requests("tile/entries/003"), "a bundle that was loaded before must not be requested again")

	w.grow(6000)
	first := r.size()
	from.set("", func(path string) fault {
		if strings.HasPrefix(path, "tile/entries/020") {
			return missing
		}
		return ""
	})
	r.fails(unavailable, first)
	require.Greater(t, r.mirror.loaded.Load(), first)
	r.stop()
	r = follow(t, from, stored, w.ledger.VerifierKey())
	r.fails(unavailable, first)
	l, err := r.host.Ledger(ledger.DefaultName)
	require.NoError(t, err)
	_, err = l.Reader().Entry(t.Context(), first)
	require.ErrorIs(t, err, storage.ErrNotFound)
	head, err := l.Reader().Head(t.Context())
	require.NoError(t, err)
	require.Equal(t, l.Head().Head, head)
	from.set("", func(string) fault { return "" })
	r.shows(w)
}

// While the endpoint serves an object incorrectly, the reader serves the last verified state. Once the
// fault is gone, the reader serves the newest state.
func TestFaults(t *testing.T) {
	w := startWriter(t, nil)
	w.grow(700)
	from := serve(t, w.copy)
	r := follow(t, from, memory.New(), w.ledger.VerifierKey())
	r.shows(w)
	for _, kind := range []fault{missing, failed, truncated, garbage, empty, endless, silent} {
		for _, object := range []string{"checkpoint", "key", "tile/entries/"} {
			t.Run(string(kind)+" "+object, func(t *testing.T) {
				before := r.size()
				from.set("", func(path string) fault {
					if strings.HasPrefix(path, object) {
						return kind
					}
					return ""
				})
				w.grow(before + 400)
				require.Eventually(t, func() bool { return r.mirror.StalenessError() != nil }, time.Minute, time.Millisecond)
				require.Equal(t, before, r.size())
				from.set("", func(string) fault { return "" })
				r.shows(w)
			})
		}
	}
}

// A copy that is rolled back, or that belongs to another log, is refused, even after a restart. The last
// verified state is served.
func TestRefusals(t *testing.T) {
	signer, err := proofs.GenerateKey().Signer("example.org/log")
	require.NoError(t, err)
	older, w, forked, other := startWriter(t, signer), startWriter(t, signer), startWriter(t, signer), startWriter(t, nil)
	key := w.ledger.VerifierKey()
	w.grow(700)
	require.NoError(t, os.CopyFS(older.copy, os.DirFS(w.copy)))
	w.grow(1000)
	forked.grow(1400)
	other.grow(1400)

	from := serve(t, w.copy)
	stored := memory.New()
	r := follow(t, from, stored, key)
	r.shows(w)
	none := func(string) fault { return "" }
	for range 2 { // once before and once after a restart
		from.set(older.copy, none)
		r.fails(rollback, 1000)
		from.set(forked.copy, none)
		r.fails(fork, 1000)
		from.set(other.copy, none)
		r.fails(signature, 1000)
		from.set(w.copy, none)
		r.shows(w)
		r.stop()
		r = follow(t, from, stored, key)
		r.shows(w)
	}
	// The copy is a fork of the same size.
	same := startWriter(t, signer)
	same.grow(1000)
	from.set(same.copy, none)
	r.fails(fork, 1000)

	// An entry in the copy has been changed.
	w.grow(1200)
	bundle := filepath.Join(w.copy, logDir, "tile/entries/004.p/176")
	text, err := os.ReadFile(bundle)
	require.NoError(t, err)
	changed := strings.Replace(string(text), `"model":"m"`, `"model":"n"`, 1)
	require.NotEqual(t, string(text), changed)
	require.NoError(t, os.WriteFile(bundle, []byte(changed), 0o600))
	from.set(w.copy, none)
	r.fails(damaged, 1000)
	require.NoError(t, os.WriteFile(bundle, text, 0o600))
	r.shows(w)
	r.stop()

	// The reader trusts a key that does not belong to the log.
	wrong, err := proofs.ParseVerifier(other.ledger.VerifierKey())
	require.NoError(t, err)
	_, err = New(t.Context(), NewDatabase(stored), nil, Options{Source: fetch.Server{URL: from.server.URL}, Ledger: ledger.DefaultName, Keys: []*proofs.Verifier{wrong}})
	require.ErrorIs(t, err, ErrKeyMismatch)
	r = follow(t, from, memory.New(), other.ledger.VerifierKey())
	r.fails(signature, 0)
	require.Empty(t, r.host.Ledgers())
}

// Events that are not in the signed tree are not stored, even if they form a valid chain. The load continues
// once the copy is correct again.
func TestWrongEventsAreNotStored(t *testing.T) {
	signer, err := proofs.GenerateKey().Signer("example.org/log")
	require.NoError(t, err)
	w, forked := startWriter(t, signer), startWriter(t, signer)
	w.grow(1000)
	forked.grow(1000)
	mixed := t.TempDir()
	require.NoError(t, os.CopyFS(mixed, os.DirFS(w.copy)))
	for _, bundle := range []string{"tile/entries/000", "tile/entries/001"} {
		require.NoError(t, os.WriteFile(filepath.Join(mixed, logDir, bundle), forked.read(bundle), 0o600))
	}
	from := serve(t, mixed)
	r := follow(t, from, memory.New(), w.ledger.VerifierKey())
	r.fails(damaged, 0)
	require.Zero(t, r.mirror.loaded.Load())
	from.set(w.copy, func(string) fault { return "" })
	r.shows(w)
}

// Close returns even if the endpoint does not respond. Afterwards, StalenessError returns an error.
func TestClose(t *testing.T) {
	w := startWriter(t, nil)
	w.grow(10)
	from := serve(t, w.copy)
	from.set("", func(string) fault { return silent })
	r := follow(t, from, memory.New(), w.ledger.VerifierKey())
	require.Eventually(t, func() bool { return from.requests("checkpoint") > 0 }, time.Minute, time.Millisecond)
	r.stop()
	require.Error(t, r.mirror.StalenessError())
}
