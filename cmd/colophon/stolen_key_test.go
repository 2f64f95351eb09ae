package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/remote"
	"colophon/internal/testing/ledgertest"
	"colophon/proofs"
)

// stolenKey provides a ledger whose first key was retired and then stolen. With that key, the thief
// has forged a log that has the same origin.
type stolenKey struct {
	url, forged string // URLs of the ledger and of the forged log
	first, now  string // the ledger's first and current verifier keys
	history     *proofs.KeyHistory
	old         string // receipt whose checkpoint is signed only with the first key
	oldSize     uint64
	data        string // the thief's folder
}

func newStolenKey(t *testing.T) *stolenKey {
	w := ledgertest.New(t, 20, 0, 0)
	s := &stolenKey{first: w.Key, data: t.TempDir()}
	secret, err := os.ReadFile(filepath.Join(w.DataDir, "keys", "default.key"))
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(s.data, "keys"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(s.data, "keys", "default.key.new"), secret, 0o600))

	var stop func()
	s.url, stop = ledgertest.Serve(t, w.DataDir)
	t.Cleanup(stop)
	s.oldSize = ledgertest.TreeSize(t, s.url)
	_, s.old = ledgertest.Send(t, "GET", s.url+"/records/3/receipt", "", "")
	for _, step := range []string{"rotate", "retire"} {
		status, answer := ledgertest.Send(t, "POST", s.url+"/keys", fmt.Sprintf(`{"step":%q}`, step), "application/json")
		require.Equal(t, http.StatusCreated, status, answer)
	}
	_, answer := ledgertest.Send(t, "GET", s.url+"/log/key", "", "")
	s.history, err = proofs.ParseKeyHistory([]byte(answer))
	require.NoError(t, err)
	s.now = s.history.CurrentKey().String()

	s.forged, stop = ledgertest.Serve(t, s.data)
	t.Cleanup(stop)
	for i := range 20 {
		body := fmt.Sprintf(`{"payload":{"q":"%d"},"output":"forged","model":"m","temperature":0,"max_tokens":9}`, i)
		status, answer := ledgertest.Send(t, "POST", s.forged+"/ipc-records", body, "application/json")
		require.Equal(t, http.StatusCreated, status, answer)
	}
	return s
}

// keysFile writes the ledger's list of keys to a file and returns the file's name. If change is not
// nil, it modifies the list first.
func (s *stolenKey) keysFile(t *testing.T, change func(map[string]any)) string {
	text, err := json.Marshal(s.history)
	require.NoError(t, err)
	var members map[string]any
	require.NoError(t, json.Unmarshal(text, &members))
	if change != nil {
		change(members)
	}
	text, err = json.Marshal(members)
	require.NoError(t, err)
	return write(t, string(text))
}

// neverRetired makes a list of keys claim that the first key still signs, as the thief would.
func neverRetired(members map[string]any) {
	members["retired"].([]any)[0].(map[string]any)["signed_up_to"] = nil
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file.json")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// liar serves the forged log, but with the list of keys from the file named by keys. It returns the
// URL of the ledger.
func (s *stolenKey) liar(t *testing.T, keys string) (address string) {
	text, err := os.ReadFile(keys)
	require.NoError(t, err)
	to, err := url.Parse(strings.TrimSuffix(s.forged, remote.LedgerPath("default")))
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/log/key") {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(text)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + remote.LedgerPath("default")
}

// With a key that was stolen after its retirement, a thief cannot deceive an auditor who trusts the
// current key, whatever the server states about its keys.
func TestStolenRetiredKeyForgesNoLog(t *testing.T) {
	s := newStolenKey(t)
	for name, change := range map[string]func(map[string]any){"the keys as they are": nil, "a key that was never retired": neverRetired} {
		t.Run(name, func(t *testing.T) {
			lies := s.liar(t, s.keysFile(t, change))
			state := filepath.Join(t.TempDir(), "state")
			for _, flags := range [][]string{nil, {"--content", "--replay-index"}, {"--receipts", "3"}, {"--state", state}} {
				report, o := audited(t, lies, s.now, flags...)
				require.Equal(t, 30, report.Code, "%s%s", o.stdout, o.stderr)
			}
			require.NoFileExists(t, state)

			_, o := audited(t, s.url, s.now, "--state", state)
			require.Zero(t, o.code, "%s%s", o.stdout, o.stderr)
			kept, err := os.ReadFile(state)
			require.NoError(t, err)
			report, o := audited(t, lies, s.now, "--state", state)
			require.Equal(t, 30, report.Code, "%s%s", o.stdout, o.stderr)
			again, err := os.ReadFile(state)
			require.NoError(t, err)
			require.Equal(t, string(kept), string(again))
			var remembered auditState
			require.NoError(t, json.Unmarshal(kept, &remembered))
			require.Equal(t, []string{s.now}, remembered.VerifierKeys)

			o = commandLine(t.Context(), "keys", "list", "default", "--server", strings.TrimSuffix(lies, remote.LedgerPath("default")), "--key", s.now, "--json")
			require.Equal(t, cli.ExitFailed, o.code, o.stdout)
			require.Empty(t, o.stdout)
		})
	}
}

// A thief who has the retired key can deceive an auditor who still trusts that key, unless the
// auditor's state contains the newer key.
func TestStateRemembersTheNewerKey(t *testing.T) {
	s := newStolenKey(t)
	lies := s.liar(t, s.keysFile(t, nil))
	report, o := audited(t, lies, s.first)
	require.True(t, report.Clean, "without a state, the audit cannot detect this: %s%s", o.stdout, o.stderr)
	state := filepath.Join(t.TempDir(), "state")
	report, o = audited(t, s.url, s.first, "--state", state)
	require.True(t, report.Clean, "%s%s", o.stdout, o.stderr)
	report, o = audited(t, lies, s.first, "--state", state)
	require.False(t, report.Clean)
	require.NotZero(t, report.Code, "%s%s", o.stdout, o.stderr)

	// The retired key cannot introduce another successor either, and the state does not keep its checkpoint.
	report, o = audited(t, announces(t, s.data), s.first, "--state", state)
	require.Equal(t, 30, report.Code, "%s%s", o.stdout, o.stderr)
	require.Empty(t, stateOf(t, state).Unproved)
	report, o = audited(t, s.url, s.first, "--state", state)
	require.True(t, report.Clean, "%s%s", o.stdout, o.stderr)
}

// announces starts a server that lists a successor of the key in the folder data, and shows a
// checkpoint of 500 entries that only the successor has signed. It serves nothing else. It returns the
// URL of the ledger.
func announces(t *testing.T, data string) string {
	t.Helper()
	previous, err := datadir.KeyFiles(data).Load("default")
	require.NoError(t, err)
	next, err := proofs.GenerateKey().Signer(previous.Origin())
	require.NoError(t, err)
	handover, err := proofs.SignHandover(previous, next)
	require.NoError(t, err)
	history := proofs.NewKeyHistory(previous.Verifier())
	require.NoError(t, history.Add(400, proofs.KeyChange{Step: proofs.KeyStepIntroduced, Previous: previous.Verifier(), Next: next.Verifier(), HandoverNote: handover}))
	list, err := json.Marshal(history)
	require.NoError(t, err)
	note, err := next.Sign(proofs.Checkpoint{Origin: next.Origin(), Size: 500})
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/log/key"):
			_, _ = w.Write(list)
		case strings.HasSuffix(r.URL.Path, "/log/checkpoint"):
			_, _ = w.Write(note)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL + remote.LedgerPath("default")
}

// auditedOnce serves a ledger until the test ends, and returns its URL and the state of a clean audit.
func auditedOnce(t *testing.T) (w *ledgertest.Ledger, url, state string) {
	w = ledgertest.New(t, 5, 0, 0)
	url, stop := ledgertest.Serve(t, w.DataDir)
	t.Cleanup(stop)
	state = filepath.Join(t.TempDir(), "state")
	report, o := audited(t, url, w.Key, "--state", state)
	require.True(t, report.Clean, "%s%s", o.stdout, o.stderr)
	return w, url, state
}

// If the state has a checkpoint that only a key from the server's list has signed, later audits can
// still read the state after the server has hidden that key.
func TestStateRemembersHiddenKeys(t *testing.T) {
	w, url, state := auditedOnce(t)
	report, o := audited(t, announces(t, w.DataDir), w.Key, "--state", state)
	require.Equal(t, 34, report.Code, "%s%s", o.stdout, o.stderr)
	require.Len(t, stateOf(t, state).Unproved, 1)
	for range 2 {
		report, o = audited(t, url, w.Key, "--state", state)
		require.Equal(t, 32, report.Code, "%s%s", o.stdout, o.stderr)
	}
}

// With --key, keys list compares the server's list of keys with the log. It fails if the server
// lists a retired key with the wrong range of sizes or as still current, or omits it.
func TestKeysThatTheLogDoesNotShow(t *testing.T) {
	s := newStolenKey(t)
	honest := strings.TrimSuffix(s.url, remote.LedgerPath("default"))
	o := commandLine(t.Context(), "keys", "list", "default", "--server", honest, "--key", s.now, "--json")
	require.Zero(t, o.code, o.stderr)
	retired := func(change func(map[string]any)) func(map[string]any) {
		return func(members map[string]any) { change(members["retired"].([]any)[0].(map[string]any)) }
	}
	for name, change := range map[string]func(map[string]any){
		"never retired":      neverRetired,
		"retired earlier":    retired(func(r map[string]any) { r["replaced_at"], r["signed_up_to"] = 2, 3 }),
		"retired later":      retired(func(r map[string]any) { r["signed_up_to"] = s.oldSize + 2 }),
		"introduced earlier": retired(func(r map[string]any) { r["replaced_at"] = s.oldSize - 1 }),
		"of the future":      retired(func(r map[string]any) { r["signed_up_to"] = 1 << 40 }),
		"never rotated":      func(m map[string]any) { m["retired"] = []any{} },
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(s.keysFile(t, change))
			require.NoError(t, err)
			to, err := url.Parse(honest)
			require.NoError(t, err)
			proxy := httputil.NewSingleHostReverseProxy(to)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/log/key") {
					_, _ = w.Write(text)
					return
				}
				proxy.ServeHTTP(w, r)
			}))
			defer server.Close()
			o := commandLine(t.Context(), "keys", "list", "default", "--server", server.URL, "--key", s.now, "--json")
			require.Equal(t, cli.ExitFailed, o.code, o.stdout)
			require.Contains(t, o.stderr, "the server's list of keys")
		})
	}
}

// A receipt signed only with the retired key is valid if the current key has signed a later tree
// that extends the receipt's tree. A forged receipt is never valid.
func TestReceiptsOfAStolenRetiredKey(t *testing.T) {
	s := newStolenKey(t)
	_, forged := ledgertest.Send(t, "GET", s.forged+"/records/3/receipt", "", "")
	consistency := func(first uint64) string {
		status, answer := ledgertest.Send(t, "GET", fmt.Sprintf("%s/proofs/consistency?first=%d", s.url, first), "", "")
		require.Equal(t, http.StatusOK, status, answer)
		return write(t, answer)
	}
	for name, keys := range map[string]string{"the keys as they are": s.keysFile(t, nil), "a key that was never retired": s.keysFile(t, neverRetired)} {
		for _, c := range []struct {
			what, receipt string
			flags         []string
			code          int
		}{
			{"forged", forged, nil, 22},
			{"forged, with a later tree", forged, []string{"--later", consistency(21)}, 23},
			{"forged, with the later tree of another size", forged, []string{"--later", consistency(s.oldSize)}, 23},
			{"true", s.old, nil, 22},
			{"true, with a later tree", s.old, []string{"--later", consistency(s.oldSize)}, 0},
			{"true, with the later tree of another size", s.old, []string{"--later", consistency(s.oldSize - 1)}, 23},
		} {
			o := commandLine(t.Context(), append([]string{"verify", write(t, c.receipt), "--key", keys}, c.flags...)...)
			require.Equal(t, c.code, o.code, "%s, %s: %s%s", name, c.what, o.stdout, o.stderr)
		}
	}
	o := commandLine(t.Context(), "verify", write(t, forged), "--key", s.now)
	require.Equal(t, 11, o.code, o.stderr)

	// A later tree that the thief has signed does not make a receipt valid.
	_, answer := ledgertest.Send(t, "GET", s.forged+"/proofs/consistency?first=21", "", "")
	o = commandLine(t.Context(), "verify", write(t, forged), "--key", s.keysFile(t, nil), "--later", write(t, answer))
	require.Equal(t, cli.ExitUsage, o.code, o.stderr)
	require.Contains(t, o.stderr, "--later")
}

// With --against, the audit reports a fork if the retired key has signed a different tree of a size at
// which the key was still in use. It rejects a checkpoint that the retired key has signed for a larger
// size.
func TestCheckpointsOfAStolenRetiredKey(t *testing.T) {
	s := newStolenKey(t)
	thief, err := datadir.KeyFiles(s.data).Load("default")
	require.NoError(t, err)
	sign := func(size uint64) string {
		note, err := thief.Sign(proofs.Checkpoint{Origin: thief.Origin(), Size: size})
		require.NoError(t, err)
		return write(t, string(note))
	}
	receipt, err := proofs.ParseReceipt([]byte(s.old))
	require.NoError(t, err)
	report, o := audited(t, s.url, s.now, "--against", write(t, string(receipt.Proof.Checkpoint)))
	require.True(t, report.Clean, "%s%s", o.stdout, o.stderr)
	report, o = audited(t, s.url, s.now, "--against", sign(s.oldSize))
	require.Len(t, report.Findings, 1, "%s%s", o.stdout, o.stderr)
	require.Equal(t, "fork", string(report.Findings[0].Kind))
	require.Contains(t, report.Findings[0].Message, "someone used the key after it was replaced")
	_, o = audited(t, s.url, s.now, "--against", sign(s.oldSize+5))
	require.Equal(t, cli.ExitUsage, o.code, "%s%s", o.stdout, o.stderr)
	require.Contains(t, o.stderr, "the checkpoint cannot be accepted")
}

// An audit can continue from a state that was saved before a key rotation, whether it is given the
// current key or the previous one.
func TestStateFromBeforeARotation(t *testing.T) {
	w, url, state := auditedOnce(t)
	for _, step := range []string{"rotate", "retire"} {
		status, answer := ledgertest.Send(t, "POST", url+"/keys", fmt.Sprintf(`{"step":%q}`, step), "application/json")
		require.Equal(t, http.StatusCreated, status, answer)
	}
	_, answer := ledgertest.Send(t, "GET", url+"/log/key", "", "")
	history, err := proofs.ParseKeyHistory([]byte(answer))
	require.NoError(t, err)
	for _, key := range []string{history.CurrentKey().String(), w.Key, history.CurrentKey().String()} {
		report, o := audited(t, url, key, "--state", state)
		require.True(t, report.Clean, "%s%s", o.stdout, o.stderr)
	}
}

// Once a newer key signs, an older key alone cannot sign a checkpoint of a larger tree. The audit
// does not save such a checkpoint or report a fork because of it, whichever key the audit is given.
func TestCheckpointsOfAnOlderKeyAlone(t *testing.T) {
	w := ledgertest.New(t, 5, 0, 0)
	old, err := datadir.KeyFiles(w.DataDir).Load("default")
	require.NoError(t, err)
	url, stop := ledgertest.Serve(t, w.DataDir)
	defer stop()
	size := ledgertest.TreeSize(t, url)
	sign := func(size uint64) []byte {
		note, err := old.Sign(proofs.Checkpoint{Origin: old.Origin(), Size: size})
		require.NoError(t, err)
		return note
	}
	change := func(step string) {
		status, answer := ledgertest.Send(t, "POST", url+"/keys", fmt.Sprintf(`{"step":%q}`, step), "application/json")
		require.Equal(t, http.StatusCreated, status, answer)
	}
	lies := func(note []byte) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/log/checkpoint") {
				http.NotFound(w, r)
				return
			}
			_, _ = w.Write(note)
		}))
		t.Cleanup(server.Close)
		return server.URL + remote.LedgerPath("default")
	}
	requireClean := func(key string, flags ...string) {
		t.Helper()
		report, o := audited(t, url, key, flags...)
		require.True(t, report.Clean, "%s%s", o.stdout, o.stderr)
	}
	state := filepath.Join(t.TempDir(), "state")
	for _, step := range []string{"rotate", "retire"} {
		change(step)
		requireClean(w.Key, "--state", state)
		report, o := audited(t, lies(sign(500)), w.Key, "--state", state)
		require.Equal(t, 30, report.Code, "%s: %s%s", step, o.stdout, o.stderr)
		requireClean(w.Key, "--state", state)
	}
	for _, against := range []struct {
		size uint64
		code int
	}{{1000, cli.ExitUsage}, {size, 33}, {size + 1, cli.ExitUsage}} {
		_, o := audited(t, url, w.Key, "--against", write(t, string(sign(against.size))))
		require.Equal(t, against.code, o.code, "%d: %s%s", against.size, o.stdout, o.stderr)
	}
}
