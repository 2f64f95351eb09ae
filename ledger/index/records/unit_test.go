package records

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/record"
	"colophon/storage"
)

// Encoding and decoding a cached record results in an equal record. A nil text stays distinct from an
// empty one.
func TestCachedRecordsAreEncoded(t *testing.T) {
	digest := rapid.StringMatching(`[0-9a-f]{64}`)
	text := rapid.OneOf(rapid.Just("none"), rapid.Just(""), digest, rapid.StringMatching(`[0-9a-fA-Fg]{63,65}`), rapid.String(),
		rapid.Map(rapid.IntRange(0, 5000), func(n int) string { return strings.Repeat("x", n) }))
	rapid.Check(t, func(t *rapid.T) {
		decoded := IPCRecord{Seq: rapid.Uint64().Draw(t, "seq"), Time: time.UnixMicro(rapid.Int64Range(-1<<55, 1<<57).Draw(t, "time")).UTC()}
		draw := func(label string) []byte {
			if drawn := text.Draw(t, label); drawn != "none" {
				return []byte(drawn)
			}
			return nil
		}
		for _, field := range decoded.texts() {
			*field = draw("text")
		}
		decoded.HasPayload = rapid.Bool().Draw(t, "payload")
		listed := Record{
			Seq: decoded.Seq, Kind: record.KindIPCRecord, Time: decoded.Time, RunID: index.StringPointer(decoded.RunID), Timestamp: index.StringPointer(draw("timestamp")),
			Hashes: []byte(rapid.String().Draw(t, "hashes")), Labels: []byte(rapid.String().Draw(t, "labels")),
			EventHash: storage.Hash(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "event_hash")),
		}
		listed.MissingParts = slices.Collect(decoded.IPC.MissingParts())
		if rapid.Bool().Draw(t, "usual hashes") {
			listed.Hashes = decoded.appendUsualHashes(nil)
		}
		for range rapid.IntRange(0, 3).Draw(t, "mismatches") {
			listed.Mismatches = append(listed.Mismatches, rapid.String().Draw(t, "mismatch"))
		}
		size := rapid.IntRange(0, 1<<40).Draw(t, "size")
		encoded := listed.appendEncoded(decoded.appendEncoded(nil, size), &decoded)
		gotRecord, gotSize, rest := decodeRecord(decoded.Seq, encoded)
		gotListed := gotRecord.listed(rest)
		clear(encoded) // the decoded record must not alias encoded
		require.Equal(t, decoded, gotRecord)
		require.Equal(t, listed, gotListed)
		require.Equal(t, size, gotSize)
	})
}

// For a record without claims, appendUsualHashes appends the same hashes as the event, so the cache need not
// store them.
func TestUsualHashes(t *testing.T) {
	for _, text := range []string{
		`{"payload":{"seed":1,"q":"why?"},"system_prompt":"be kind","output":"because","model":"m","temperature":0.5,"max_tokens":9}`,
		`{"payload":{"q":1},"system_prompt":"","model":"m","temperature":1,"max_tokens":2}`,
	} {
		r, err := record.Parse(record.KindIPCRecord, []byte(text))
		require.NoError(t, err)
		entry := append(make([]byte, 32), r.AppendBodyPrefix(nil, record.EventContext{Actor: "tester", Ledger: "default"})...)
		e, err := new(event.Decoder).Decode(record.AppendBodySuffix(entry, 0, time.UnixMicro(0)))
		require.NoError(t, err)
		decoded := ipcRecordOf(&e, e.IPC())
		require.Equal(t, string(recordOf(&e).Hashes), string(decoded.appendUsualHashes(nil)))
		r.Release()
	}
}
