//go:build linux

package interop_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// These constants define the load of BenchmarkProofs.
const (
	proofLeaves      = 1_000_000
	proofConnections = 8
	proofRequests    = 20_000 // number of requests of each kind per round
	proofRounds      = 7
)

// BenchmarkProofs reports the server's CPU time for each kind of request in a log of a million
// leaves. It also reports the throughput for clients on the same machine, relative to the
// throughput of /healthz. It alternates between the kinds, so that other work on the machine
// affects them equally, and reports medians.
//
//	go test -run '^$' -bench Proofs -benchtime 1x .
func BenchmarkProofs(b *testing.B) {
	s := startOpen(b)
	s.grow(proofLeaves)
	s.waitForIndex()
	b.Run("open", s.benchmarkProofs)
	s.protect()
	b.Run("protected", s.benchmarkProofs)
}

func (s *server) benchmarkProofs(b *testing.B) {
	kinds := []struct {
		name string
		path func() string
	}{
		{"healthz", func() string { return "/healthz" }},
		{"inclusion", func() string { return fmt.Sprint("/v1/ledgers/default/proofs/inclusion?seq=", rand.N(proofLeaves)) }},
		{"inclusion-earlier", func() string {
			size := 1 + rand.N(proofLeaves)
			return fmt.Sprintf("/v1/ledgers/default/proofs/inclusion?seq=%d&tree_size=%d", rand.N(size), size)
		}},
		{"consistency", func() string {
			second := 1 + rand.N(proofLeaves)
			return fmt.Sprintf("/v1/ledgers/default/proofs/consistency?first=%d&second=%d", 1+rand.N(second), second)
		}},
		{"checkpoint", func() string { return "/v1/ledgers/default/log/checkpoint" }},
	}
	for b.Loop() {
		spent, shares := make([][]float64, len(kinds)), make([][]float64, len(kinds))
		for range proofRounds {
			var first float64
			for i, kind := range kinds {
				processor, passed := s.spend(kind.path)
				if i == 0 {
					first = passed
				}
				spent[i], shares[i] = append(spent[i], processor), append(shares[i], 100*first/passed)
			}
		}
		for i, kind := range kinds {
			b.ReportMetric(median(spent[i]), kind.name+"-µs")
			b.ReportMetric(median(shares[i]), kind.name+"-%of-healthz")
		}
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// spend sends proofRequests requests and calls path to get the path of each. It returns the
// server's CPU time and the elapsed time per request, both in microseconds.
func (s *server) spend(path func() string) (processor, passed float64) {
	credentials := ""
	if s.token != "" {
		credentials = "Authorization: Bearer " + s.token + "\r\n"
	}
	requests := make([][][]byte, proofConnections)
	for i := range requests {
		for range proofRequests / proofConnections {
			requests[i] = append(requests[i], fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path(), credentials))
		}
	}
	before, begin := s.processorTime(), time.Now()
	var all sync.WaitGroup
	for i := range requests {
		all.Go(func() { s.askAll(requests[i]) })
	}
	all.Wait()
	passed = time.Since(begin).Seconds()
	return (s.processorTime() - before) * 1e6 / proofRequests, passed * 1e6 / proofRequests
}

// askAll sends requests one after another over one connection.
func (s *server) askAll(requests [][]byte) {
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Error(err)
		return
	}
	defer c.Close()
	answers := bufio.NewReader(c)
	for _, request := range requests {
		if _, err := c.Write(request); err != nil {
			s.t.Error(err)
			return
		}
		response, err := http.ReadResponse(answers, nil)
		if err != nil || response.StatusCode != http.StatusOK {
			s.t.Error(response, err)
			return
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			s.t.Error(err)
			return
		}
	}
}

// processorTime returns the CPU time, in seconds, that the server has used so far. The resolution
// is 10 ms.
func (s *server) processorTime() float64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process.Pid))
	require.NoError(s.t, err)
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	require.NoError(s.t, err)
	system, err := strconv.Atoi(fields[12])
	require.NoError(s.t, err)
	return float64(user+system) / 100
}

// waitForIndex waits until the index is up to date, because indexing uses CPU time too.
func (s *server) waitForIndex() {
	for {
		var stats struct {
			TreeSize uint64 `json:"tree_size"`
			AsOf     uint64 `json:"as_of"`
		}
		require.NoError(s.t, json.Unmarshal(s.do(http.MethodGet, "/v1/ledgers/default/stats", nil, http.StatusOK), &stats))
		if stats.AsOf == stats.TreeSize {
			return
		}
		time.Sleep(time.Second / 10)
	}
}
