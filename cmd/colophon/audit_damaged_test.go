package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/proofs"
	"colophon/proofs/monitor"
)

// stateOfSize is a state of a small log, the keys that open it, and the files whose damage
// matters: the state file first.
func stateOfSize(t *testing.T, before int) (state string, keys []*proofs.Verifier, files []string) {
	t.Helper()
	w := newAuditWorld(t, before, 0, 0)
	state = filepath.Join(t.TempDir(), "state")
	report, o := audited(t, serveRaw(t, w.data, nil), w.key, "--state", state)
	require.True(t, report.Clean, "%s%s", o.stdout, o.stderr)
	keys, err := new(cli.Console).ReadKeys(w.key)
	require.NoError(t, err)
	files = []string{state}
	for name := range stateOf(t, state).Files {
		files = append(files, filepath.Join(state+".d", name))
	}
	return state, keys, files
}

// requireDamaged requires that a state is refused as damaged, and the ledger is not blamed.
func requireDamaged(t *testing.T, state string, keys []*proofs.Verifier, what ...any) {
	t.Helper()
	m, err := monitor.OpenAuditMemory(state, keys)
	if err == nil {
		require.NoError(t, m.Close())
	}
	exit := new(cli.ExitError)
	require.ErrorAs(t, err, &exit, what...)
	require.Equal(t, cli.ExitUsage, exit.Code)
	require.ErrorIs(t, err, monitor.ErrStateDamaged, what...)
	require.ErrorContains(t, err, "This says nothing about the ledger", what...)
}

// A state in which any bit was flipped, or that lacks any part, is refused as damaged.
func TestDamagedStatesAreRefused(t *testing.T) {
	state, keys, files := stateOfSize(t, 1)
	require.Greater(t, len(files), 5, "facts, tiles, keys")
	for _, file := range files {
		sound, err := os.ReadFile(file)
		require.NoError(t, err)
		write := func(b []byte) { require.NoError(t, os.WriteFile(file, b, 0o600)) }
		for at := range sound {
			for bit := range 8 {
				if bit != at%8 && filepath.Base(file) != monitor.FactsFile { // one bit of each byte does
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
	m, err := monitor.OpenAuditMemory(state, keys)
	require.NoError(t, err)
	require.NoError(t, m.Close())
}

// The folder holds of each event a byte and a hash, and 82 bytes of each use of a key, a
// source, or a state.
func TestWhatTheFolderOfAStateHolds(t *testing.T) {
	w := newAuditWorld(t, 5, 0, 0)
	state := filepath.Join(t.TempDir(), "state")
	report, _ := audited(t, serveRaw(t, w.data, nil), w.key, "--state", state)
	require.True(t, report.Clean)
	s := stateOf(t, state)
	require.Equal(t, []int64{int64(w.size), 32 * int64(w.size)}, []int64{s.Files[monitor.FactsFile].Bytes, s.Files["tile-0"].Bytes})
	keys := int64(0)
	for name, file := range s.Files {
		if strings.HasPrefix(name, monitor.KeysPrefix) {
			keys += file.Bytes
		}
	}
	const others = 3 // a registration, a revocation, a change of state
	require.Equal(t, 82*int64(report.KeyUses+others), keys)
}

// The state keeps at most MaxSeen checkpoints that nothing proves to be of one log.
func TestCheckpointsThatAreTooManyAreNotKept(t *testing.T) {
	w := newAuditWorld(t, 1, 0, 0)
	signer, err := datadir.Keys(w.data).Load("default")
	require.NoError(t, err)
	var number byte
	url := serveRaw(t, w.data, func(answer http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/log/checkpoint") {
			note, _ := signer.Sign(proofs.Checkpoint{Origin: signer.Origin(), Size: w.size + uint64(number), Root: proofs.Hash{number}})
			_, _ = answer.Write(note)
			return true
		}
		http.NotFound(answer, r)
		return true
	})
	state := filepath.Join(t.TempDir(), "state")
	for number = range monitor.MaxSeen + 2 {
		_, o := audited(t, url, w.key, "--state", state)
		require.NotZero(t, o.code)
	}
	require.Len(t, stateOf(t, state).Unproved, monitor.MaxSeen-1)
}

// What an audit that was cut short has left behind the end of a file is no damage.
func TestWhatIsBehindAStateIsForgotten(t *testing.T) {
	state, keys, files := stateOfSize(t, 1)
	want := stateOf(t, state)
	for _, file := range files[1:] {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.Write(bytes.Repeat([]byte{1}, 100))
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	m, err := monitor.OpenAuditMemory(state, keys)
	require.NoError(t, err)
	require.Equal(t, []uint64{want.Size, want.KeyUses}, []uint64{m.At.Size, m.Uses})
	require.Equal(t, want.Files, m.Past.Files())
	require.NoError(t, m.Close())
}

// Files of two states are not mixed: neither those of two ledgers, nor those of one ledger at
// two times, unless the file at hand begins with all that belongs to the state.
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
			continue // kinds of events are alike
		}
		require.NoError(t, os.WriteFile(file, theirs, 0o600))
		if file != state {
			requireDamaged(t, state, keys, name)
		} else {
			requireDamaged(t, state, otherKeys, name)
		}
		require.NoError(t, os.WriteFile(file, sound, 0o600))
	}

	grown := newAuditWorld(t, 1, 0, 0)
	before, after := filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "state")
	url, stop := serveFolder(t, grown.data, nil)
	defer stop()
	for _, state := range []string{before, after} {
		report, _ := audited(t, url, grown.key, "--state", state)
		require.True(t, report.Clean)
		status, answer := send(t, "POST", url+"/ipc-records", `{"run_id":"more","payload":{},"output":"1","model":"m","temperature":0,"max_tokens":9}`, "application/json")
		require.Contains(t, []int{http.StatusCreated, http.StatusOK}, status, answer)
	}
	keys, err := new(cli.Console).ReadKeys(grown.key)
	require.NoError(t, err)
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
	m, err := monitor.OpenAuditMemory(mixed, keys)
	require.NoError(t, err, "an earlier state with a later folder goes on from the earlier")
	require.Equal(t, stateOf(t, before).Size, m.At.Size)
	require.NoError(t, m.Close())
}

// Of a state without checksums, the checkpoints are taken over, and the log is walked again.
func TestStatesWithoutChecksumsAreConverted(t *testing.T) {
	w := newSeenWorld(t)
	state := filepath.Join(t.TempDir(), "state")
	w.audit(t, w.log, state, 0)
	s := stateOf(t, state)
	s.Version, s.Checksum, s.Files = monitor.FirstStateVersion, "", nil
	text, err := json.MarshalIndent(s, "", "  ")
	require.NoError(t, err)
	for _, url := range []string{w.fork, w.grown} {
		require.NoError(t, os.WriteFile(state, text, 0o600))
		facts := filepath.Join(state+".d", monitor.FactsFile)
		damaged, err := os.ReadFile(facts)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(facts, append([]byte{0xff}, damaged...), 0o600))
		report, o := audited(t, url, w.key, "--state", state)
		if url == w.fork {
			require.Equal(t, 33, o.code, "what was seen is not forgotten: %s%s", o.stdout, o.stderr)
			continue
		}
		require.Zero(t, o.code, "%s%s", o.stdout, o.stderr)
		require.Equal(t, report.Size, report.Walked, "nothing that was walked counts")
		require.Equal(t, monitor.AuditStateVersion, stateOf(t, state).Version)
	}
	s.Checkpoint = s.Checkpoint[1:]
	text, err = json.Marshal(s)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(state, text, 0o600))
	keys, err := new(cli.Console).ReadKeys(w.key)
	require.NoError(t, err)
	requireDamaged(t, state, keys)
}
