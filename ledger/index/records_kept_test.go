package index

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/storage"
)

// Whatever a record says is the same when it was kept, and told from what it does not say.
func TestKeptRecordsAreEncoded(t *testing.T) {
	digest := rapid.StringMatching(`[0-9a-f]{64}`)
	text := rapid.OneOf(rapid.Just("none"), rapid.Just(""), digest, rapid.StringMatching(`[0-9a-fA-Fg]{63,65}`), rapid.String(),
		rapid.Map(rapid.IntRange(0, 5000), func(n int) string { return strings.Repeat("x", n) }))
	rapid.Check(t, func(t *rapid.T) {
		said := IPCRecord{Seq: rapid.Uint64().Draw(t, "seq"), Time: time.UnixMicro(rapid.Int64Range(-1<<55, 1<<57).Draw(t, "time")).UTC()}
		draw := func(label string) []byte {
			if drawn := text.Draw(t, label); drawn != "none" {
				return []byte(drawn)
			}
			return nil
		}
		for _, field := range said.texts() {
			*field = draw("text")
		}
		listed := Record{
			Seq: said.Seq, Kind: record.IPCRecord, Time: said.Time, RunID: optional(said.RunID), Occurred: optional(draw("timestamp")),
			Hashes: []byte(rapid.String().Draw(t, "hashes")), Labels: []byte(rapid.String().Draw(t, "labels")),
			EventHash: storage.Hash(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "event_hash")),
		}
		if rapid.Bool().Draw(t, "usual hashes") {
			listed.Hashes = said.usualHashes()
		}
		for range rapid.IntRange(0, 3).Draw(t, "mismatches") {
			listed.Mismatches = append(listed.Mismatches, rapid.String().Draw(t, "mismatch"))
		}
		size := rapid.IntRange(0, 1<<40).Draw(t, "size")
		encoded := listed.appendKept(said.appendKept(nil, size), &said)
		gotSaid, gotSize, rest := decodeKept(said.Seq, encoded)
		gotListed := gotSaid.listed(rest)
		clear(encoded) // what came of it is the caller's to keep
		require.Equal(t, said, gotSaid)
		require.Equal(t, listed, gotListed)
		require.Equal(t, size, gotSize)
	})
}

// The hashes of a record mostly take no room of their own.
func TestUsualHashes(t *testing.T) {
	for _, body := range []string{
		plain(t, 1), posted(t, record.IPCRecord, `{"payload":{"q":1},"system_prompt":"","model":"m","temperature":1,"max_tokens":2}`),
	} {
		log := newJournal(t, "default")
		log.append(body)
		e, err := new(event.Decoder).Decode(log.entries[0])
		require.NoError(t, err)
		said := ipcRecordOf(&e, e.IPC())
		require.Equal(t, string(recordOf(&e).Hashes), string(said.usualHashes()))
	}
}

// unread is a log of which single entries must not be read while that is forbidden.
type unread struct {
	storage.Reader
	t         tester
	forbidden *atomic.Bool
}

func (u unread) Entry(ctx context.Context, seq uint64) ([]byte, error) {
	if u.forbidden.Load() {
		require.Fail(u.t, "an entry was read")
	}
	return u.Reader.Entry(ctx, seq)
}

// Who asks about a run that was folded lately, or was asked about before, has it from
// memory: the same, at the same cost to a page, as from the log.
func TestRecordsAreKept(t *testing.T) {
	log := newJournal(t, "default")
	log.append(string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key")))
	log.append(plains(t, 0, 5)...)
	log.append(posted(t, record.IPCRecord, `{"run_id":"r","payload_schema":"axis-payload-1","payload":{"axes":{},"policy_hash":"p","seed":1,"world_id":"w"},`+
		`"system_prompt":"","model":"m","temperature":1,"max_tokens":2,"labels":{"a":"b"}}`))
	c := testConfig(vfs.NewMem())
	none := c
	none.Rows.Dir, none.EventCacheBytes = "another", LeastEventCache-1

	type answer struct {
		IPCRecord
		listed         Record
		touched, bytes int
	}
	ask := func(f *Follower, seq uint64) (a answer, err error) {
		v, err := f.View(log.head.Size)
		require.NoError(t, err)
		defer func() { require.NoError(t, v.Close()) }()
		if a.IPCRecord, err = ReadIPCRecord(t.Context(), v, seq); err == nil {
			a.listed, err = readRecord(t.Context(), v, new(Filter), seq)
		}
		a.touched, a.bytes = v.Touched(), v.EventBytes()
		return a, err
	}
	plainly := openTest(t, none)
	from := follow(t, plainly, log)
	log.catchUp(from)
	s := openTest(t, c)
	forbidden := new(atomic.Bool)
	forbidden.Store(true)
	f, err := s.Follow(log.name, unread{log.store, t, forbidden})
	require.NoError(t, err)
	log.catchUp(f)
	for seq := uint64(1); seq < log.head.Size; seq++ {
		want, err := ask(from, seq)
		require.NoError(t, err)
		require.Equal(t, 2, want.touched)
		require.Equal(t, 2*len(log.entries[seq]), want.bytes)
		got, err := ask(f, seq)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.NoError(t, s.Close())

	s = openTest(t, c) // it has folded nothing, and so keeps nothing
	forbidden.Store(false)
	f, err = s.Follow(log.name, unread{log.store, t, forbidden})
	require.NoError(t, err)
	log.catchUp(f)
	want, err := ask(f, 1)
	require.NoError(t, err)
	forbidden.Store(true)
	got, err := ask(f, 1)
	require.NoError(t, err)
	require.Equal(t, want, got)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	v, err := f.Latest()
	require.NoError(t, err)
	_, err = ReadIPCRecord(gone, v, 1)
	require.ErrorIs(t, err, context.Canceled)
	_, err = readRecord(gone, v, new(Filter), 1)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, v.Close())
	forbidden.Store(false)
	_, err = ask(f, 0)
	require.ErrorIs(t, err, storage.ErrNotFound, "no IPC record")
	require.NoError(t, s.Close())
	require.NoError(t, plainly.Close())
}

// Records are those of a log: others have others at the same place.
func TestRecordsAreOfALog(t *testing.T) {
	s := openTest(t, testConfig(vfs.NewMem()))
	var followers []*Follower
	var logs []*journal
	for n, name := range []string{"a", "b"} {
		log := newJournal(t, name)
		log.append(plain(t, n))
		f := follow(t, s, log)
		log.catchUp(f)
		followers, logs = append(followers, f), append(logs, log)
	}
	for i, f := range followers {
		v, err := f.Latest()
		require.NoError(t, err)
		r, err := ReadIPCRecord(t.Context(), v, 0)
		require.NoError(t, err)
		require.Contains(t, string(logs[i].entries[0]), string(r.OutputHash))
		require.NoError(t, v.Close())
	}
	require.NoError(t, s.Close())
}
