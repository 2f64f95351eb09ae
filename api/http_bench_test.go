//go:build unix

package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"colophon/api/call"
)

// The benchmarks in this file measure the cost of a request without the disk: the ledger is in
// memory. They report CPU time, because other programs affect it less than elapsed time. The
// CPU time includes the client, which costs little more than its system calls.
//
//	go test -run '^$' -bench 'Post|Batch|Get' -count 6 ./api

// cpu starts measuring the CPU time of the process. The function that it returns reports the CPU
// time per operation as a benchmark metric.
func cpu(b *testing.B) (report func()) {
	used := func() time.Duration {
		var u syscall.Rusage
		require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	begin := used()
	return func() { b.ReportMetric(float64(used()-begin)/float64(b.N), "cpu-ns/op") }
}

// BenchmarkPost measures the cost of posting one record, from the request to the receipt.
func BenchmarkPost(b *testing.B) {
	s := start(b)
	w := s.wire(b)
	requests := make([][]byte, b.N)
	for i := range requests {
		requests[i] = request(http.MethodPost, "/v1/ledgers/default/ipc-records", "application/json", sampleRecord(i))
	}
	b.ReportAllocs()
	b.ResetTimer()
	report := cpu(b)
	for _, r := range requests {
		w.ask(r, http.StatusCreated)
	}
	report()
}

// BenchmarkPostCompute measures the cost of hashing and checking a record without recording it. The
// cost includes HTTP, but not the ledger and its index.
func BenchmarkPostCompute(b *testing.B) {
	s := start(b)
	w := s.wire(b)
	r := request(http.MethodPost, "/v1/compute/ipc_record", "application/json", sampleRecord(1))
	b.ReportAllocs()
	report := cpu(b)
	for b.Loop() {
		w.ask(r, http.StatusOK)
	}
	report()
}

// BenchmarkBatchLine measures the cost of one record in a batch, from its line in the request to
// its line in the response.
func BenchmarkBatchLine(b *testing.B) {
	s := start(b)
	var body bytes.Buffer
	for i := range b.N {
		fmt.Fprintf(&body, `{"kind":"ipc_record","record":%s}`+"\n", sampleRecord(i))
	}
	r, err := http.NewRequest(http.MethodPost, s.url+"/batch", &body)
	require.NoError(b, err)
	r.Header.Set("Content-Type", call.NDJSONMediaType)
	b.ReportAllocs()
	b.ResetTimer()
	report := cpu(b)
	response, err := http.DefaultClient.Do(r)
	require.NoError(b, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	report()
	require.NoError(b, err)
	require.Equal(b, b.N, bytes.Count(answer, []byte(`"leaf_hash"`)))
}

// BenchmarkShortBatch measures the cost of posting a batch of 16 records.
func BenchmarkShortBatch(b *testing.B) {
	encoder, err := zstd.NewWriter(nil)
	require.NoError(b, err)
	for _, encoding := range []string{"identity", "zstd"} {
		b.Run(encoding, func(b *testing.B) {
			s := start(b)
			const lines = 16
			bodies := make([][]byte, b.N)
			for i := range bodies {
				for j := range lines {
					bodies[i] = fmt.Appendf(bodies[i], `{"kind":"ipc_record","record":%s}`+"\n", sampleRecord(lines*i+j))
				}
				if encoding == "zstd" {
					bodies[i] = encoder.EncodeAll(bodies[i], nil)
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			report := cpu(b)
			for _, body := range bodies {
				answer := s.do(http.MethodPost, "/batch", string(body), "Content-Type", call.NDJSONMediaType, "Content-Encoding", encoding)
				require.Equal(b, lines, bytes.Count(answer.body, []byte(`"leaf_hash"`)))
			}
			report()
		})
	}
}

// BenchmarkGet measures the most frequent reads.
func BenchmarkGet(b *testing.B) {
	s := start(b)
	w := s.wire(b)
	post := func(body string) {
		w.ask(request(http.MethodPost, "/v1/ledgers/default/ipc-records", "application/json", body), http.StatusCreated)
	}
	for i := range 300 {
		post(sampleRecord(i))
	}
	labels := make(map[string]string)
	for i := range 20 {
		labels[fmt.Sprintf("label %d", i)] = strings.Repeat("a longer value ", 7)
	}
	list, err := json.Marshal(labels)
	require.NoError(b, err)
	post(fmt.Sprintf(`{"labels":%s,%s`, list, sampleRecord(300)[1:])) // its receipt is 5 KiB long
	for name, path := range map[string]string{
		"healthz":    "/healthz",
		"inclusion":  "/v1/ledgers/default/proofs/inclusion?seq=5",
		"checkpoint": "/v1/ledgers/default/log/checkpoint",
		"receipt":    "/v1/ledgers/default/records/301/receipt",
	} {
		b.Run(name, func(b *testing.B) {
			r := fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
			b.ReportAllocs()
			report := cpu(b)
			for b.Loop() {
				w.ask(r, http.StatusOK)
			}
			report()
		})
	}
}
