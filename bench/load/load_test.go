package load_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/bench/corpus"
	"colophon/bench/load"
)

// drive posts records to a handler over the given number of connections: in batches of the given
// number of lines, or singly if lines is 0.
func drive(t *testing.T, handler http.HandlerFunc, connections, records, lines int) (*load.Result, *corpus.Bodies, error) {
	t.Helper()
	bodies, err := corpus.New(1).MakeBodies(0, records)
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	opened, err := load.DialAll(server.Listener.Addr().String(), connections)
	require.NoError(t, err)
	target := load.Target{Head: load.PostRequestHead("/add", "X-Kind: test"), Status: http.StatusCreated, Lines: lines}
	r, err := load.SendBodies(t.Context(), load.NewClients(opened, target), &load.BodyQueue{Bodies: bodies})
	_ = load.CloseAll(opened) // a connection that failed has already been closed
	return r, bodies, err
}

// SendBodies posts every record once and unchanged, whether the response has a Content-Length or is
// chunked.
func TestSingles(t *testing.T) {
	for name, padding := range map[string]int{"by length": 0, "in chunks": 100_000} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			posted := make(map[string]int)
			const records = 2100
			r, bodies, err := drive(t, func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil || r.Method != http.MethodPost || r.URL.Path != "/add" || r.Header.Get("X-Kind") != "test" {
					w.WriteHeader(http.StatusBadRequest)
					return
				}
				mu.Lock()
				posted[string(body)]++
				mu.Unlock()
				w.WriteHeader(http.StatusCreated)
				fmt.Fprint(w, strings.Repeat("-", padding), string(body))
			}, 3, records, 0)
			require.NoError(t, err)
			require.Equal(t, records, r.Records)
			require.Equal(t, records, r.Requests)
			require.Len(t, r.Latencies, records)
			require.Len(t, posted, records)
			for i := range records {
				require.Equal(t, 1, posted[string(bodies.Body(i))])
			}
			require.Len(t, r.Samples, 3)
			for _, s := range r.Samples {
				require.Equal(t, strings.Repeat("-", padding)+string(bodies.Body(s.Record)), string(s.Answer))
			}
		})
	}
}

// A response with an unexpected status stops the measurement.
func TestUnexpectedStatus(t *testing.T) {
	_, _, err := drive(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "too much", http.StatusServiceUnavailable)
	}, 2, 10, 0)
	require.ErrorContains(t, err, "status 503, want 201: too much")
}

// echoLines returns a handler that responds to each line as soon as it arrives, with the result of
// answer.
func echoLines(answer func(line string) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.WriteHeader(http.StatusCreated)
		for lines := bufio.NewReader(r.Body); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			fmt.Fprintln(w, answer(strings.TrimSuffix(line, "\n")))
		}
	}
}

// SendBodies sends a batch and reads its response at the same time, and counts the receipt of every
// line.
func TestBatches(t *testing.T) {
	const records, lines = 4200, 700
	r, bodies, err := drive(t, echoLines(func(line string) string { return `{"ledger":"default","of":` + line + `}` }), 2, records, lines)
	require.NoError(t, err)
	require.Equal(t, records, r.Records)
	require.Equal(t, records/lines, r.Requests)
	require.NotEmpty(t, r.Samples)
	for _, s := range r.Samples {
		want := fmt.Sprintf(`{"ledger":"default","of":{"kind":"ipc_record","record":%s}}`, bodies.Body(s.Record))
		require.Equal(t, want, string(s.Answer))
	}
}

// A line that is refused or not answered stops the measurement.
func TestRefusedLines(t *testing.T) {
	_, _, err := drive(t, echoLines(func(string) string { return `{"status":422}` }), 1, 20, 10)
	require.ErrorContains(t, err, `{"status":422}`)
	_, _, err = drive(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintln(w, `{"ledger":"default"}`)
	}, 1, 20, 10)
	require.ErrorContains(t, err, "batch of 10 lines from record 0: the server answered 1 lines")
}

func TestQuantile(t *testing.T) {
	r := &load.Result{}
	require.Zero(t, r.Quantile(0.5))
	for i := range 100 {
		r.Latencies = append(r.Latencies, time.Duration(i+1))
	}
	require.Equal(t, time.Duration(51), r.Quantile(0.50))
	require.Equal(t, time.Duration(100), r.Quantile(0.99))
	require.Equal(t, time.Duration(100), r.Quantile(1))
}
