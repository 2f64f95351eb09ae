package api

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api/call"
	"colophon/api/limits"
)

func TestBatchesAtOnce(t *testing.T) {
	s := start(t, func(c *Config) { c.ServerLimits.MaxBatches = 1 })
	body, send := io.Pipe()
	request, err := http.NewRequest(http.MethodPost, s.url+"/batch", body)
	require.NoError(t, err)
	request.Header.Set("Content-Type", call.NDJSONMediaType)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	refused := s.do(http.MethodPost, "/batch", "", "Content-Type", call.NDJSONMediaType)
	require.Contains(t, refused.problem(http.StatusServiceUnavailable).Detail, "too many batches are open")
	require.NotEmpty(t, refused.header.Get("Retry-After"))
	require.EqualValues(t, 1, s.refusals(limits.ReasonBatches))
	s.metrics().require(t, 1, "colophon_batches")
	require.NoError(t, send.Close())
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.server().shared.Limiter.BatchSlots.InUse() == 0 }, patience, time.Millisecond)
	s.batch(ipcLine("a", "1"))
}

// However many batches one caller has open, another caller can still open one.
func TestBatchesAreShared(t *testing.T) {
	s := start(t, trustingProxies(func(l *limits.ServerLimits) { l.MaxBatches = 2 }))
	body, send := io.Pipe()
	defer send.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/batch", body)
	require.NoError(t, err)
	request.Header.Set("Content-Type", call.NDJSONMediaType)
	request.Header.Set("X-Forwarded-For", "192.0.2.1")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	from := func(address string) answer {
		return s.do(http.MethodPost, "/batch", ipcLine("", "1"), "Content-Type", call.NDJSONMediaType, "X-Forwarded-For", address)
	}
	from("192.0.2.1").problem(http.StatusServiceUnavailable)
	from("192.0.2.2").want(http.StatusOK)
	require.Equal(t, 128, limits.ServerLimits{}.WithDefaults().MaxBatches, "one caller can open 64 batches")
}
