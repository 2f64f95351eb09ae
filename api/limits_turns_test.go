package api

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api/limits"
	"colophon/ledger"
)

// Redactions of one ledger run one after the other, and none waits for ever. Redactions of
// another ledger are not affected.
func TestRedactionsTakeTurns(t *testing.T) {
	s := start(t, func(c *Config) { c.Load.Wait = time.Millisecond })
	_, err := s.host.Create(t.Context(), ledger.New{Name: "other"})
	require.NoError(t, err)
	const body = `{"reason":"because","seqs":[0]}`
	done, err := s.server().shared.Limits.Redactions.Take(t.Context(), ledger.Default)
	require.NoError(t, err)
	for _, dry := range []string{body, `{"reason":"because","seqs":[0],"dry_run":false,"as_of":1}`} {
		refused := s.post("/redactions", dry)
		require.Contains(t, refused.problem(http.StatusServiceUnavailable).Detail, "another redaction of this ledger")
		require.NotEmpty(t, refused.header.Get("Retry-After"))
	}
	require.EqualValues(t, 2, s.refusals(limits.RefusedRedactions))
	s.post(s.http.URL+"/v1/ledgers/other/redactions", body).want(http.StatusOK)
	done()
	s.redacting(body)
	s.redacting(body) // each releases its turn
}
