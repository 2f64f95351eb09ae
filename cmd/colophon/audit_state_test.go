package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/proofs/monitor"
)

// Head implements audit.Published.
func (l *storedLog) Head(context.Context) (audit.Head, error) {
	return audit.Head{Size: l.head.Size, Checkpoint: l.head.Checkpoint}, nil
}

// Tile implements audit.Published.
func (l *storedLog) Tile(_ context.Context, level uint8, index uint64) ([]byte, error) {
	tile, found := l.tiles[[2]uint64{uint64(level), index}]
	if !found {
		return nil, errors.New("there is no such tile")
	}
	return tile, nil
}

// Entries implements audit.Published.
func (l *storedLog) Entries(_ context.Context, from uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, entry := range l.entries[from:] {
			if !yield(entry, nil) {
				return
			}
		}
	}
}

// grownLog is a log, and the state of an audit from when it had four events less and
// one key.
func grownLog(t testing.TB) (l *storedLog, keys []*proofs.Verifier, state string) {
	w := newAuditWorld(t, 5, 0, 0)
	state = filepath.Join(t.TempDir(), "state")
	url, stop := serveFolder(t, w.data, nil)
	c := &cli.Console{Out: io.Discard, Err: io.Discard, Env: func(string) (string, bool) { return "", false }}
	require.Zero(t, auditCommand(context.Background(), c, url, "--key", w.key, "--state", state))
	for _, step := range []string{"", "rotate", "", "retire"} {
		body, path := `{"payload":{},"output":"1","model":"m","temperature":0,"max_tokens":9}`, "/ipc-records"
		if step != "" {
			body, path = fmt.Sprintf(`{"step":%q}`, step), "/keys"
		}
		status, answer := send(t, "POST", url+path, body, "application/json")
		require.Equal(t, http.StatusCreated, status, answer)
	}
	_, answer := send(t, "GET", url+"/log/key", "", "")
	history, err := proofs.ParseLogKey([]byte(answer))
	require.NoError(t, err)
	stop()
	return w.read(t, w.data), history.Verifiers(), state
}

// FuzzAuditState: whatever is in the state file, and whatever has become of a byte of
// the folder beside it, the state is refused, or the audit goes on from it and finds
// damage, or it comes to where it has to. What was come to is read again as it was.
func FuzzAuditState(f *testing.F) {
	log, keys, sound := grownLog(f)
	text, err := os.ReadFile(sound)
	require.NoError(f, err)
	kept, err := os.ReadDir(sound + ".d")
	require.NoError(f, err)
	kept = slices.DeleteFunc(kept, func(file os.DirEntry) bool { return file.Name() == "LOCK" || file.Name() == monitor.MarksFile })
	f.Add(text, uint8(0), uint16(0), byte(0))
	for number := range kept {
		f.Add(text, uint8(number), uint16(3), byte(1))
	}
	for _, change := range []func(*monitor.AuditState){
		func(s *monitor.AuditState) { s.Size-- }, func(s *monitor.AuditState) { s.Size, s.KeyUses, s.CompactRange = 0, 0, nil }, func(s *monitor.AuditState) { s.KeyUses++ },
		func(s *monitor.AuditState) { s.Tip = zeroHash }, func(s *monitor.AuditState) { s.Time = "2099" }, func(s *monitor.AuditState) { s.Ledger = "another" },
		func(s *monitor.AuditState) { s.Keys = nil }, func(s *monitor.AuditState) { s.KeysChecked = 0 }, func(s *monitor.AuditState) { s.Unproved = []string{s.Checkpoint} }, func(s *monitor.AuditState) { s.CompactRange[0] = zeroHash }, func(s *monitor.AuditState) { s.VerifierKeys = nil },
	} {
		var s monitor.AuditState
		require.NoError(f, json.Unmarshal(text, &s))
		change(&s)
		changed, err := s.Encode()
		require.NoError(f, err)
		f.Add(changed, uint8(0), uint16(0), byte(0))
	}
	want, err := proofs.OpenCheckpoint(log.head.Checkpoint, keys...)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text []byte, number uint8, at uint16, flip byte) {
		state := filepath.Join(t.TempDir(), "state")
		var s monitor.AuditState
		if json.Unmarshal(text, &s) == nil && s.Checksum != "" { // a checksum that is right keeps nothing out
			var err error
			text, err = s.Encode()
			require.NoError(t, err)
		}
		require.NoError(t, os.WriteFile(state, text, 0o600))
		require.NoError(t, os.CopyFS(state+".d", os.DirFS(sound+".d")))
		changed := filepath.Join(state+".d", kept[int(number)%len(kept)].Name())
		b, err := os.ReadFile(changed)
		require.NoError(t, err)
		b[int(at)%len(b)] ^= flip
		require.NoError(t, os.WriteFile(changed, b, 0o600))

		m, err := monitor.OpenAuditMemory(state, keys)
		if err != nil {
			exit := new(cli.ExitError)
			require.ErrorAs(t, err, &exit)
			require.Equal(t, cli.ExitUsage, exit.Code, "%v", err)
			return
		}
		report, end, err := audit.Extend(t.Context(), log, audit.Options{Verifiers: keys}, audit.Extension{From: m.At, Past: m.Past, Seen: m.Checkpoints()})
		if err != nil || report.Damage != nil {
			require.NoError(t, m.Rewind())
			require.NoError(t, m.Close())
			return
		}
		require.Equal(t, []any{want.Size, want.Root}, []any{end.Size, end.Root})
		require.NoError(t, m.Come(end))
		m.Seen = []monitor.SeenNote{{Checkpoint: want, Note: log.head.Checkpoint}}
		require.NoError(t, m.Save())
		require.NoError(t, m.Close())
		again, err := monitor.OpenAuditMemory(state, keys)
		require.NoError(t, err)
		defer func() { require.NoError(t, again.Close()) }()
		require.Equal(t, []any{m.Uses, m.At.Root, m.At.Tip, m.At.Time, m.At.Ledger}, []any{again.Uses, again.At.Root, again.At.Tip, again.At.Time, again.At.Ledger})
	})
}
