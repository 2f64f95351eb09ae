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
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/proofs/monitor"
)

// seenWorld is three servers of one ledger: of the log, of what it has grown to, and of a
// fork of it as long as that. hidden is what they do not serve; empty if they serve all.
type seenWorld struct {
	*auditWorld
	log, grown, fork string
	hidden           atomic.Pointer[string]
}

func newSeenWorld(t *testing.T) *seenWorld {
	w := &seenWorld{auditWorld: newAuditWorld(t, 10, 0, 0)}
	w.hide("")
	serve := func(change func(*forge)) string {
		data := w.copied(t)
		f := newForge(t, w.auditWorld, data)
		change(f)
		f.done()
		return serveRaw(t, data, func(answer http.ResponseWriter, r *http.Request) bool {
			hidden := *w.hidden.Load()
			if hidden == "" || !strings.Contains(r.URL.Path, hidden) {
				return false
			}
			http.NotFound(answer, r)
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

// audit audits a server with a state, and wants it to end with a code.
func (w *seenWorld) audit(t *testing.T, url, state string, code int) {
	t.Helper()
	_, o := audited(t, url, w.key, "--state", state)
	require.Equal(t, code, o.code, "%s%s", o.stdout, o.stderr)
}

func stateOf(t testing.TB, state string) (s monitor.AuditState) {
	t.Helper()
	text, err := os.ReadFile(state)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &s))
	return s
}

func noteOf(t testing.TB, url string) string {
	t.Helper()
	_, note := send(t, "GET", url+"/log/checkpoint", "", "")
	return note
}

// Whoever has shown two trees is found out, though of neither all was served when it was
// shown.
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
	t.Run("of a log that was walked", func(t *testing.T) {
		state := filepath.Join(t.TempDir(), "state")
		w.audit(t, w.log, state, 0)
		w.hide("/tile/0/")
		w.audit(t, w.fork, state, 39)
		w.hide("")
		s := stateOf(t, state)
		require.Equal(t, noteOf(t, w.log), s.Checkpoint)
		require.Equal(t, []string{noteOf(t, w.fork)}, s.Unproved)
		w.audit(t, w.grown, state, 33)
	})
}

// A checkpoint takes the place of one before it as soon as tiles prove that it may, and
// of all once the log was walked.
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

// A key that two events claim is found by the audit that goes on, if the one before did
// not come so far as to look for it.
func TestKeysThatWereNotChecked(t *testing.T) {
	log, keys, state := grownLog(t)
	looked := func() (at int) {
		t.Helper()
		m, err := monitor.OpenAuditMemory(state, keys)
		require.NoError(t, err)
		defer func() { require.NoError(t, m.Close()) }()
		for _, err := range m.Past.Uses() {
			require.NoError(t, err)
			at++
		}
		return at
	}
	require.Zero(t, looked(), "all were checked")

	m, err := monitor.OpenAuditMemory(state, keys)
	require.NoError(t, err)
	a := &monitor.Auditor{Memory: m, Given: keys, Keys: keys}
	published := &monitor.PublishedLog{Published: audit.Head{Size: log.head.Size, Checkpoint: log.head.Checkpoint}, Tiles: make(map[proofs.TilePath][]byte)}
	_, end, err := audit.Extend(t.Context(), log, audit.Options{Verifiers: keys}, audit.Extension{From: m.At, Past: m.Past, Seen: a.Seen()})
	require.NoError(t, err)
	m.Seen = nil // that no tile is asked for
	require.NoError(t, a.Reach(t.Context(), published, end))
	require.NoError(t, m.Close())
	require.NotZero(t, looked())

	m, err = monitor.OpenAuditMemory(state, keys)
	require.NoError(t, err)
	a.Memory = m
	require.NoError(t, a.Remember(published, end))
	require.NoError(t, m.Close())
	require.Zero(t, looked())
}

// A server that hides the keys which came after the one that is given takes nothing away.
func TestStateKnowsItsKeys(t *testing.T) {
	w := newAuditWorld(t, 5, 0, 0)
	url, stop := serveFolder(t, w.data, nil)
	for _, step := range []string{"rotate", "retire"} {
		status, answer := send(t, "POST", url+"/keys", fmt.Sprintf(`{"step":%q}`, step), "application/json")
		require.Equal(t, http.StatusCreated, status, answer)
	}
	state := filepath.Join(t.TempDir(), "state")
	_, o := audited(t, url, w.key, "--state", state)
	require.Zero(t, o.code, "%s%s", o.stdout, o.stderr)
	against := filepath.Join(t.TempDir(), "checkpoint")
	require.NoError(t, os.WriteFile(against, []byte(noteOf(t, url)), 0o600))
	_, o = audited(t, url, w.key, "--against", against)
	require.Zero(t, o.code, "%s%s", o.stdout, o.stderr)
	stop()
	hiding := serveRaw(t, w.data, nil) // has no /log/key
	report, o := audited(t, hiding, w.key, "--state", state, "--against", against)
	require.Zero(t, o.code, "%s%s", o.stdout, o.stderr)
	require.Equal(t, stateOf(t, state).Size, report.Size)
}

// One audit at a time has a state, and one whose file was removed is not begun anew unasked.
func TestStatesAreNotShared(t *testing.T) {
	w := newAuditWorld(t, 0, 0, 0)
	url, state := serveRaw(t, w.data, nil), filepath.Join(t.TempDir(), "state")
	keys, err := new(cli.Console).ReadKeys(w.key)
	require.NoError(t, err)
	m, err := monitor.OpenAuditMemory(state, keys)
	require.NoError(t, err)
	o := commandLine(t.Context(), "audit", url, "--key", w.key, "--state", state)
	require.Equal(t, cli.ExitInUse, o.code, o.stderr)
	require.Contains(t, o.stderr, "another audit")
	require.NoError(t, m.Close())
	_, o = audited(t, url, w.key, "--state", state)
	require.Zero(t, o.code, o.stderr)

	require.NoError(t, os.Remove(state))
	before, err := os.ReadFile(filepath.Join(state+".d", monitor.FactsFile))
	require.NoError(t, err)
	o = commandLine(t.Context(), "audit", url, "--key", w.key, "--state", state)
	require.Equal(t, cli.ExitUsage, o.code, o.stderr)
	require.Contains(t, o.stderr, "would be forgotten")
	after, err := os.ReadFile(filepath.Join(state+".d", monitor.FactsFile))
	require.NoError(t, err)
	require.Equal(t, before, after)
}
