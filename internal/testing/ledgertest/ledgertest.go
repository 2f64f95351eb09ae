// Package ledgertest provides an undamaged ledger with every kind of event, for tests that
// audit, damage, or compare it.
package ledgertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/api"
	"colophon/client/wire"
	"colophon/internal/datadir"
	"colophon/internal/server"
	"colophon/ledger"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/storage"
	"colophon/storage/pebble"
)

// Ledger is a data folder with the ledger "default".
type Ledger struct {
	DataDir   string
	Key       string            // verifier key
	EventSeqs map[string]uint64 // seq of each named event
	Size      uint64

	stored *StoredLog // see Read
}

// ZeroHash is a well-formed digest that no text has.
const ZeroHash = "0000000000000000000000000000000000000000000000000000000000000000"

// requests lists the requests that create the named events.
var requests = []struct{ name, method, path, body string }{
	{"ipc", "POST", "/ipc-records", `{"run_id":"ipc","payload":{"q":"Who?","seed":7},"system_prompt":"Be brief.","output":"Ana  Varga.","model":"m1","temperature":0.5,"max_tokens":9}`},
	{"mismatch", "POST", "/ipc-records", `{"run_id":"mismatch","payload":{"q":"Who?","seed":7},"system_prompt":"Be brief.","output":"Ana.","output_hash":"` + ZeroHash + `","model":"m1","temperature":0.5,"max_tokens":9}`},
	{"claims", "POST", "/ipc-records", `{"run_id":"claims","input_hash":"` + ZeroHash + `","system_prompt_hash":"` + ZeroHash + `","output_hash":"` + ZeroHash + `","model":"m2","temperature":0.5,"max_tokens":9,"seed":7,"labels":{"step":"one"}}`},
	{"labelled", "POST", "/ipc-records", `{"run_id":"labelled","payload":{"q":"Who?","seed":7},"system_prompt":"Be brief.","output":"Somebody.","model":"m2","temperature":0.5,"max_tokens":9,"labels":{"step":"one"}}`},
	{"dag", "POST", "/run-dags", `{"run_id":"dag","question":"Who keeps the light?","messages":[{"role":"user","content":"x"}],"inputs":{"context_root":"` + ZeroHash + `","answer_text":"Ana.","audit_mode":"HYBRID",` +
		`"verifier_method":"v","n_quotes":1,"n_verified":1,"sources":[{"score":1}]},"cache_dimensions":{"source_root":"` + ZeroHash + `","question_hash":"` + ZeroHash + `","model_profile_hash":"` + ZeroHash + `","conversation_hash":"` + ZeroHash +
		`","governance_policy_hash":"` + ZeroHash + `","schema_version":"1","canonicalization_version":"1","chunking_version":"1"}}`},
	{"set", "POST", "/citation-sets", `{"run_id":"set","subject":"s","citations":[{"source_id":"x","text":"Ana  Varga keeps it.","weight":1},{"source_id":"y","chunk_hash":"sha256:` + ZeroHash + `","weight":0.5}]}`},
	{"path", "POST", "/path-fingerprints", `{"run_id":"path","project":"p","build":"1","route":["Start"],"content":"The [[quay]]."}`},
	{"secret", "POST", "/ipc-records", `{"run_id":"secret","payload":{"q":"A secret?"},"output":"A secret.","model":"m1","temperature":0,"max_tokens":9}`},
	{"other", "POST", "/ipc-records", `{"payload":{"q":"Other?"},"output":"Other.","model":"m1","temperature":0,"max_tokens":9}`},
	{"redaction", "DELETE", "/records/{secret}/content", `{"reason":"Asked for."}`},
	{"stale", "POST", "/records/{claims}/state", `{"state":"stale","reason":"r"}`},
	{"validation", "PUT", "/paths/p/path_id/validation", `{"validated":true}`},
	{"source", "PUT", "/sources/x", `{"title":"X"}`},
	{"refusal", "POST", "/ipc-records", `{"run_id":"ipc","payload":{"q":"Another?","seed":7},"system_prompt":"Be brief.","output":"Another.","model":"m1","temperature":0.5,"max_tokens":9}`},
	{"revocation", "DELETE", "/sources/x", `{}`},
}

// New creates a ledger with the named events, and with the given numbers of other records before,
// between, and after them. One in four of the other records has content.
func New(t testing.TB, before, between, after int) *Ledger {
	t.Helper()
	l := &Ledger{DataDir: t.TempDir(), EventSeqs: make(map[string]uint64)}
	url, stop := serve(t, l.DataDir, &l.Key)
	defer stop()
	posted := 0
	fill := func(bulk int) {
		var lines strings.Builder
		for range bulk {
			posted++
			claims := fmt.Sprintf(`"input_hash":"%064x","system_prompt_hash":"%064x","output_hash":"%064x","seed":%d`, posted%5, 1, posted%4, posted%3)
			if posted%4 == 1 {
				claims = fmt.Sprintf(`"payload":{"q":"%d","seed":%d},"system_prompt":"Be brief.","output":"Text %d."`, posted%5, posted%3, posted%7)
			}
			fmt.Fprintf(&lines, `{"kind":"ipc_record","record":{"run_id":"bulk %d",%s,"model":"m%d","temperature":0.5,"max_tokens":9,"labels":{"n":"%d"}}}`+"\n",
				posted, claims, posted%2, posted%10)
		}
		_, answer := Send(t, "POST", url+"/batch", lines.String(), "application/x-ndjson")
		require.NotContains(t, answer, `"status"`)
	}
	fill(before)
	for i, r := range requests {
		path := r.path
		for name, seq := range l.EventSeqs {
			path = strings.ReplaceAll(path, "{"+name+"}", fmt.Sprint(seq))
		}
		if start, rest, found := strings.Cut(path, "path_id"); found {
			path = start + pathIDOf(t, url, l.EventSeqs["path"]) + rest
		}
		status, answer := Send(t, r.method, url+path, r.body, "application/json")
		require.Contains(t, []int{http.StatusCreated, http.StatusConflict}, status, "%s: %s", r.name, answer)
		l.EventSeqs[r.name] = TreeSize(t, url) - 1
		if i == len(requests)/2 {
			fill(between)
		}
	}
	fill(after)
	l.Size = TreeSize(t, url)
	return l
}

// Send sends a request, and returns the status and the body of the response. kind is the value of
// the Content-Type header.
func Send(t testing.TB, method, url, body, kind string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", kind)
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(answer)
}

// TreeSize returns the size of the ledger at a URL.
func TreeSize(t testing.TB, url string) uint64 {
	t.Helper()
	_, answer := Send(t, "GET", url, "", "")
	var info wire.LedgerDescription
	require.NoError(t, json.Unmarshal([]byte(answer), &info))
	return info.TreeSize
}

// pathIDOf returns the path_id of the path that the event at seq added to project p.
func pathIDOf(t testing.TB, url string, seq uint64) string {
	t.Helper()
	_, answer := Send(t, "GET", url+"/paths/p?after="+fmt.Sprint(seq), "", "")
	var list struct {
		Rows []struct {
			PathID string `json:"path_id"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(answer), &list))
	return list.Rows[0].PathID
}

// Serve runs a real server on a data folder until stop is called. It returns once the index has
// caught up with the log. url is the URL of the ledger "default".
func Serve(t testing.TB, data string) (url string, stop func()) {
	t.Helper()
	return serve(t, data, nil)
}

// serve is like Serve, but it also stores the verifier key in *key if key is not nil.
func serve(t testing.TB, data string, key *string) (url string, stop func()) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	n, err := server.OpenNode(context.Background(), server.Config{DataDir: data}.WithDefaults(), datadir.KeyFiles(data), log)
	require.NoError(t, err)
	service, err := api.New(api.Config{Host: n.Host, Index: n.Index, Logger: log, SpoolDir: datadir.SpoolFolder(data), Version: "test"})
	require.NoError(t, err)
	server := httptest.NewServer(service)
	l, err := n.Host.Ledger(ledger.DefaultName)
	require.NoError(t, err)
	require.NoError(t, n.Index.Follower(ledger.DefaultName).WaitForSize(context.Background(), l.Head().Size)) // audits need a current index
	if key != nil {
		*key = l.VerifierKey()
	}
	return server.URL + "/v1/ledgers/" + ledger.DefaultName, func() {
		server.Close()
		require.NoError(t, n.Close())
	}
}

// Copy copies the data folder, and returns the path of the copy. No server may be using the folder.
func (l *Ledger) Copy(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.CopyFS(dir, os.DirFS(l.DataDir)))
	require.NoError(t, os.Chmod(datadir.KeyFiles(dir).Path(ledger.DefaultName), 0o600))
	return dir
}

// answerRequests lists requests that add further records, so that no query has an empty result.
var answerRequests = []struct{ method, path, body string }{
	{"POST", "/run-dags", `{"run_id":"dag 2","question":"Who keeps the light?","messages":[{"role":"user","content":"y"}],"timestamp":"2026-01-02T00:00:00Z","inputs":{"context_root":"` + strings.Repeat("1", 64) + `","answer_text":"Bo.","audit_mode":"HYBRID",` +
		`"verifier_method":"v","n_quotes":1,"n_verified":1,"sources":[{"score":1,"document_root":"` + ZeroHash + `"}]},"evidence":[{"chunk_root":"` + ZeroHash + `","start":0,"end":9}]}`},
	{"POST", "/citation-sets", `{"run_id":"set 2","subject":"s","producer":{"id":"maker","seq":1},"citations":[{"source_id":"x","text":"Another.","weight":1,"section":"a"},{"source_id":"z","chunk_hash":"sha256:` + ZeroHash + `","weight":0.25}]}`},
	{"POST", "/citation-sets", `{"run_id":"set 3","subject":"s","producer":{"id":"maker","seq":4},"citations":[{"source_id":"x","text":"Ana  Varga keeps it.","weight":1}]}`},
	{"POST", "/ipc-records", `{"run_id":"made","payload":{"q":"Made?"},"output":"Made.","model":"m1","temperature":0.25,"max_tokens":9,"seed":7,"timestamp":"2026-01-01T00:00:00Z","producer":{"id":"maker","seq":4}}`},
	{"PUT", "/sources/x", `{"title":"X","chunk_hashes":["sha256:` + ZeroHash + `"]}`},
	{"PUT", "/sources/y", `{"title":"Y"}`},
	{"POST", "/path-fingerprints", `{"run_id":"path 2","project":"p","build":"1","route":["Start","On"],"content":"On."}`},
	{"POST", "/path-fingerprints", `{"run_id":"path 3","project":"p","build":"2","route":["Start"],"content":"The new [[quay]]."}`},
	{"POST", "/path-fingerprints", `{"run_id":"path 4","project":"p","build":"3","route":["Start"],"content":"The new [[quay]].","hash_version":"adr-005","content_fingerprint":"0123456789abcdef"}`},
	{"POST", "/path-fingerprints", `{"run_id":"path 5","project":"p","build":"4","route":["Start"]}`},
	{"POST", "/records/1/notes", `{"topic":"review","text":"Good.","original_actor":"Ana Varga","timestamp":"2025-11-30T12:00:00Z"}`},
	{"POST", "/records/2/notes", `{"topic":"step"}`},
	{"POST", "/records/1/state", `{"state":"live","reason":"r","original_actor":"Ana Varga","timestamp":"2025-11-30T12:00:00Z"}`},
	{"POST", "/ipc-records", `{"payload":{"q":"Where?"},"output":"Here.","model":"m1","seed":7,"labels":{"region":"eu"}}`},
	{"POST", "/ipc-records", `{"payload":{"q":"Where?"},"output":"There.","model":"m1","seed":7,"labels":{"region":"us"}}`},
	{"POST", "/ipc-records", `{"run_id":"made","payload":{"q":"Else?"},"output":"Else.","model":"m1","temperature":0.25,"max_tokens":9,"seed":7}`},
}

// NewPopulated creates a ledger on which no query of the API has an empty result. bulk is the
// number of additional records both before and after the named events.
func NewPopulated(t testing.TB, bulk int) *Ledger {
	t.Helper()
	l := New(t, bulk, 5, bulk)
	url, stop := Serve(t, l.DataDir)
	defer stop()
	for _, r := range answerRequests {
		status, answer := Send(t, r.method, url+r.path, r.body, "application/json")
		require.Contains(t, []int{http.StatusCreated, http.StatusConflict}, status, answer)
	}
	l.Size = TreeSize(t, url)
	return l
}

// StoredLog is an in-memory copy of a stored log. It implements audit.PublishedLog.
type StoredLog struct {
	RawEntries [][]byte             // entries
	Tiles      map[[2]uint64][]byte // tiles, by level and index
	StoredHead storage.Head
}

// ReadLog returns the log that is stored in data, which must be the ledger's data folder or an
// unchanged copy of it. Only the first call reads the files; later calls return the same log.
func (l *Ledger) ReadLog(t testing.TB, data string) *StoredLog {
	t.Helper()
	if l.stored != nil {
		return l.stored
	}
	s := &StoredLog{Tiles: make(map[[2]uint64][]byte)}
	WithStore(t, data, func(store storage.Reader) {
		var err error
		s.StoredHead, err = store.Head(t.Context())
		require.NoError(t, err)
		for e, err := range store.Entries(t.Context(), 0) {
			require.NoError(t, err)
			s.RawEntries = append(s.RawEntries, bytes.Clone(e.Bytes))
		}
		for level := uint8(0); level < 2; level++ {
			for index := uint64(0); proofs.TileWidth(level, index, s.StoredHead.Size) > 0; index++ {
				s.Tiles[[2]uint64{uint64(level), index}], err = store.Tile(t.Context(), level, index)
				require.NoError(t, err)
			}
		}
	})
	l.stored = s
	return s
}

// WithStore opens the database in a data folder, calls read with the ledger "default", and closes
// the database.
func WithStore(t testing.TB, data string, read func(storage.Reader)) {
	t.Helper()
	database, err := pebble.Open(context.Background(), pebble.Config{Dir: datadir.DatabaseFolder(data)})
	require.NoError(t, err)
	store, err := database.Ledger(context.Background(), ledger.DefaultName)
	require.NoError(t, err)
	read(store)
	require.NoError(t, database.Close())
}

// Head implements audit.PublishedLog.
func (s *StoredLog) Head(context.Context) (audit.Head, error) {
	return audit.Head{Size: s.StoredHead.Size, Checkpoint: s.StoredHead.Checkpoint}, nil
}

// Tile implements audit.PublishedLog.
func (s *StoredLog) Tile(_ context.Context, level uint8, index uint64) ([]byte, error) {
	tile, found := s.Tiles[[2]uint64{uint64(level), index}]
	if !found {
		return nil, errors.New("there is no such tile")
	}
	return tile, nil
}

// Entries implements audit.PublishedLog.
func (s *StoredLog) Entries(_ context.Context, from uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, entry := range s.RawEntries[from:] {
			if !yield(entry, nil) {
				return
			}
		}
	}
}
