package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/internal/remote"
)

// answering starts a server that passes each batch to the next of the given handlers.
func answering(t *testing.T, batches ...http.HandlerFunc) (url string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/ledgers/default", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"name":"default","tree_size":1}`)
	})
	mux.HandleFunc("POST /v1/ledgers/default/batch", func(w http.ResponseWriter, r *http.Request) {
		next := batches[0]
		batches = batches[1:]
		next(w, r)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.Close()
		require.Empty(t, batches, "the client must send every batch")
	})
	return server.URL
}

// receipts reads n lines and responds to each with a receipt. The receipts have consecutive seqs
// starting at seq. The first line must contain want.
func receipts(t *testing.T, w http.ResponseWriter, lines *bufio.Scanner, seq, n int, want string) {
	for i := range n {
		if lines.Scan() && i == 0 {
			require.Contains(t, lines.Text(), want)
		}
		_, _ = fmt.Fprintf(w, `{"ledger":"default","seq":%d,"kind":"ipc_record","checks":{}}`+"\n", seq+i)
	}
	require.NoError(t, http.NewResponseController(w).Flush())
}

// duplex starts a response while the client is still sending the request, and returns a scanner
// over the lines of the request body. The handler may return before it has read the whole body.
// duplex makes the server close the connection afterwards, because net/http might panic if it
// reused the connection (golang.org/issue/68560).
func duplex(t *testing.T, w http.ResponseWriter, r *http.Request) *bufio.Scanner {
	require.NoError(t, http.NewResponseController(w).EnableFullDuplex())
	w.Header().Set("Connection", "close")
	w.WriteHeader(http.StatusOK)
	require.NoError(t, http.NewResponseController(w).Flush())
	return bufio.NewScanner(r.Body)
}

func TestImportContinuesAfterInterruptions(t *testing.T) {
	var file bytes.Buffer
	for i := range 10 {
		fmt.Fprintf(&file, `{"kind":"ipc_record","record":{"run_id":"run-%d"}}`+"\n", i)
	}
	name := filepath.Join(t.TempDir(), "lines.ndjson")
	require.NoError(t, os.WriteFile(name, file.Bytes(), 0o600))
	server := answering(t,
		func(w http.ResponseWriter, _ *http.Request) { // the server has no space and rejects the whole batch
			w.Header().Set("Retry-After", "0")
			http.Error(w, `{"detail":"no room"}`, http.StatusServiceUnavailable)
		},
		func(w http.ResponseWriter, r *http.Request) { // the server has space for only three lines
			lines := duplex(t, w, r)
			receipts(t, w, lines, 1, 3, "run-0")
			_, _ = io.WriteString(w, `{"status":503,"title":"Service Unavailable","detail":"no room"}`+"\n")
		},
		func(w http.ResponseWriter, r *http.Request) { // the connection breaks in the middle of a line of the response
			lines := duplex(t, w, r)
			receipts(t, w, lines, 4, 2, "run-3")
			_, _ = io.WriteString(w, `{"ledger":"default","seq":`)
			require.NoError(t, http.NewResponseController(w).Flush())
			panic(http.ErrAbortHandler)
		},
		func(w http.ResponseWriter, r *http.Request) { // the response ends early
			receipts(t, w, duplex(t, w, r), 6, 1, "run-5")
		},
		func(w http.ResponseWriter, r *http.Request) {
			lines := duplex(t, w, r)
			receipts(t, w, lines, 7, 4, "run-6")
			require.False(t, lines.Scan())
		},
	)
	var out, errs bytes.Buffer
	c := &cli.Console{In: strings.NewReader(""), Out: &out, Err: &errs, LookupEnv: func(string) (string, bool) { return "", false }}
	options := importOptions{server: remote.Options{URL: server}, ledger: "default", retries: 4, maxLine: 1 << 20}
	require.NoError(t, runImport(context.Background(), c, options, []string{name}), errs.String())
	require.Regexp(t, `total +10 +0 +0 +0`, out.String())
	require.Contains(t, errs.String(), "503 no room")
}

func TestImportStopsWhenRefused(t *testing.T) {
	server := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"title":"Unsupported Media Type","detail":"no NDJSON here"}`, http.StatusUnsupportedMediaType)
	})
	var out, errs bytes.Buffer
	args := []string{"import", "--server", server, "-"}
	code := run(context.Background(), args, strings.NewReader(`{"kind": "ipc_record", "record": {"model": "m"}}`), &out, &errs, func(string) (string, bool) { return "", false })
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, errs.String(), "refused the import: 415 no NDJSON here")
}

// The import command rejects a receipt for a different ledger or for a different kind of record.
func TestImportRefusesReceiptsOfOtherRecords(t *testing.T) {
	for _, receipt := range []string{`{"ledger":"other","seq":1,"kind":"ipc_record"}`, `{"ledger":"default","seq":1,"kind":"run_dag"}`, `{"seq":1}`, `{"ledger":1`} {
		server := answering(t, func(w http.ResponseWriter, r *http.Request) {
			duplex(t, w, r).Scan()
			_, _ = io.WriteString(w, receipt+"\n")
		})
		var out, errs bytes.Buffer
		in := `{"kind":"ipc_record","record":{"run_id":"a"}}` + "\n"
		code := run(context.Background(), []string{"import", "--server", server, "--retries", "0", "-"}, strings.NewReader(in), &out, &errs,
			func(string) (string, bool) { return "", false })
		require.Equal(t, cli.ExitUnreachable, code, receipt)
		require.Contains(t, errs.String(), "unexpected response to -:1: ")
		require.NotRegexp(t, `total +1`, out.String())
	}
}
