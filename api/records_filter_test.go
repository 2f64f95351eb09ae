package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// The hint about %2B appears only for a time that is otherwise valid.
func TestTimesWithPlusGetAHint(t *testing.T) {
	s := newServer(t)
	const hint = "write + as %2B"
	for query, hinted := range map[string]bool{
		"?since=2026-01-02T15:04:05+01:00": true,
		"?until=2026-01-02T15:04:05+01:00": true,
		"?since=2026-01-02+15:04:05":       false,
		"?since=yesterday":                 false,
	} {
		a := s.send(t, get(recordsOf).asking(query), http.StatusBadRequest)
		require.Contains(t, string(a.body), "must be an RFC 3339 time", query)
		if hinted {
			require.Contains(t, string(a.body), hint, query)
		} else {
			require.NotContains(t, string(a.body), hint, query)
		}
	}
}
