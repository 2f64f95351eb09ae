package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"

	"colophon/bench/contestant"
	"colophon/bench/load"
)

// service is a log that is served over HTTP and can be measured.
type service interface {
	// start starts the service with its data in dir.
	start(ctx context.Context, dir string) (*server, error)
	// target returns the kind of request that clients send: single records or, if lines is not 0,
	// batches of that many lines.
	target(lines int) load.Target
	// caughtUp waits until derived data, such as an index, includes the given number of records.
	caughtUp(c *load.Conn, records int) error
	// verifier returns a function that verifies answers and can still be called after the server
	// has exited. records is the number of records that the server has accepted.
	verifier(c *load.Conn, dir string, records int) (func(ctx context.Context, answer, body []byte) error, error)
	// fsyncs returns the number of syncs that the server reports, or -1 if it reports none.
	fsyncs(c *load.Conn) (float64, error)
}

// colophonService runs `colophon serve`.
type colophonService struct {
	binary      string
	environment []string
	minimal     bool // request minimal receipts, which contain no proof
	profiled    bool
	store       string // URL of the database for the log; "" means the data folder
}

const ledgerPath = "/v1/ledgers/default"

func (s colophonService) start(ctx context.Context, dir string) (*server, error) {
	arguments := []string{"serve", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0",
		// Let caughtUp wait for the index, and allow more concurrent batches than one address may
		// send by default.
		"--index-wait", "10m", "--max-batches", "4096", "--log-level", "warn"}
	if s.store != "" {
		arguments = append(arguments, "--store", s.store)
	}
	wanted := []string{"server"}
	if s.profiled {
		arguments = append(arguments, "--metrics-listen", "127.0.0.1:0", "--pprof")
		wanted = append(wanted, "metrics")
	}
	return startServer(ctx, wanted, s.environment, s.binary, arguments...)
}

func (s colophonService) target(lines int) load.Target {
	preference := "Prefer: return=representation"
	if s.minimal {
		preference = "Prefer: return=minimal"
	}
	if lines == 0 {
		return load.Target{Head: load.PostRequestHead(ledgerPath+"/ipc-records", "Content-Type: application/json", preference), Status: http.StatusCreated}
	}
	return load.Target{Head: load.PostRequestHead(ledgerPath+"/batch", "Content-Type: application/x-ndjson", preference), Status: http.StatusOK, Lines: lines}
}

// caughtUp requests the last record. The server responds once the index contains this record, whose
// seq equals records, because event 0 created the ledger.
func (s colophonService) caughtUp(c *load.Conn, records int) error {
	_, err := get(c, ledgerPath+"/records/"+strconv.Itoa(records))
	return err
}

func (s colophonService) verifier(c *load.Conn, _ string, _ int) (func(context.Context, []byte, []byte) error, error) {
	text, err := get(c, ledgerPath+"/log/key")
	if err != nil {
		return nil, err
	}
	var key struct {
		VerifierKey string `json:"verifier_key"`
	}
	if err := json.Unmarshal(text, &key); err != nil {
		return nil, fmt.Errorf("parsing the key of the ledger: %w", err)
	}
	receipts, err := contestant.NewReceiptVerifier(key.VerifierKey)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, answer, body []byte) error { return receipts.Verify(answer, body, s.minimal) }, nil
}

func (s colophonService) fsyncs(c *load.Conn) (float64, error) {
	if s.profiled || s.store != "" { // the metrics are served at a separate address, or do not count syncs
		return -1, nil
	}
	return metric(c, "colophon_storage_fsync_duration_seconds_count")
}

// tesseraService runs Tessera's POSIX driver behind a bare net/http handler.
type tesseraService struct {
	self     string // path of this program
	settings []string
}

func (s tesseraService) start(ctx context.Context, dir string) (*server, error) {
	return startServer(ctx, []string{"server"}, nil, s.self, append([]string{"contestant", "tessera-server", "--dir", dir}, s.settings...)...)
}

func (tesseraService) target(int) load.Target {
	return load.Target{Head: load.PostRequestHead("/add"), Status: http.StatusOK}
}

func (tesseraService) caughtUp(*load.Conn, int) error { return nil }

func (tesseraService) verifier(_ *load.Conn, dir string, records int) (func(context.Context, []byte, []byte) error, error) {
	return func(ctx context.Context, answer, body []byte) error {
		return contestant.VerifyTessera(ctx, dir, uint64(records), answer, body)
	}, nil
}

func (tesseraService) fsyncs(*load.Conn) (float64, error) { return -1, nil }

// get sends a GET request and returns the body. It returns an error unless the status is 200.
func get(c *load.Conn, path string) ([]byte, error) {
	status, body, err := c.Get(path)
	if err != nil {
		return nil, fmt.Errorf("requesting %s: %w", path, err)
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("requesting %s: status %d: %.500s", path, status, body)
	}
	return body, nil
}

// metric returns the sum of all series of a metric in /metrics.
func metric(c *load.Conn, name string) (float64, error) {
	text, err := get(c, "/metrics")
	if err != nil {
		return 0, err
	}
	sum, found := 0.0, false
	for line := range bytes.Lines(text) {
		rest, ok := bytes.CutPrefix(line, []byte(name))
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		value, err := strconv.ParseFloat(string(bytes.TrimSpace(rest[bytes.LastIndexByte(rest, ' '):])), 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		sum, found = sum+value, true
	}
	if !found {
		return 0, fmt.Errorf("/metrics has no metric %s", name)
	}
	return sum, nil
}
