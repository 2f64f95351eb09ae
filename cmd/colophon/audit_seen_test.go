package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/internal/folderlock"
	"colophon/internal/testing/ledgertest"
)

// seenWorld has three servers of one ledger: log serves the original log, grown serves a longer
// version of it, and fork serves a fork that is as long as grown. If hidden is set, the servers
// respond with 404 to every path that contains it, or with 503 if busy is set.
type seenWorld struct {
	*ledgertest.Ledger
	log, grown, fork string
	hidden           atomic.Pointer[string]
	busy             atomic.Bool
}

func newSeenWorld(t *testing.T) *seenWorld {
	w := &seenWorld{Ledger: ledgertest.New(t, 10, 0, 0)}
	w.hide("")
	serve := func(change func(*forge)) string {
		data := w.Copy(t)
		f := newForge(t, w.Ledger, data)
		change(f)
		f.done()
		return serveRaw(t, data, func(answer http.ResponseWriter, r *http.Request) bool {
			hidden := *w.hidden.Load()
			if hidden == "" || !strings.Contains(r.URL.Path, hidden) {
				return false
			}
			if w.busy.Load() {
				answer.WriteHeader(http.StatusServiceUnavailable)
			} else {
				http.NotFound(answer, r)
			}
			return true
		})
	}
	grow := func(f *forge) { f.add(f.bodyOf(f.seq("revocation"))) }
	w.log, w.grown = serve(func(*forge) {}), serve(grow)
	w.fork = serve(func(f *forge) {
		f.rewrite(9, `"actor":"anonymous"`, `"actor":"somebody"`)
		grow(f)
	})
	return w
}

func (w *seenWorld) hide(path string) { w.hidden.Store(&path) }

// audit audits the server at url with a state file and requires the given exit code.
func (w *seenWorld) audit(t *testing.T, url, state string, code int) {
	t.Helper()
	_, o := audited(t, url, w.Key, "--state", state, "--timeout", "200ms")
	require.Equal(t, code, o.code, "%s%s", o.stdout, o.stderr)
}

// auditState holds the members of a state file that the tests read.
type auditState struct {
	Version      int      `json:"version"`
	Ledger       string   `json:"ledger"`
	VerifierKeys []string `json:"verifier_keys"`
	Checkpoint   string   `json:"checkpoint"`
	Unproved     []string `json:"unproved"`
	Size         uint64   `json:"size"`
	CompactRange []string `json:"compact_range"`
}

func stateOf(t testing.TB, state string) (s auditState) {
	t.Helper()
	text, err := os.ReadFile(state)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &s))
	return s
}

func noteOf(t testing.TB, url string) string {
	t.Helper()
	_, note := ledgertest.Send(t, "GET", url+"/log/checkpoint", "", "")
	return note
}

// The audit detects that a server has shown two trees, even if the server did not serve either tree
// completely.
func TestCheckpointsOfDamagedLogsStay(t *testing.T) {
	w := newSeenWorld(t)
	for hidden, code := range map[string]int{"/tile/entries/": 34, "/tile/0/": 39} {
		t.Run(hidden, func(t *testing.T) {
			state := filepath.Join(t.TempDir(), "state")
			w.hide(hidden)
			w.audit(t, w.log, state, code)
			w.audit(t, w.fork, state, code)
			w.audit(t, w.fork, state, code)
			s := stateOf(t, state)
			require.Equal(t, noteOf(t, w.log), s.Checkpoint)
			require.Equal(t, []string{noteOf(t, w.fork)}, s.Unproved)
			w.hide("")
			w.audit(t, w.fork, state, 33)
			w.audit(t, w.fork, state, 33)
		})
	}
	for _, busy := range []bool{false, true} {
		t.Run(fmt.Sprintf("of a log that was walked, busy %v", busy), func(t *testing.T) {
			state := filepath.Join(t.TempDir(), "state")
			w.audit(t, w.log, state, 0)
			w.hide("/tile/0/")
			w.busy.Store(busy)
			w.audit(t, w.fork, state, map[bool]int{false: 39, true: cli.ExitUnreachable}[busy])
			w.hide("")
			s := stateOf(t, state)
			require.Equal(t, noteOf(t, w.log), s.Checkpoint)
			require.Equal(t, []string{noteOf(t, w.fork)}, s.Unproved)
			w.audit(t, w.grown, state, 33)
		})
	}
}

// An audit that already has a state also remembers a checkpoint that it reads after its walk.
func TestCheckpointsAfterTheWalkStay(t *testing.T) {
	w := ledgertest.New(t, 10, 0, 0)
	other := w.Copy(t)
	f := newForge(t, w, other)
	f.add(f.bodyOf(f.seq("revocation")))
	f.done()
	fork := serveRaw(t, other, nil)
	grown, stop := ledgertest.Serve(t, w.DataDir)
	defer stop()
	state, old := filepath.Join(t.TempDir(), "state"), noteOf(t, grown)
	report, o := audited(t, grown, w.Key, "--state", state)
	require.True(t, report.Clean, "%s%s", o.stdout, o.stderr)
	status, answer := ledgertest.Send(t, "POST", grown+"/ipc-records", `{"payload":{},"output":"1","model":"m","temperature":0,"max_tokens":9}`, "application/json")
	require.Equal(t, http.StatusCreated, status, answer)
	var asked atomic.Int32
	url := proxied(t, grown, func(answer http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/log/checkpoint") || asked.Add(1) > 1 {
			return false
		}
		_, _ = answer.Write([]byte(old))
		return true
	})
	report, o = audited(t, url, w.Key, "--state", state, "--replay-index", "--sample", "1")
	require.True(t, report.Clean, "%s%s", o.stdout, o.stderr)
	require.Equal(t, w.Size+1, report.Size)
	require.Equal(t, noteOf(t, grown), stateOf(t, state).Checkpoint)
	report, o = audited(t, fork, w.Key, "--state", state)
	require.Equal(t, 33, report.Code, "%s%s", o.stdout, o.stderr)
	report, o = audited(t, grown, w.Key, "--state", state)
	require.True(t, report.Clean, "%s%s", o.stdout, o.stderr)
}

// A newer checkpoint replaces the saved one once tiles prove that the two are consistent. Once the
// audit has checked the log up to that checkpoint, the state contains no unproved checkpoints.
func TestCheckpointsThatAreExtended(t *testing.T) {
	w := newSeenWorld(t)
	state := filepath.Join(t.TempDir(), "state")
	w.audit(t, w.log, state, 0)
	w.hide("/tile/0/")
	w.audit(t, w.grown, state, 39)
	require.Len(t, stateOf(t, state).Unproved, 1)
	w.hide("/tile/entries/")
	other := filepath.Join(t.TempDir(), "state")
	w.audit(t, w.log, other, 34)
	w.audit(t, w.grown, other, 34)
	require.Equal(t, noteOf(t, w.grown), stateOf(t, other).Checkpoint)
	require.Empty(t, stateOf(t, other).Unproved)
	w.hide("")
	w.audit(t, w.grown, state, 0)
	require.Equal(t, noteOf(t, w.grown), stateOf(t, state).Checkpoint)
	require.Empty(t, stateOf(t, state).Unproved)
}

// The state keeps the successors of the given key, even if the server later hides its list of keys.
func TestStateRemembersKeys(t *testing.T) {
	w := ledgertest.New(t, 5, 0, 0)
	url, stop := ledgertest.Serve(t, w.DataDir)
	for _, step := range []string{"rotate", "retire"} {
		status, answer := ledgertest.Send(t, "POST", url+"/keys", fmt.Sprintf(`{"step":%q}`, step), "application/json")
		require.Equal(t, http.StatusCreated, status, answer)
	}
	state := filepath.Join(t.TempDir(), "state")
	_, o := audited(t, url, w.Key, "--state", state)
	require.Zero(t, o.code, "%s%s", o.stdout, o.stderr)
	against := filepath.Join(t.TempDir(), "checkpoint")
	require.NoError(t, os.WriteFile(against, []byte(noteOf(t, url)), 0o600))
	_, o = audited(t, url, w.Key, "--against", against)
	require.Zero(t, o.code, "%s%s", o.stdout, o.stderr)
	stop()
	hiding := serveRaw(t, w.DataDir, nil) // this server has no /log/key
	report, o := audited(t, hiding, w.Key, "--state", state, "--against", against)
	require.Zero(t, o.code, "%s%s", o.stdout, o.stderr)
	require.Equal(t, stateOf(t, state).Size, report.Size)
}

// Only one audit at a time can use a state. If the state file has been removed but its folder
// exists, the audit does not create a new state.
func TestStatesAreNotShared(t *testing.T) {
	w := ledgertest.New(t, 0, 0, 0)
	url, state := serveRaw(t, w.DataDir, nil), filepath.Join(t.TempDir(), "state")
	require.NoError(t, os.Mkdir(state+".d", 0o700))
	lock, err := folderlock.Take(state + ".d")
	require.NoError(t, err)
	o := commandLine(t.Context(), "audit", url, "--key", w.Key, "--state", state)
	require.Equal(t, cli.ExitInUse, o.code, o.stderr)
	require.Contains(t, o.stderr, "another audit")
	require.NoError(t, lock.Close())
	_, o = audited(t, url, w.Key, "--state", state)
	require.Zero(t, o.code, o.stderr)

	require.NoError(t, os.Remove(state))
	before, err := os.ReadFile(filepath.Join(state+".d", "facts"))
	require.NoError(t, err)
	o = commandLine(t.Context(), "audit", url, "--key", w.Key, "--state", state)
	require.Equal(t, cli.ExitUsage, o.code, o.stderr)
	require.Contains(t, o.stderr, "would lose what that audit saw")
	after, err := os.ReadFile(filepath.Join(state+".d", "facts"))
	require.NoError(t, err)
	require.Equal(t, before, after)
}
