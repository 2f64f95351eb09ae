package replay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"colophon/api"
	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/query"
	"colophon/ledger/record"
	"colophon/proofs"
	"colophon/proofs/monitor"
	"colophon/proofs/monitor/fetch"
	"colophon/storage"
)

// openReference returns a reference that keeps its index below dir. Until show, it does not
// answer.
func openReference(log *logCopy, dir string, o monitor.Options) (reference, error) {
	signer, err := proofs.GenerateKey().Signer(referenceOrigin)
	if err != nil {
		return nil, err
	}
	return &serverReference{log: log, dir: dir, options: o, signer: signer}, nil
}

// serverReference runs a server over the copy of the log. The server has no address: only the
// reference can ask it, through a pipe.
type serverReference struct {
	log     *logCopy
	dir     string
	options monitor.Options
	signer  *proofs.Signer // of the reference's own checkpoints; no answer depends on the key

	// What follows is of the shown size.
	host   *ledger.Host
	index  *index.Store
	server *http.Server
	client *fetch.Client
	// requests is read-locked during each request: closing the server does not wait for
	// handlers, which read the index.
	requests *sync.RWMutex
}

// indexMemory bounds the memory of the reference's index, in bytes.
const indexMemory = 96 << 20

// key implements reference.
func (r *serverReference) key() *proofs.Verifier { return r.signer.Verifier() }

// Do implements source.
func (r *serverReference) Do(ctx context.Context, q fetch.Request) (fetch.Answer, error) {
	return r.client.Do(ctx, q)
}

// show implements reference. The index keeps what it has.
func (r *serverReference) show(ctx context.Context, size uint64) error {
	if err := r.Close(); err != nil {
		return err
	}
	if err := r.log.show(size); err != nil {
		return err
	}
	if err := r.open(ctx); err != nil {
		return errors.Join(err, r.Close())
	}
	return nil
}

func (r *serverReference) open(ctx context.Context) error {
	store, err := r.store()
	if err != nil {
		return err
	}
	database := copyDatabase{store, r.signer}
	if r.host, err = ledger.OpenHost(ctx, database, database, func(string) ledger.Config { return ledger.Config{} }); err != nil {
		return fmt.Errorf("opening the copy of the log: %w", err)
	}
	if r.index, err = query.Open(index.Config{Dir: filepath.Join(r.dir, "index"), Log: r.options.Log, Memory: indexMemory}); err != nil {
		return err
	}
	service, err := api.New(api.Config{Host: r.host, Index: r.index, Log: slog.New(slog.DiscardHandler),
		Metrics: api.NewMetrics(prometheus.NewRegistry()), Version: "replay", SpoolDir: r.dir})
	if err != nil {
		return err
	}
	requests, pipe := new(sync.RWMutex), newPipeListener()
	server := service.HTTP()
	handler := server.Handler
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		requests.RLock()
		defer requests.RUnlock()
		handler.ServeHTTP(w, q)
	})
	r.requests, r.server = requests, server
	go func() { _ = server.Serve(pipe) }() // ends when it is closed
	at := fetch.Server{URL: "http://127.0.0.1", Transport: &http.Transport{DialContext: pipe.dial}}
	if r.client, err = fetch.New(at, r.log.name, r.options.Timeout, r.options.Parallel); err != nil {
		return err
	}
	return r.waitForIndex(ctx)
}

// store returns the shown entries as a ledger, with a head that the reference signs, and a first
// event that names its key.
func (r *serverReference) store() (copyStore, error) {
	s := copyStore{logCopy: r.log}
	root, err := r.log.rootAt(r.log.size)
	if err != nil {
		return s, err
	}
	created, _, err := r.log.timeOf(0)
	if err != nil {
		return s, err
	}
	body := record.AppendLedgerCreated(nil, record.Event{Actor: ledger.Anonymous, Ledger: r.log.name}, r.signer.Origin(), r.signer.Verifier().String())
	s.first = proofs.AppendEntry(nil, proofs.Hash{}, record.AppendSuffix(body, 0, created))
	last, tip, err := r.log.timeOf(r.log.size - 1)
	if err != nil {
		return s, err
	}
	s.head = storage.Head{Size: r.log.size, Tip: tip, Time: last.UnixMicro()}
	s.head.Checkpoint, err = r.signer.Sign(proofs.Checkpoint{Origin: r.signer.Origin(), Size: r.log.size, Root: root})
	return s, err
}

// waitForIndex blocks until the index has all shown entries.
func (r *serverReference) waitForIndex(ctx context.Context) error {
	total := r.log.size
	r.options.Progress(stepIndex, 0, total)
	follower := r.index.Follower(r.log.name)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := follower.Err(); err != nil {
			return fmt.Errorf("indexing the copy of the log: %w", err)
		}
		size := follower.Size()
		r.options.Progress(stepIndex, min(size, total), total)
		if size >= total {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close implements reference. It may be called more than once.
func (r *serverReference) Close() error {
	var errs []error
	if r.server != nil {
		errs = append(errs, r.server.Close())
		r.requests.Lock() // for good: no request may begin
		r.server = nil
	}
	if r.index != nil {
		errs = append(errs, r.index.Close())
		r.index = nil
	}
	if r.host != nil {
		errs = append(errs, r.host.Close())
		r.host = nil
	}
	return errors.Join(errs...)
}

// pipeListener accepts connections that dial makes.
type pipeListener struct {
	connections chan net.Conn
	closed      chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{make(chan net.Conn), make(chan struct{})}
}

func (p *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.connections <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case connection := <-p.connections:
		return connection, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. The server calls it once.
func (p *pipeListener) Close() error {
	close(p.closed)
	return nil
}

// Addr implements net.Listener.
func (p *pipeListener) Addr() net.Addr { return &net.IPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// errReadOnly: the copy of a log takes no commits.
var errReadOnly = errors.New("a copy of a log cannot be written to")

// copyStore is the copy of the log as a ledger's store.
type copyStore struct {
	*logCopy
	head  storage.Head
	first []byte // what Entry(0) returns: an event that names the reference's own key
}

// Head implements storage.Reader.
func (s copyStore) Head(ctx context.Context) (storage.Head, error) { return s.head, ctx.Err() }

// Tile implements storage.Reader.
func (s copyStore) Tile(_ context.Context, level uint8, index uint64) ([]byte, error) {
	return s.tile(level, index)
}

// Entry implements storage.Reader.
func (s copyStore) Entry(ctx context.Context, seq uint64) ([]byte, error) {
	if seq >= s.size {
		return nil, fmt.Errorf("entry %d of %d: %w", seq, s.size, storage.ErrNotFound)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if seq == 0 {
		return slices.Clone(s.first), nil
	}
	return s.read(seq)
}

// Entries implements storage.Reader.
func (s copyStore) Entries(ctx context.Context, from uint64) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		for seq := from; seq < s.size; seq++ {
			entry, err := s.read(seq)
			err = errors.Join(err, ctx.Err())
			if !yield(storage.Entry{Seq: seq, Bytes: entry}, err) || err != nil {
				return
			}
		}
	}
}

// Content implements storage.Reader.
func (copyStore) Content(context.Context, storage.Hash) ([]byte, error) {
	return nil, storage.ErrNotFound
}

// References implements storage.Reader.
func (copyStore) References(context.Context, storage.Hash) iter.Seq2[uint64, error] {
	return func(func(uint64, error) bool) {}
}

// Referenced implements storage.Reader.
func (copyStore) Referenced(context.Context, storage.Hash, uint64) (bool, error) {
	return false, nil
}

// Redaction implements storage.Reader.
func (s copyStore) Redaction(_ context.Context, seq uint64) (uint64, error) {
	by, redacted := s.redactedBy[seq]
	if !redacted || by >= s.size {
		return 0, storage.ErrNotFound
	}
	return by, nil
}

// Redactions implements storage.Reader.
func (s copyStore) Redactions(context.Context) iter.Seq2[storage.Redaction, error] {
	return func(yield func(storage.Redaction, error) bool) {
		for seq, by := range s.redactedBy {
			if by < s.size && !yield(storage.Redaction{Seq: seq, By: by}, nil) {
				return
			}
		}
	}
}

// Key implements storage.Reader.
func (copyStore) Key(context.Context, storage.Hash) (storage.Key, error) {
	return storage.Key{}, storage.ErrNotFound
}

// Keys implements storage.Reader.
func (copyStore) Keys(context.Context, []storage.Hash) ([]storage.Key, error) { return nil, nil }

// Setting implements storage.Reader.
func (copyStore) Setting(context.Context, string) ([]byte, error) {
	return nil, storage.ErrNotFound
}

// Info implements storage.Store.
func (s copyStore) Info(context.Context) (storage.Info, error) { return s.info(), nil }

// Commit implements storage.Store.
func (copyStore) Commit(context.Context, storage.Head, storage.Batch) error { return errReadOnly }

// Freeze implements storage.Store.
func (copyStore) Freeze(context.Context) error { return errReadOnly }

// SetSetting implements storage.Store.
func (copyStore) SetSetting(context.Context, string, []byte) error { return errReadOnly }

// Writable implements storage.Store.
func (copyStore) Writable(context.Context) error { return nil }

func (s copyStore) info() storage.Info { return storage.Info{Name: s.name, Origin: referenceOrigin} }

// referenceOrigin is the origin of the reference's own checkpoints.
const referenceOrigin = "replica.invalid"

// copyDatabase has the copy as its one ledger, and its key.
type copyDatabase struct {
	store  copyStore
	signer *proofs.Signer
}

// Ledgers implements storage.Database.
func (d copyDatabase) Ledgers(context.Context) ([]storage.Info, error) {
	return []storage.Info{d.store.info()}, nil
}

// Ledger implements storage.Database.
func (d copyDatabase) Ledger(_ context.Context, name string) (storage.Store, error) {
	if name != d.store.name {
		return nil, storage.ErrNotFound
	}
	return d.store, nil
}

// Create implements storage.Database.
func (copyDatabase) Create(context.Context, storage.Info) (storage.Store, error) {
	return nil, errReadOnly
}

// Close implements storage.Database.
func (copyDatabase) Close() error { return nil }

// Load implements ledger.Keys.
func (d copyDatabase) Load(string) (*proofs.Signer, error) { return d.signer, nil }

// Staged implements ledger.Keys.
func (copyDatabase) Staged(string) (*proofs.Signer, error) { return nil, storage.ErrNotFound }

// Stage implements ledger.Keys.
func (copyDatabase) Stage(string, *proofs.Signer) error { return errReadOnly }

// Confirm implements ledger.Keys.
func (copyDatabase) Confirm(string) error { return errReadOnly }
