package publish_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/internal/archive"
	"colophon/internal/publish"
	"colophon/internal/publish/bucket/buckettest"
	"colophon/internal/testing/locked"
	"colophon/ledger"
	"colophon/proofs"
	"colophon/storage"
	"colophon/storage/faulty"
	"colophon/storage/memory"
)

// archived is a log with archived entries. It keeps the entries and responses for comparison.
type archived struct {
	*node
	database *memory.Database // the database alone, without the archived entries
	keys     string
	bucket   *buckettest.MemoryBucket
	entries  [][]byte          // all entries
	answers  map[string][]byte // the server's response bodies, keyed by path
}

// paths returns the URL paths of requests for old events.
func paths(size uint64) []string {
	const at = "/v1/ledgers/default"
	all := []string{at + "/log/tile/1/000.p/" + fmt.Sprint(size/256)}
	for index := range size / 256 {
		all = append(all, fmt.Sprintf("%s/log/tile/0/%03d", at, index), fmt.Sprintf("%s/log/tile/entries/%03d", at, index))
	}
	for _, seq := range []uint64{0, 1, 255, 256, 300, 511, size - 1} {
		all = append(all, fmt.Sprintf("%s/records/%d/receipt?tree_size=%d", at, seq, size), fmt.Sprintf("%s/proofs/inclusion?seq=%d&tree_size=%d", at, seq, size))
	}
	return append(all, fmt.Sprintf("%s/proofs/consistency?first=100&second=%d", at, size-1), at+"/events?limit=300", at+"/events?from=200&limit=300")
}

// newArchived creates a log of the given size, publishes it, and records the server's responses.
func newArchived(t *testing.T, size uint64) *archived {
	a := &archived{database: memory.New(), keys: t.TempDir(), bucket: new(buckettest.MemoryBucket), answers: make(map[string][]byte)}
	a.node = open(t, a.database, a.keys)
	a.grow(size / 2)
	_, err := a.host.RotateKey(t.Context(), ledger.DefaultName, "a test")
	require.NoError(t, err)
	_, err = a.host.RetireKey(t.Context(), ledger.DefaultName, "a test")
	require.NoError(t, err)
	a.grow(size)
	for entry, err := range a.ledger.Reader().Entries(t.Context(), 0) {
		require.NoError(t, err)
		a.entries = append(a.entries, bytes.Clone(entry.Bytes))
	}
	for _, path := range paths(size) {
		status, body := a.get(path)
		require.Equal(t, http.StatusOK, status, "%s: %s", path, body)
		a.answers[path] = body
	}
	return a
}

// reopen opens the database as a new process would, with empty caches. faults may be nil.
func (a *archived) reopen(t *testing.T, faults *faulty.Injector) *node {
	var under storage.Database = a.database
	if faults != nil {
		under = faulty.NewDatabase(under, faults)
	}
	return open(t, archive.Wrap(under, archive.Options{Bucket: a.bucket, RequestTimeout: time.Second}), a.keys)
}

// archiving returns options that archive every full tile of entries, except those that contain any of the
// newest after entries.
func (a *archived) archiving(after uint64) publish.Options {
	o := options(a.bucket)
	o.ArchiveOldEntries, o.RetainedEntries = true, after
	return o
}

// below returns the seq below which the log's entries are archived.
func (a *archived) below(t *testing.T) uint64 {
	t.Helper()
	store, err := a.database.Ledger(t.Context(), ledger.DefaultName)
	require.NoError(t, err)
	found, err := storage.ReadArchivedRange(t.Context(), store)
	require.NoError(t, err)
	return found.EndSeq
}

func (a *archived) waitBelow(t *testing.T, below uint64) {
	t.Helper()
	require.Eventually(t, func() bool { return a.below(t) == below }, time.Minute, time.Millisecond)
}

// archive makes a node archive its entries below the given seq, and stops its publisher. after is as in
// archiving.
func (a *archived) archive(t *testing.T, n *node, after, below uint64) *publish.Publisher {
	t.Helper()
	p, stop := n.publish(a.archiving(after))
	a.waitBelow(t, below)
	stop()
	return p
}

// replaceBucket replaces the bucket with one that has the same objects and injects fault into each call while
// down is set. At first, down is set.
func (a *archived) replaceBucket(fault buckettest.Fault) (down *atomic.Bool) {
	down = new(atomic.Bool)
	down.Store(true)
	a.bucket = restart(a.bucket)
	a.bucket.Fault = func(buckettest.Call) buckettest.Fault {
		if down.Load() {
			return fault
		}
		return buckettest.NoFault
	}
	return down
}

// wantAll requires that a node returns every entry, and the same response bodies as before
// archiving.
func (a *archived) wantAll(t *testing.T, n *node) {
	t.Helper()
	at := 0
	for entry, err := range n.ledger.Reader().Entries(t.Context(), 0) {
		require.NoError(t, err)
		if at < len(a.entries) {
			require.Equal(t, string(a.entries[at]), string(entry.Bytes))
		}
		at++
	}
	require.GreaterOrEqual(t, at, len(a.entries))
	for seq := 0; seq < len(a.entries); seq += 37 {
		entry, err := n.ledger.Reader().Entry(t.Context(), uint64(seq))
		require.NoError(t, err)
		require.Equal(t, string(a.entries[seq]), string(entry))
	}
	for path, want := range a.answers {
		status, body := n.get(path)
		require.Equal(t, http.StatusOK, status, "%s: %s", path, body)
		require.Equal(t, string(want), string(body), path)
	}
}

// After old entries have been archived, every response stays the same, and the server can start without
// the bucket.
func TestArchive(t *testing.T) {
	a := newArchived(t, 1500)
	p := a.archive(t, a.reopen(t, nil), 300, 1024)
	require.Equal(t, 1024.0, values(t, p, "colophon_archive_events")["colophon_archive_events default"])

	store, err := a.database.Ledger(t.Context(), ledger.DefaultName)
	require.NoError(t, err)
	var missing *storage.ArchivedError
	in := 0
	for seq := range uint64(1024) {
		if _, err = store.Entry(t.Context(), seq); err == nil {
			in++
		} else {
			require.ErrorAs(t, err, &missing)
		}
	}
	require.Equal(t, 3, in, "only the first event and the key events may remain")
	_, err = store.Entry(t.Context(), 1024)
	require.NoError(t, err)

	again := a.reopen(t, nil)
	a.wantAll(t, again)
	again.grow(1600)
	a.archive(t, again, 1, 1536)
	a.wantAll(t, a.reopen(t, nil))
	a.wantAll(t, again)

	// Without --archive, the server cannot read archived entries, and the error says which flags to
	// set.
	_, err = open(t, a.database, a.keys).ledger.Reader().Entry(t.Context(), 5)
	require.ErrorContains(t, err, "use --archive and --publish")

	// Archived entries stay archived, even if RetainedEntries is increased later.
	_, stop := again.publish(a.archiving(1400))
	again.grow(1700)
	again.wait(a.bucket)
	stop()
	require.EqualValues(t, 1536, a.below(t))
}

// If the bucket hangs, a request for an archived entry fails soon, and later ones fail at once. Requests for
// recent entries are answered, and a read that may take long waits for the bucket.
func TestArchiveInBucketThatHangs(t *testing.T) {
	a := newArchived(t, 900)
	a.archive(t, a.reopen(t, nil), 300, 512)
	hangs := a.replaceBucket(buckettest.FaultHang)
	n := open(t, archive.Wrap(a.database, archive.Options{Bucket: a.bucket, RequestTimeout: time.Hour, Patience: 10 * time.Millisecond}), a.keys)
	for _, tile := range []string{"entries/000", "0/000", "0/001"} {
		status, body := n.get("/v1/ledgers/default/log/tile/" + tile)
		require.Equal(t, http.StatusServiceUnavailable, status, "%s", body)
	}
	for _, call := range a.bucket.Calls() {
		require.Contains(t, call.ObjectName, "/entries/", "after the first request, none may reach the bucket")
	}
	status, body := n.get("/v1/ledgers/default/records/899/receipt")
	require.Equal(t, http.StatusOK, status, "%s", body)

	patient, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := n.ledger.Reader().Entry(patient, 300)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	hangs.Store(false)
	_, err = n.ledger.Reader().Entry(storage.Impatient(t.Context()), 400)
	require.ErrorContains(t, err, "the bucket is slow")
}

// An entry is not removed from the database if its copy is missing or different.
func TestArchiveVerifiesFirst(t *testing.T) {
	for _, name := range []string{"tile/0/001", "tile/entries/001"} {
		for change, apply := range map[string]func([]byte) []byte{
			"missing": func([]byte) []byte { return nil },
			"longer":  func(b []byte) []byte { return append(b, 0) },
			"shorter": func(b []byte) []byte { return b[:len(b)-1] },
			"changed": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		} {
			t.Run(name+" "+change, func(t *testing.T) {
				a := newArchived(t, 900)
				n := a.reopen(t, nil)
				_, stop := n.publish(options(a.bucket))
				n.wait(a.bucket)
				stop()
				body := a.bucket.Objects()[prefix+name]
				a.bucket.SetObject(prefix+name, apply(bytes.Clone(body)))
				var logged locked.Buffer
				o := a.archiving(1)
				o.Logger = slog.New(slog.NewTextHandler(&logged, nil))
				p, stop := n.publish(o)
				const failures = "colophon_archive_failures_total"
				require.Eventually(t, func() bool { return values(t, p, failures)[failures+" default"] > 0 }, time.Minute, time.Millisecond)
				stop()
				require.Contains(t, logged.String(), prefix+name)
				require.Zero(t, a.below(t))
				a.wantAll(t, open(t, a.database, a.keys))
			})
		}
	}
}

// If a process stops before or after any step of archiving, nothing is lost, and the next process continues.
func TestArchiveEndsAtEveryStep(t *testing.T) {
	for _, mode := range []faulty.Mode{faulty.ModeFail, faulty.ModeFailAfterSuccess} {
		for skip := range 3 {
			a := newArchived(t, 8*256*2+300) // enough for more than two archiving steps
			faults := faulty.New(faulty.Plan{Mode: mode, Calls: []string{"Archive"}, SkipCount: skip})
			n := a.reopen(t, faults)
			_, stop := n.publish(a.archiving(1))
			require.Eventually(t, func() bool { return faults.FaultCounts()["Archive"] > 0 }, time.Minute, time.Millisecond)
			stop()
			a.wantAll(t, a.reopen(t, nil))

			n = a.reopen(t, nil)
			_, stop = n.publish(a.archiving(1))
			a.waitBelow(t, 17*256)
			stop()
			a.wantAll(t, a.reopen(t, nil))
		}
	}
	a := newArchived(t, 900)
	n := a.reopen(t, nil)
	_, stop := n.publish(options(a.bucket))
	n.wait(a.bucket)
	stop()
	for _, fault := range []buckettest.Fault{buckettest.FaultBeforeCall, buckettest.FaultAfterCall, buckettest.FaultHang} {
		for end := range 14 {
			b := restart(a.bucket)
			var calls atomic.Int64
			ended := make(chan struct{})
			b.Fault = func(buckettest.Call) buckettest.Fault {
				switch at := int(calls.Add(1)) - 1; {
				case at < end:
					return buckettest.NoFault
				case at == end:
					close(ended)
				}
				return fault
			}
			o := options(b)
			o.ArchiveOldEntries, o.RetainedEntries, o.Timeout = true, 1, 5*time.Millisecond
			n := a.reopen(t, nil)
			_, stop := n.publish(o)
			select {
			case <-ended:
			case <-time.After(50 * time.Millisecond): // everything was already archived
			}
			stop()
			a.wantAll(t, a.reopen(t, nil))
		}
	}
}

// If the bucket returns wrong bytes or has lost an object, reading returns an error that names the object, and
// never a wrong result.
func TestArchiveThatLies(t *testing.T) {
	a := newArchived(t, 900)
	a.archive(t, a.reopen(t, nil), 1, 768)
	sound := a.bucket.Objects()
	for _, name := range []string{"tile/0/001", "tile/entries/001"} {
		for change, body := range map[string][]byte{
			"missing": nil, "empty": {}, "another": sound[prefix+strings.Replace(name, "001", "002", 1)],
			"changed": append(bytes.Clone(sound[prefix+name][:700]), append([]byte("x"), sound[prefix+name][701:]...)...),
			"shorter": sound[prefix+name][:len(sound[prefix+name])-32], "longer": append(bytes.Clone(sound[prefix+name]), 0),
			"much longer": make([]byte, 256*(2+1<<16)+1),
		} {
			a.bucket.SetObject(prefix+name, body)
			store := a.reopen(t, nil).ledger.Reader()
			var err error
			if strings.Contains(name, "entries") {
				_, err = store.Entry(t.Context(), 300)
			} else {
				_, err = store.Tile(t.Context(), 0, 1)
			}
			require.ErrorIs(t, err, storage.ErrDamaged, "%s %s", name, change)
			require.ErrorContains(t, err, prefix+name)
			require.NotErrorIs(t, err, storage.ErrNotFound)
			_, err = store.Entry(t.Context(), 10)
			require.NoError(t, err, "an entry of another bundle must be readable")
			for entry, err := range store.Entries(t.Context(), 0) {
				if err != nil {
					require.ErrorContains(t, err, prefix+name)
					break
				}
				require.Equal(t, string(a.entries[entry.Seq]), string(entry.Bytes))
			}
		}
		a.bucket.SetObject(prefix+name, sound[prefix+name])
	}
	a.wantAll(t, a.reopen(t, nil))
}

// While the bucket does not respond, the server starts, accepts records, and serves recent events. Once the
// bucket responds again, the server serves all events.
func TestArchiveWithoutItsBucket(t *testing.T) {
	a := newArchived(t, 900)
	a.archive(t, a.reopen(t, nil), 1, 768)
	for _, fault := range []buckettest.Fault{buckettest.FaultBeforeCall, buckettest.FaultHang} {
		down := a.replaceBucket(fault)
		n := open(t, archive.Wrap(a.database, archive.Options{Bucket: a.bucket, RequestTimeout: 500 * time.Millisecond}), a.keys)
		n.grow(n.ledger.Head().Size + 10)
		_, err := n.ledger.Reader().Entry(t.Context(), 800)
		require.NoError(t, err)
		_, err = n.ledger.Reader().Entry(t.Context(), 300)
		require.ErrorContains(t, err, " from the archive")
		require.NotErrorIs(t, err, storage.ErrDamaged)
		_, err = n.ledger.Reader().Tile(t.Context(), 0, 1)
		require.Error(t, err)
		status, _ := n.get("/v1/ledgers/default/records/300/receipt")
		require.GreaterOrEqual(t, status, http.StatusInternalServerError)
		down.Store(false)
		for _, seq := range []uint64{10, 300, 600} { // the index may wait for requests that began before
			require.Eventually(t, func() bool {
				_, err := n.ledger.Reader().Entry(t.Context(), seq)
				return err == nil
			}, time.Minute, time.Millisecond)
		}
		a.wantAll(t, n)
	}
}

// The last entry always stays in the database, even if it completes a full tile.
func TestArchiveKeepsTheEdge(t *testing.T) {
	a := newArchived(t, 700)
	n := a.reopen(t, nil)
	_, stop := n.publish(a.archiving(1))
	a.waitBelow(t, 512)
	for _, size := range []uint64{767, 768, 769, 1024, 1025} {
		n.grow(size)
		a.waitBelow(t, (size-1)/proofs.FullTileWidth*proofs.FullTileWidth)
		a.wantAll(t, a.reopen(t, nil))
	}
	stop()
}
