package otlp_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/client"
)

// programs holds the paths of the programs that TestMain has built.
var programs struct{ colophon, collector string }

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "colophon-otlp")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	programs.colophon, programs.collector = filepath.Join(dir, "colophon"), filepath.Join(dir, "collector")
	for _, build := range []struct{ in, pkg, to string }{
		{filepath.Join("..", ".."), "./cmd/colophon", programs.colophon},
		{"collector", ".", programs.collector},
	} {
		command := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", build.to, build.pkg)
		command.Dir = build.in
		command.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := command.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building %s in %s: %v\n%s", build.pkg, build.in, err, out)
			return 1
		}
	}
	return m.Run()
}

// process is a server that runs in its own process. Its ledger survives when the server is killed and
// started again.
type process struct {
	data, http, grpc string // data folder, and addresses for HTTP and gRPC
	ledger           *client.Ledger
	command          *exec.Cmd
}

func startProcess(t *testing.T) *process {
	t.Helper()
	p := &process{data: filepath.Join(t.TempDir(), "data"), http: "127.0.0.1:0", grpc: "127.0.0.1:0"}
	p.start(t)
	t.Cleanup(p.kill)
	c, err := client.New("http://" + p.http)
	require.NoError(t, err)
	p.ledger = c.Ledger("default")
	return p
}

// start starts the server. After the first start, it always uses the same addresses.
func (p *process) start(t *testing.T) {
	t.Helper()
	log := new(bytes.Buffer)
	p.command = exec.Command(programs.colophon, "serve", "--data", p.data, "--listen", p.http, "--otlp-grpc-listen", p.grpc)
	p.command.Stderr = log
	out, err := p.command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.command.Start())
	lines := bufio.NewScanner(out)
	for ready := false; !ready; {
		if !lines.Scan() {
			_ = p.command.Wait()
			require.FailNow(t, "the server did not start", "%s", log)
		}
		name, value, _ := strings.Cut(strings.TrimSpace(lines.Text()), "  ")
		switch value = strings.TrimSpace(value); name {
		case "server":
			p.http = strings.TrimPrefix(value, "http://")
		case "OTLP":
			p.grpc = strings.TrimSuffix(strings.TrimPrefix(value, "http://"), " by gRPC")
		case "verifier key":
			ready = true
		}
	}
	go io.Copy(io.Discard, out)
}

// kill kills the server without warning and waits until it has exited.
func (p *process) kill() {
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
}

// size returns the number of events in the ledger, or 0 if the request fails.
func (p *process) size(t *testing.T) uint64 {
	stats, err := p.ledger.Stats(t.Context())
	if err != nil {
		return 0
	}
	return stats.TreeSize
}

// collector is an OpenTelemetry Collector in its own process.
type collector struct {
	command    *exec.Cmd
	http, grpc string        // addresses on which the collector receives OTLP
	ended      chan struct{} // closed when the collector has closed its log

	mu   sync.Mutex
	text strings.Builder // collector's log; guarded by mu
}

// startCollector starts a collector that receives spans and log records and exports them through the
// named exporter. settings is the content of the exporter's YAML mapping, without the braces.
func startCollector(t *testing.T, exporter, settings string) *collector {
	t.Helper()
	file := filepath.Join(t.TempDir(), "collector.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `
receivers:
  otlp: {protocols: {grpc: {endpoint: "127.0.0.1:0"}, http: {endpoint: "127.0.0.1:0"}}}
processors:
  batch: {timeout: 20ms, send_batch_size: 50, send_batch_max_size: 50}
exporters:
  %[1]s: {%[2]s, retry_on_failure: {initial_interval: 50ms, max_interval: 500ms, max_elapsed_time: 0s}}
service:
  pipelines:
    traces: {receivers: [otlp], processors: [batch], exporters: [%[1]s]}
    logs: {receivers: [otlp], processors: [batch], exporters: [%[1]s]}
`, exporter, settings), 0o600))
	c := &collector{command: exec.Command(programs.collector, "--config", file), ended: make(chan struct{})}
	out, err := c.command.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, c.command.Start())
	ready := make(chan struct{})
	go c.read(out, ready)
	t.Cleanup(func() {
		_ = c.command.Process.Kill()
		<-c.ended
		_ = c.command.Wait()
		if t.Failed() {
			t.Log(c.log())
		}
	})
	select {
	case <-ready:
	case <-c.ended:
		require.FailNow(t, "the collector did not start", c.log())
	}
	return c
}

// read collects the log, and closes ready once the collector is able to receive data.
func (c *collector) read(out io.Reader, ready chan<- struct{}) {
	defer close(c.ended)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		c.mu.Lock()
		c.text.Write(append(lines.Bytes(), '\n'))
		c.mu.Unlock()
		var entry struct{ Msg, Endpoint string }
		_ = json.Unmarshal(lines.Bytes(), &entry) // some lines are not JSON, such as those of a panic
		switch {
		case entry.Msg == "Starting GRPC server":
			c.grpc = entry.Endpoint
		case entry.Msg == "Starting HTTP server":
			c.http = entry.Endpoint
		case strings.HasPrefix(entry.Msg, "Everything is ready"):
			close(ready)
		}
	}
}

func (c *collector) log() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// stop tells the collector to send its remaining data, and waits until it has exited.
func (c *collector) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, c.command.Process.Signal(syscall.SIGTERM))
	<-c.ended
	require.NoError(t, c.command.Wait())
}
