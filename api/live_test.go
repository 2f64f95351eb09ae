package api

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/client/wire"
)

// A client that streams /live gets a summary immediately and again whenever the ledger or its index
// grows, and it is told why the stream ends.
func TestLiveSummaries(t *testing.T) {
	s := start(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/live", nil)
	require.NoError(t, err)
	r.Header.Set("Accept", eventStream)
	response, err := s.http.Client().Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, eventStream, response.Header.Get("Content-Type"))
	defer time.AfterFunc(patience, func() { _ = response.Body.Close() }).Stop()
	lines := bufio.NewReader(response.Body)
	next := func(name string) (live wire.LiveSummary) {
		t.Helper()
		for event := ""; ; {
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			if text, is := strings.CutPrefix(line, "event: "); is {
				event = strings.TrimSpace(text)
			}
			if data, is := strings.CutPrefix(line, "data: "); is && event == name {
				require.NoError(t, json.Unmarshal([]byte(data), &live))
				return live
			}
		}
	}
	require.Equal(t, uint64(1), next("head").TreeSize)
	s.post("/ipc-records", ipcBody("r", "o")).want(http.StatusCreated)
	s.post("/ipc-records", `{"output_hash":"`+zeros+`",`+ipcBody("", "o2")[1:]).want(http.StatusCreated)
	var live wire.LiveSummary
	for live = next("head"); live.IndexSize < 3; live = next("head") {
		require.LessOrEqual(t, live.IndexSize, live.TreeSize)
	}
	require.Equal(t, uint64(2), live.Records[wire.KindIPCRecord])
	require.Equal(t, uint64(1), live.Mismatches)
	require.Len(t, live.Newest, 3)
	require.Equal(t, []uint64{2, 1, 0}, []uint64{live.Newest[0].Seq, live.Newest[1].Seq, live.Newest[2].Seq})
	require.Equal(t, "r", live.Newest[1].RunID)
	require.Equal(t, 1, live.Newest[0].Mismatches)
	var once wire.LiveSummary
	s.get("/live").want(http.StatusOK).json(&once)
	require.Equal(t, live, once)

	s.post("/freeze", "").want(http.StatusOK)
	next("frozen")
}

// A stream of summaries needs a follower slot.
func TestLiveIsLimited(t *testing.T) {
	s := start(t, func(c *Config) { c.ServerLimits.MaxFollowers = 1 })
	first := s.listen("")
	defer first.leave()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/live", nil)
	require.NoError(t, err)
	r.Header.Set("Accept", eventStream)
	response, err := s.http.Client().Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	require.NotEmpty(t, response.Header.Get("Retry-After"))
}
