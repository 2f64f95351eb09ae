package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/internal/datadir"
	"colophon/internal/remote"
	"colophon/internal/testing/ledgertest"
	"colophon/ledger"
	"colophon/ledger/record"
	"colophon/ledger/record/moment"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
	"colophon/storage"
	"colophon/storage/pebble"
	"colophon/storage/pebble/pebbletest"
)

// forge damages a copy of the ledger's database. It bypasses the storage package but keeps the
// checksums of the files valid. Methods that sign use the ledger's own key.
type forge struct {
	t       testing.TB
	world   *ledgertest.Ledger
	data    string
	x       *pebbletest.Tamperer
	entries [][]byte
	tiles   map[[2]uint64][]byte
	head    storage.Head
	signer  *proofs.Signer
}

// newForge opens the copy of the ledger's database in the folder data, and reads its entries and
// tiles.
func newForge(t testing.TB, w *ledgertest.Ledger, data string) *forge {
	stored := w.ReadLog(t, data)
	f := &forge{t: t, world: w, data: data, entries: slices.Clone(stored.RawEntries), tiles: stored.Tiles, head: stored.StoredHead}
	var err error
	f.signer, err = datadir.KeyFiles(data).Load(ledger.DefaultName)
	require.NoError(t, err)
	f.x, err = pebbletest.OpenTamperer(nil, datadir.DatabaseFolder(data), ledger.DefaultName)
	require.NoError(t, err)
	return f
}

func (f *forge) done() { require.NoError(f.t, f.x.Close()) }

func (f *forge) seq(name string) uint64 {
	seq, known := f.world.EventSeqs[name]
	require.True(f.t, known, name)
	return seq
}

// put replaces the stored entry that has the given seq.
func (f *forge) put(seq uint64, entry []byte) {
	f.entries[seq] = entry
	require.NoError(f.t, f.x.SetEntry(seq, entry))
}

// flip flips the lowest bit of one byte of an entry.
func (f *forge) flip(seq uint64, at int) {
	entry := bytes.Clone(f.entries[seq])
	entry[at] ^= 1
	f.put(seq, entry)
}

// replace replaces the first occurrence of from in an event with to.
func (f *forge) replace(seq uint64, from, to string) {
	require.Contains(f.t, string(f.entries[seq]), from)
	f.put(seq, bytes.Replace(bytes.Clone(f.entries[seq]), []byte(from), []byte(to), 1))
}

// tile replaces the stored hashes of a tile with the result of change.
func (f *forge) tile(level uint8, index uint64, change func([]byte) []byte) {
	tile := bytes.Clone(f.tiles[[2]uint64{uint64(level), index}])
	require.NotEmpty(f.t, tile)
	require.NoError(f.t, f.x.SetTile(level, index, change(tile)))
}

// relink updates the hash of the previous entry in the entry at from and in all later entries.
func (f *forge) relink(from uint64) {
	for seq := from; seq < uint64(len(f.entries)); seq++ {
		prev := proofs.Hash{}
		if seq > 0 {
			prev = sha256.Sum256(f.entries[seq-1])
		}
		f.put(seq, proofs.AppendEntry(nil, prev, f.entries[seq][proofs.HashSize:]))
	}
}

// sign rebuilds the tiles for the first size entries and signs their root with the ledger's own
// key.
func (f *forge) sign(size uint64) {
	tree, err := proofs.OpenTree(0, nil, nil)
	require.NoError(f.t, err)
	for _, entry := range f.entries[:size] {
		tree.Append(proofs.LeafHash(entry))
	}
	for _, d := range tree.TakeDirtyTiles() {
		require.NoError(f.t, f.x.SetTile(d.Level, d.Index, d.Hashes))
	}
	f.signHead(size, tree.Root())
}

// signHead stores a head with the given size and root, signed with the ledger's own key.
func (f *forge) signHead(size uint64, root proofs.Hash) {
	f.head.Size, f.head.Tip = size, sha256.Sum256(f.entries[size-1])
	var err error
	f.head.Checkpoint, err = f.signer.Sign(proofs.Checkpoint{Origin: f.signer.Origin(), Size: size, Root: root})
	require.NoError(f.t, err)
	require.NoError(f.t, f.x.SetHead(f.head))
}

// root returns the root hash of the first size entries.
func (f *forge) root(size uint64) proofs.Hash {
	tree, err := proofs.OpenTree(0, nil, nil)
	require.NoError(f.t, err)
	for _, entry := range f.entries[:size] {
		tree.Append(proofs.LeafHash(entry))
	}
	return tree.Root()
}

// rewrite replaces from with to in an event and then recomputes the links, the tiles, and the
// signature, so that only the event itself is wrong.
func (f *forge) rewrite(seq uint64, from, to string) {
	f.replace(seq, from, to)
	f.relink(seq)
	f.sign(uint64(len(f.entries)))
}

// reword is like rewrite, but it also recomputes the digest in the event, so that the digest covers
// the new text.
func (f *forge) reword(seq uint64, from, to string) {
	f.replace(seq, from, to)
	var d pyjson.Document
	require.NoError(f.t, d.Parse(f.entries[seq][proofs.HashSize:]))
	kind, detail := string(d.Root().Member("kind").Text()), d.Root().Member("record")
	covered := []byte{'{'}
	for name, value := range detail.Members() {
		if digestCovers(kind, string(name.Text()), detail) {
			covered = append(append(append(append(covered, name.Raw()...), ':'), value.Raw()...), ',')
		}
	}
	covered[len(covered)-1] = '}'
	f.rewrite(seq, string(detail.Member("digest").Text()), fmt.Sprintf("%x", sha256.Sum256(covered)))
}

// digestCovers reports whether the digest in an event covers a member of the event's record. The
// digest excludes members that the ledger adds. For example, it covers the build of a validation
// only if the request contained the build.
func digestCovers(kind, member string, detail pyjson.Value) bool {
	switch member {
	case "digest", "idempotency_key", "names":
		return false
	case "record_seq":
		return kind == string(record.KindRecordStateChanged)
	case "build", "content_fingerprint":
		for name := range detail.Member("names").Elements() {
			if string(name.Text()) == member {
				return true
			}
		}
		return false
	}
	return true
}

// add appends an entry whose event has the given body and the next seq, and signs the larger tree.
func (f *forge) add(body string) {
	seq := uint64(len(f.entries))
	last := f.entries[seq-1]
	at := string(last[bytes.LastIndex(last, []byte(`"time":"`)):])
	f.entries = append(f.entries, nil)
	f.put(seq, proofs.AppendEntry(nil, sha256.Sum256(last), fmt.Appendf(nil, `%s"seq":%d,%s`, body, seq, at)))
	f.sign(seq + 1)
}

// bodyOf returns the start of an event's body, up to but not including the member seq.
func (f *forge) bodyOf(seq uint64) string {
	body := string(f.entries[seq][proofs.HashSize:])
	return body[:strings.LastIndex(body, `"seq":`)]
}

// contentOf returns the digest of one piece of an event's content. name identifies the event in the
// test ledger.
func (f *forge) contentOf(name, piece string) storage.Hash {
	var event struct {
		Record struct {
			Content map[string]struct{ SHA256 string }
		}
	}
	require.NoError(f.t, json.Unmarshal(f.entries[f.seq(name)][proofs.HashSize:], &event))
	digest, err := proofs.ParseHash(event.Record.Content[piece].SHA256)
	require.NoError(f.t, err)
	return digest
}

// keyOf returns the digest of an event's idempotency key. name is the event's name in the test
// ledger.
func (f *forge) keyOf(name string) storage.Hash {
	var event struct {
		Record struct {
			Key string `json:"idempotency_key"`
		}
	}
	require.NoError(f.t, json.Unmarshal(f.entries[f.seq(name)][proofs.HashSize:], &event))
	key, err := proofs.ParseHash(event.Record.Key)
	require.NoError(f.t, err)
	return key
}

// rawServer serves the stored data without checking it, as a dishonest server might.
type rawServer struct {
	store storage.Reader
	// instead, if not nil, is called first for each request. It returns true if it has sent the
	// response.
	instead func(http.ResponseWriter, *http.Request) bool
}

// openRaw opens the default ledger in the folder data. The database is closed when the test ends.
func openRaw(t testing.TB, data string) storage.Reader {
	t.Helper()
	database, err := pebble.Open(context.Background(), pebble.Config{Dir: datadir.DatabaseFolder(data)})
	require.NoError(t, err)
	store, err := database.Ledger(context.Background(), ledger.DefaultName)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, database.Close()) })
	return store
}

// serve starts the server and returns the URL of its ledger. The server is stopped when the test
// ends.
func (s *rawServer) serve(t testing.TB) (address string) {
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL + remote.LedgerPath(ledger.DefaultName)
}

// serveRaw starts a rawServer for the folder data and returns the URL of its ledger. The server is
// stopped when the test ends.
func serveRaw(t testing.TB, data string, instead func(http.ResponseWriter, *http.Request) bool) (address string) {
	t.Helper()
	return (&rawServer{openRaw(t, data), instead}).serve(t)
}

// ServeHTTP implements http.Handler.
func (s *rawServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.instead != nil && s.instead(w, r) {
		return
	}
	path := strings.TrimPrefix(r.URL.EscapedPath(), remote.LedgerPath(ledger.DefaultName))
	switch {
	case path == "/log/checkpoint":
		head, err := s.store.Head(r.Context())
		s.answer(w, head.Checkpoint, err)
	case strings.HasPrefix(path, "/log/"):
		tile, err := proofs.ParseTilePath(strings.TrimPrefix(path, "/log/"))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		body, err := s.tile(r.Context(), tile)
		s.answer(w, body, err)
	case path == "/member-secret":
		secret, err := s.store.Setting(r.Context(), "member_secret")
		s.answer(w, fmt.Appendf(nil, `{"member_secret":"%x"}`, secret), err)
	case strings.HasPrefix(path, "/records/"):
		s.content(w, r, strings.Split(path, "/"))
	default:
		http.NotFound(w, r)
	}
}

func (s *rawServer) answer(w http.ResponseWriter, body []byte, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	_, _ = w.Write(body)
}

// tile returns the stored hashes of a tile. For an entry bundle, it returns the stored entries up
// to the requested width.
func (s *rawServer) tile(ctx context.Context, path proofs.TilePath) ([]byte, error) {
	if !path.IsEntryBundle {
		tile, err := s.store.Tile(ctx, path.Level, path.Index)
		return tile, err
	}
	var bundle []byte
	for e, err := range s.store.Entries(ctx, path.Index*proofs.FullTileWidth) {
		if err != nil || e.Seq == path.Index*proofs.FullTileWidth+uint64(path.Width) {
			break
		}
		if bundle, err = proofs.AppendBundleEntry(bundle, e.Bytes); err != nil {
			return nil, err
		}
	}
	return bundle, nil
}

// content answers GET /records/SEQ/content/NAME.
func (s *rawServer) content(w http.ResponseWriter, r *http.Request, path []string) {
	seq, err := strconv.ParseUint(path[2], 10, 64)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	if by, err := s.store.RedactingSeq(r.Context(), seq); err == nil {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusGone)
		fmt.Fprintf(w, `{"status":410,"redacted_by":%d}`, by)
		return
	}
	name, err := url.PathUnescape(strings.Join(path[4:], "/"))
	var entry, content []byte
	if err == nil {
		entry, err = s.store.Entry(r.Context(), seq)
	}
	var event struct {
		Record struct {
			Content map[string]struct{ SHA256 string }
		}
	}
	if err == nil {
		err = json.Unmarshal(entry[proofs.HashSize:], &event)
	}
	digest, parseErr := proofs.ParseHash(event.Record.Content[name].SHA256)
	if err = errors.Join(err, parseErr); err == nil {
		content, err = s.store.Content(r.Context(), digest)
	}
	s.answer(w, content, err)
}

// microseconds converts the time of an event to microseconds since 1970.
func microseconds(t testing.TB, text string) int64 {
	t.Helper()
	at, err := time.Parse(moment.Layout, text)
	require.NoError(t, err)
	return at.UnixMicro()
}
