package audit

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/proofs"
)

// FuzzEvent walks validly signed logs in which one event has an arbitrary body. The walk must
// finish, and must either accept the event or report damage.
func FuzzEvent(f *testing.F) {
	const size = 8
	sound := newMemory(f, size)
	for seq, entry := range sound.entries {
		f.Add(uint8(seq), entry[proofs.HashSize:])
	}
	for _, record := range []string{
		`{"content":{"output":{"sha256":"00","size":-1}},"digest":7}`, `{"reason":"r","seqs":[0,[1,5]]}`, `{"first_seq":1e3,"idempotency_key":""}`,
		`{"content":[{}],"idempotency_key":null,"run_id":"\ud800"}`, `{"origin":"o","verifier_key":"k"}`,
	} {
		f.Add(uint8(size-1), []byte(`{"actor":"a","checks":{},"kind":"content_redacted","ledger":"default","record":`+record+`,"rules":1,"seq":7,"time":"2026-01-02T03:04:06.000000Z","v":1}`))
	}
	f.Fuzz(func(t *testing.T, seq uint8, body []byte) {
		m, at := sound.clone(), int(seq)%size
		m.entries[at] = slices.Concat(m.entries[at][:proofs.HashSize], body)
		m.relink(at)
		m.seal(t)
		report := walked(t, m)
		if report.Damage != nil {
			require.NotEmpty(t, report.Damage.Error())
			return
		}
		require.True(t, json.Valid(body))
		require.Equal(t, uint64(size), report.Size)
	})
}
