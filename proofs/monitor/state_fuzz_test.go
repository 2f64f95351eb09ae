package monitor

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/internal/testing/ledgertest"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/proofs/monitor/fetch"
)

// grownLog returns a log, its keys, and the state file of an earlier audit. Since that audit, the
// log has gained four events and one key.
func grownLog(t testing.TB) (l *ledgertest.StoredLog, keys []*proofs.Verifier, state string) {
	w := ledgertest.New(t, 5, 0, 0)
	state = filepath.Join(t.TempDir(), "state")
	url, stop := ledgertest.Serve(t, w.DataDir)
	require.True(t, audited(t, optionsFor(t, url, w.Key, state)).Clean)
	for _, step := range []string{"", "rotate", "", "retire"} {
		body, path := `{"payload":{},"output":"1","model":"m","temperature":0,"max_tokens":9}`, "/ipc-records"
		if step != "" {
			body, path = fmt.Sprintf(`{"step":%q}`, step), "/keys"
		}
		status, answer := ledgertest.Send(t, "POST", url+path, body, "application/json")
		require.Equal(t, http.StatusCreated, status, answer)
	}
	_, answer := ledgertest.Send(t, "GET", url+"/log/key", "", "")
	history, err := proofs.ParseKeyHistory([]byte(answer))
	require.NoError(t, err)
	stop()
	return w.ReadLog(t, w.DataDir), history.Verifiers(), state
}

// FuzzAuditState changes the state file and one byte of a file in the folder beside it. An audit
// must then refuse the state, report an error or damage in the log, or reach the correct position
// and save a state that the next audit can use.
func FuzzAuditState(f *testing.F) {
	log, keys, sound := grownLog(f)
	text, err := os.ReadFile(sound)
	require.NoError(f, err)
	kept, err := os.ReadDir(sound + ".d")
	require.NoError(f, err)
	kept = slices.DeleteFunc(kept, func(file os.DirEntry) bool { return file.Name() == "LOCK" || file.Name() == marksFile })
	f.Add(text, uint8(0), uint16(0), byte(0))
	for number := range kept {
		f.Add(text, uint8(number), uint16(3), byte(1))
	}
	for _, change := range []func(*stateFile){
		func(s *stateFile) { s.Size-- }, func(s *stateFile) { s.Size, s.KeyUses, s.CompactRange = 0, 0, nil }, func(s *stateFile) { s.KeyUses++ },
		func(s *stateFile) { s.Tip = ledgertest.ZeroHash }, func(s *stateFile) { s.Time = "2099" }, func(s *stateFile) { s.Ledger = "another" },
		func(s *stateFile) { s.Keys = nil }, func(s *stateFile) { s.KeysChecked = 0 }, func(s *stateFile) { s.Unproved = []string{s.Checkpoint} }, func(s *stateFile) { s.CompactRange[0] = ledgertest.ZeroHash }, func(s *stateFile) { s.VerifierKeys = nil },
	} {
		var s stateFile
		require.NoError(f, json.Unmarshal(text, &s))
		change(&s)
		changed, err := s.encode()
		require.NoError(f, err)
		f.Add(changed, uint8(0), uint16(0), byte(0))
	}
	want, err := proofs.OpenCheckpoint(log.StoredHead.Checkpoint, keys...)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text []byte, number uint8, at uint16, flip byte) {
		state := filepath.Join(t.TempDir(), "state")
		var s stateFile
		if json.Unmarshal(text, &s) == nil && s.Checksum != "" { // set a valid checksum, so that more of the file is read
			var err error
			text, err = s.encode()
			require.NoError(t, err)
		}
		require.NoError(t, os.WriteFile(state, text, 0o600))
		require.NoError(t, os.CopyFS(state+".d", os.DirFS(sound+".d")))
		changed := filepath.Join(state+".d", kept[int(number)%len(kept)].Name())
		b, err := os.ReadFile(changed)
		require.NoError(t, err)
		b[int(at)%len(b)] ^= flip
		require.NoError(t, os.WriteFile(changed, b, 0o600))

		m, err := openState(state, keys)
		if err != nil {
			refused := new(StateError)
			require.ErrorAs(t, err, &refused)
			return
		}
		report, end, err := audit.ExtendWalk(t.Context(), log, audit.Options{Verifiers: keys}, audit.ExtendOptions{Start: m.at, History: m.past, SeenCheckpoints: m.checkpoints()})
		if err != nil || report.Damage != nil {
			require.NoError(t, m.rewind())
			require.NoError(t, m.Close())
			return
		}
		require.Equal(t, []any{want.Size, want.Root}, []any{end.Size, end.Root})
		require.NoError(t, m.advance(end))
		m.seen = []seenNote{{Checkpoint: want, note: log.StoredHead.Checkpoint}}
		require.NoError(t, m.save())
		require.NoError(t, m.Close())
		again, err := openState(state, keys)
		require.NoError(t, err)
		defer func() { require.NoError(t, again.Close()) }()
		require.Equal(t, []any{m.uses, m.at.Root, m.at.Tip, m.at.Time, m.at.Ledger}, []any{again.uses, again.at.Root, again.at.Tip, again.at.Time, again.at.Ledger})
	})
}

// If an audit is interrupted before it has compared the idempotency keys, the next audit compares them.
func TestKeysThatWereNotCompared(t *testing.T) {
	log, keys, state := grownLog(t)
	looked := func() (at int) {
		t.Helper()
		m, err := openState(state, keys)
		require.NoError(t, err)
		defer func() { require.NoError(t, m.Close()) }()
		for _, err := range m.past.KeyUses() {
			require.NoError(t, err)
			at++
		}
		return at
	}
	require.Zero(t, looked(), "all keys were checked")

	m, err := openState(state, keys)
	require.NoError(t, err)
	a := &Auditor{options: Options{Keys: keys}.withDefaults(), state: m, keys: keys, report: &Report{}}
	published := openLog(t, log, keys)
	_, end, err := audit.ExtendWalk(t.Context(), log, audit.Options{Verifiers: keys}, audit.ExtendOptions{Start: m.at, History: m.past, SeenCheckpoints: a.seenCheckpoints()})
	require.NoError(t, err)
	m.seen = nil // storeProgress then does not need to fetch tiles
	require.NoError(t, a.storeProgress(t.Context(), published, end))
	require.NoError(t, m.Close())
	require.NotZero(t, looked())

	m, err = openState(state, keys)
	require.NoError(t, err)
	a.state = m
	require.NoError(t, a.storeVerified(published, end))
	require.NoError(t, m.Close())
	require.Zero(t, looked())
}

// openLog serves a stored log and opens it as an audit does.
func openLog(t testing.TB, log *ledgertest.StoredLog, keys []*proofs.Verifier) *fetch.Log {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(log.StoredHead.Checkpoint) }))
	t.Cleanup(server.Close)
	client, err := fetch.New(fetch.Server{URL: server.URL}, "default", time.Minute, 1)
	require.NoError(t, err)
	opened, err := fetch.OpenLog(t.Context(), client, keys, 1)
	require.NoError(t, err)
	return opened
}
