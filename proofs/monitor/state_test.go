package monitor

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/testing/ledgertest"
	"colophon/proofs"
	"colophon/proofs/monitor/fetch"
)

// optionsFor returns the options for auditing the ledger at url with the given key and state file.
func optionsFor(t testing.TB, url, key, state string) Options {
	t.Helper()
	verifier, err := proofs.ParseVerifier(key)
	require.NoError(t, err)
	return Options{Server: fetch.Server{URL: strings.TrimSuffix(url, "/v1/ledgers/default")}, Ledger: "default", Keys: []*proofs.Verifier{verifier}, StateFile: state}
}

// audited runs an audit that must not fail, and returns its report.
func audited(t testing.TB, o Options) *Report {
	t.Helper()
	report, err := Run(t.Context(), o)
	require.NoError(t, err)
	return report
}

func stateOf(t testing.TB, state string) (s stateFile) {
	t.Helper()
	text, err := os.ReadFile(state)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &s))
	return s
}

// stateOfSize audits a small log with before additional records. It returns the path of the state
// file, the log's keys, and the paths of all files in which damage must be detected. The state file
// is the first of them.
func stateOfSize(t *testing.T, before int) (state string, keys []*proofs.Verifier, files []string) {
	t.Helper()
	w := ledgertest.New(t, before, 0, 0)
	state = filepath.Join(t.TempDir(), "state")
	url, stop := ledgertest.Serve(t, w.DataDir)
	defer stop()
	o := optionsFor(t, url, w.Key, state)
	require.True(t, audited(t, o).Clean)
	keys = o.Keys
	files = []string{state}
	for name := range stateOf(t, state).Files {
		files = append(files, filepath.Join(state+".d", name))
	}
	return state, keys, files
}

// requireDamaged requires that openState reports a state as damaged.
func requireDamaged(t *testing.T, state string, keys []*proofs.Verifier, what ...any) {
	t.Helper()
	m, err := openState(state, keys)
	if err == nil {
		require.NoError(t, m.Close())
	}
	require.ErrorIs(t, err, ErrStateDamaged, what...)
}

// An audit refuses a state with a flipped bit or a missing part as damaged.
func TestDamagedStatesAreRefused(t *testing.T) {
	state, keys, files := stateOfSize(t, 1)
	require.Greater(t, len(files), 5, "facts, tiles, keys")
	for _, file := range files {
		sound, err := os.ReadFile(file)
		require.NoError(t, err)
		write := func(b []byte) { require.NoError(t, os.WriteFile(file, b, 0o600)) }
		for at := range sound {
			for bit := range 8 {
				if bit != at%8 && filepath.Base(file) != factsFile { // outside the facts file, one bit per byte is enough
					continue
				}
				flipped := bytes.Clone(sound)
				flipped[at] ^= 1 << bit
				write(flipped)
				requireDamaged(t, state, keys, "bit %d of byte %d of %s", bit, at, file)
			}
		}
		for length := 0; length < len(sound); length += 1 + len(sound)/64 {
			write(sound[:length])
			requireDamaged(t, state, keys, "%d bytes of %s", length, file)
		}
		if file != state {
			require.NoError(t, os.Remove(file))
			requireDamaged(t, state, keys, "without %s", file)
		}
		write(sound)
	}
	m, err := openState(state, keys)
	require.NoError(t, err)
	require.NoError(t, m.Close())
}

// The files that a state lists contain one byte and one hash per event. They also contain 82 bytes
// for each use of an idempotency key, a source, or a record's state.
func TestSizeOfTheStateFolder(t *testing.T) {
	w := ledgertest.New(t, 5, 0, 0)
	state := filepath.Join(t.TempDir(), "state")
	url, stop := ledgertest.Serve(t, w.DataDir)
	defer stop()
	report := audited(t, optionsFor(t, url, w.Key, state))
	require.True(t, report.Clean)
	s := stateOf(t, state)
	require.Equal(t, []int64{int64(w.Size), 32 * int64(w.Size)}, []int64{s.Files[factsFile].Bytes, s.Files["tile-0"].Bytes})
	keys := int64(0)
	for name, file := range s.Files {
		if strings.HasPrefix(name, keysPrefix) {
			keys += file.Bytes
		}
	}
	const others = 3 // a source is registered and revoked, and a record's state changes
	require.Equal(t, 82*int64(report.KeyUses+others), keys)
}

// If an interrupted audit left extra bytes at the end of a file, the state is not reported as
// damaged.
func TestExcessBytesOfAStateAreIgnored(t *testing.T) {
	state, keys, files := stateOfSize(t, 1)
	want := stateOf(t, state)
	for _, file := range files[1:] {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.Write(bytes.Repeat([]byte{1}, 100))
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	m, err := openState(state, keys)
	require.NoError(t, err)
	require.Equal(t, []uint64{want.Size, want.KeyUses}, []uint64{m.at.Size, m.uses})
	require.Equal(t, want.Files, m.past.checksums())
	require.NoError(t, m.Close())
}

// A state is refused if one of its files comes from the state of another ledger, or from a state of
// the same ledger at another time. The only exception is a file that begins with the contents of
// the right file.
func TestFilesOfTwoStatesAreNotMixed(t *testing.T) {
	state, keys, files := stateOfSize(t, 1)
	other, otherKeys, _ := stateOfSize(t, 2)
	for _, file := range files {
		name, err := filepath.Rel(filepath.Dir(state), file)
		require.NoError(t, err)
		theirs, err := os.ReadFile(filepath.Join(filepath.Dir(other), name))
		if os.IsNotExist(err) {
			continue
		}
		require.NoError(t, err)
		sound, err := os.ReadFile(file)
		require.NoError(t, err)
		if bytes.HasPrefix(theirs, sound) {
			continue // theirs continues sound: both logs begin with the same kinds of events
		}
		require.NoError(t, os.WriteFile(file, theirs, 0o600))
		if file != state {
			requireDamaged(t, state, keys, name)
		} else {
			requireDamaged(t, state, otherKeys, name)
		}
		require.NoError(t, os.WriteFile(file, sound, 0o600))
	}

	grown := ledgertest.New(t, 1, 0, 0)
	before, after := filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "state")
	url, stop := ledgertest.Serve(t, grown.DataDir)
	defer stop()
	for _, state := range []string{before, after} {
		require.True(t, audited(t, optionsFor(t, url, grown.Key, state)).Clean)
		status, answer := ledgertest.Send(t, "POST", url+"/ipc-records", `{"run_id":"more","payload":{},"output":"1","model":"m","temperature":0,"max_tokens":9}`, "application/json")
		require.Contains(t, []int{http.StatusCreated, http.StatusOK}, status, answer)
	}
	keys = optionsFor(t, url, grown.Key, "").Keys
	old, err := os.ReadFile(before)
	require.NoError(t, err)
	mixed := filepath.Join(t.TempDir(), "state")
	copyState(t, before, mixed)
	text, err := os.ReadFile(after)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(mixed, text, 0o600))
	requireDamaged(t, mixed, keys, "a later state with an earlier folder")
	mixed = filepath.Join(t.TempDir(), "state")
	copyState(t, after, mixed)
	require.NoError(t, os.WriteFile(mixed, old, 0o600))
	m, err := openState(mixed, keys)
	require.NoError(t, err, "an earlier state with a later folder continues from the earlier state")
	require.Equal(t, stateOf(t, before).Size, m.at.Size)
	require.NoError(t, m.Close())
}

// A state that does not match the log is refused and not changed.
func TestStatesThatAreRefused(t *testing.T) {
	w, another := ledgertest.New(t, 10, 0, 0), ledgertest.New(t, 5, 0, 0)
	url, stop := ledgertest.Serve(t, w.DataDir)
	defer stop()
	sound := filepath.Join(t.TempDir(), "state")
	require.True(t, audited(t, optionsFor(t, url, w.Key, sound)).Clean)
	for name, c := range map[string]struct {
		key    string
		change func(t *testing.T, state string)
		says   string
	}{
		"of another log":        {another.Key, func(*testing.T, string) {}, "the state belongs to another log, "},
		"another log's note":    {w.Key, changeState(func(s *stateFile) { s.Checkpoint = strings.Replace(s.Checkpoint, "\n26\n", "\n27\n", 1) }), "the checkpoint"},
		"another origin":        {w.Key, changeState(func(s *stateFile) { s.Origin = "elsewhere.example" }), `the state file has the origin "elsewhere.example"`},
		"of a later version":    {w.Key, changeState(func(s *stateFile) { s.Version = 3 }), "version 3"},
		"another size":          {w.Key, changeState(func(s *stateFile) { s.Size-- }), "the state's files contain 26 events"},
		"other uses of keys":    {w.Key, changeState(func(s *stateFile) { s.KeyUses-- }), "idempotency keys"},
		"another compact range": {w.Key, changeState(func(s *stateFile) { s.CompactRange[0] = ledgertest.ZeroHash }), "compact range"},
		"without keys":          {w.Key, changeState(func(s *stateFile) { s.Keys = nil }), "the log's keys are missing"},
		"another tip":           {w.Key, changeState(func(s *stateFile) { s.Tip = "x" }), "parsing the chain tip in the state file"},
		"no JSON":               {w.Key, writeState("x"), "the state is damaged: invalid character"},
		"more members":          {w.Key, writeState(`{"version":1,"more":1}`), `the state is damaged: json: unknown field "more"`},
		"without its folder":    {w.Key, func(t *testing.T, state string) { require.NoError(t, os.RemoveAll(state+".d")) }, "facts has 0 bytes, but should have 26"},
		"with a truncated file": {w.Key, func(t *testing.T, state string) {
			require.NoError(t, os.Truncate(filepath.Join(state+".d", "facts"), 3))
		}, "facts has 3 bytes, but should have 26"},
		"with truncated tiles": {w.Key, func(t *testing.T, state string) {
			require.NoError(t, os.Truncate(filepath.Join(state+".d", "tile-0"), 64))
		}, "tile-0 has 64 bytes, but should have 832"},
	} {
		t.Run(name, func(t *testing.T) {
			state := filepath.Join(t.TempDir(), "state")
			copyState(t, sound, state)
			c.change(t, state)
			before := stateFiles(t, state)
			_, err := Run(t.Context(), optionsFor(t, url, c.key, state))
			refused := new(StateError)
			require.ErrorAs(t, err, &refused)
			require.NotNil(t, refused.Reason)
			require.ErrorContains(t, err, c.says)
			for name, text := range stateFiles(t, state) {
				require.Equal(t, before[name], text, name)
			}
		})
	}
}

// stateFiles returns the contents of the files of a state, keyed by path.
func stateFiles(t *testing.T, state string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(state + ".d/*")
	require.NoError(t, err)
	files := make(map[string]string)
	for _, name := range append(names, state) {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		files[name] = string(text)
	}
	return files
}

func writeState(text string) func(*testing.T, string) {
	return func(t *testing.T, state string) { require.NoError(t, os.WriteFile(state, []byte(text), 0o600)) }
}

func changeState(change func(*stateFile)) func(*testing.T, string) {
	return func(t *testing.T, state string) {
		text, err := os.ReadFile(state)
		require.NoError(t, err)
		var s stateFile
		require.NoError(t, json.Unmarshal(text, &s))
		change(&s)
		text, err = s.encode()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(state, text, 0o600))
	}
}

func copyState(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, text, 0o600))
	require.NoError(t, os.CopyFS(to+".d", os.DirFS(from+".d")))
}
