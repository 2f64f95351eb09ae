package api

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/api/call"
	"colophon/ledger"
	"colophon/ledger/record"
	"colophon/storage"
)

// If the database maps a record's idempotency key or run_id to an event that does not claim it, the
// server refuses the record and explains why.
func TestPlantedClaimsAreReported(t *testing.T) {
	s := start(t)
	s.post("/ipc-records", ipcBody("a", "x")).want(http.StatusCreated)
	r, err := record.Parse(record.KindIPCRecord, []byte(ipcBody("lost", "y")))
	require.NoError(t, err)
	x, err := s.database.Tamperer(ledger.DefaultName)
	require.NoError(t, err)
	require.NoError(t, x.SetClaim(storage.Claim{KeyDigest: record.RunIdempotencyKeyDigest(record.KindIPCRecord, "lost"), RecordDigest: record.DigestWithKind(r.Kind, r.Digest), Seq: 1}))

	p := s.post("/ipc-records", ipcBody("lost", "y")).problem(http.StatusInternalServerError)
	require.Contains(t, p.Detail, "the record was not stored, because the database is damaged: it assigns the record's idempotency key or run_id to the wrong event")
	lines := s.do(http.MethodPost, "/batch", ipcLine("lost", "y")+ipcLine("b", "z"), "Content-Type", call.NDJSONMediaType).want(http.StatusOK).lines()
	require.Contains(t, string(lines[0]), "was not stored")
	require.Contains(t, string(lines[1]), `"seq":2`)
	s.post("/ipc-records", ipcBody("lost", "y"), "Idempotency-Key", "another").want(http.StatusCreated)
}
