//go:build !race

package api

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAllocations bounds the number of allocations per request. Unlike durations, allocations can
// be counted exactly. The counts cover the whole process: they include the allocations of net/http
// (about 15 per request) and, for writes, those of the ledger and the index. The limits leave room
// for variation. The test does not run under the race detector, because there sync.Pool drops
// values at random.
func TestAllocations(t *testing.T) {
	s := start(t)
	w := s.wire(t)
	asked := 0
	// Writes come last: the index folds them in the background, which would add to later counts.
	for _, c := range []struct {
		name    string
		most    float64
		status  int
		request func() []byte
	}{
		{"healthz", 28, http.StatusOK, func() []byte { return []byte("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") }},
		{"compute", 38, http.StatusOK, func() []byte {
			return request(http.MethodPost, "/v1/compute/ipc_record", "application/json", sampleRecord(0))
		}},
		{"post", 190, http.StatusCreated, func() []byte {
			asked++
			return request(http.MethodPost, "/v1/ledgers/default/ipc-records", "application/json", sampleRecord(asked))
		}},
	} {
		const rounds = 200
		requests := make([][]byte, 0, rounds+1) // one more request for the warm-up
		for range cap(requests) {
			requests = append(requests, c.request())
		}
		count := testing.AllocsPerRun(rounds, func() {
			w.ask(requests[0], c.status)
			requests = requests[1:]
		})
		require.LessOrEqual(t, count, c.most, c.name)
	}
}

// A batch line costs fewer allocations than a request that posts one record.
func TestAllocationsOfBatchLines(t *testing.T) {
	s := start(t)
	const lines, most = 2000, 48.0
	posted := 0
	batch := func() string {
		var b strings.Builder
		for range lines {
			posted++
			fmt.Fprintf(&b, "{\"kind\":\"ipc_record\",\"record\":%s}\n", sampleRecord(posted))
		}
		return b.String()
	}
	bodies := []string{batch(), batch(), batch()}
	count := testing.AllocsPerRun(2, func() {
		answer := s.batch(bodies[0])
		bodies = bodies[1:]
		require.Equal(t, lines, bytes.Count(answer.body, []byte(`"leaf_hash"`)))
	})
	require.LessOrEqual(t, count/lines, most)
}
