//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/storage/postgres/postgrestest"
)

// cluster is a group of servers that share one PostgreSQL database.
type cluster struct {
	*testing.T
	store  string
	posted atomic.Int64 // number of records that the servers acknowledged
}

// patience is how long the tests wait for the servers to agree. The servers normally agree much
// sooner.
const patience = time.Minute

// TestServersOnOneStore runs the tests with several servers that share one PostgreSQL database.
func TestServersOnOneStore(t *testing.T) {
	database := postgrestest.Start(t)
	for name, test := range map[string]func(*cluster){
		"killed holder":   killedHolder,
		"clean stop":      cleanStop,
		"paused writer":   pausedWriter,
		"no key no lease": noKeyNoLease,
		"forwarding":      forwarding,
		"spread":          spread,
	} {
		t.Run(name, func(t *testing.T) {
			test(&cluster{T: t, store: database.URL("search_path", database.CreateSchema(t))})
		})
	}
}

// start starts a server on a data folder and requires that it becomes ready.
func (c *cluster) start(data string, args ...string) *process {
	c.Helper()
	p := startProcess(c.T, data, append([]string{"--store", c.store}, args...)...)
	require.True(c, p.up, "%s", p.output)
	c.Cleanup(func() {
		if c.Failed() {
			c.Logf("%s:\n%s", p.url, p.output)
		}
	})
	return p
}

// shareKeys copies the signing keys of one data folder to another.
func (c *cluster) shareKeys(from, to string) {
	c.Helper()
	require.NoError(c, os.MkdirAll(filepath.Join(to, "keys"), 0o700))
	files, err := filepath.Glob(filepath.Join(from, "keys", "*.key"))
	require.NoError(c, err)
	require.NotEmpty(c, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(c, err)
		require.NoError(c, os.WriteFile(filepath.Join(to, "keys", filepath.Base(file)), text, 0o600))
	}
}

// startTwo starts two servers that both have the signing keys. The first server writes to the ledger
// "default".
func (c *cluster) startTwo() (first, second *process) {
	a, b := filepath.Join(c.TempDir(), "a"), filepath.Join(c.TempDir(), "b")
	// With these IDs, the first server is the preferred one for the ledger "default".
	c.name(a, "server-1")
	c.name(b, "server-2")
	first = c.start(a)
	c.shareKeys(a, b)
	second = c.start(b)
	return first, second
}

// name sets the ID of the server that uses the data folder. It must be called before the server's
// first start.
func (c *cluster) name(data, id string) {
	require.NoError(c, os.MkdirAll(filepath.Join(data, "store"), 0o700))
	require.NoError(c, os.WriteFile(filepath.Join(data, "store", "server"), []byte(id+"\n"), 0o600))
}

// ask sends a request and returns the status, the header, and the body of the response. If the
// request fails, the status is 0 and the body is the error message.
func (c *cluster) ask(method, url, body string) (int, http.Header, string) {
	c.Helper()
	request, err := http.NewRequestWithContext(c.Context(), method, url, strings.NewReader(body))
	require.NoError(c, err)
	request.Header.Set("Content-Type", "application/json")
	client := http.Client{Timeout: 30 * time.Second}
	answer, err := client.Do(request)
	if err != nil {
		return 0, nil, err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, nil, err.Error()
	}
	return answer.StatusCode, answer.Header, string(text)
}

var records atomic.Int64

// newRecord returns an IPC record with a new run_id.
func newRecord() string {
	return fmt.Sprintf(`{"run_id":"run-%d","payload":{"n":1},"system_prompt":"s","output":"o","model":"m","temperature":0.5,"max_tokens":16}`, records.Add(1))
}

// post posts one record with a new run_id to a ledger through the server p.
func (c *cluster) post(p *process, ledger string) (int, http.Header, string) {
	c.Helper()
	return c.postRecord(p, ledger, newRecord())
}

func (c *cluster) postRecord(p *process, ledger, record string) (int, http.Header, string) {
	c.Helper()
	status, header, text := c.ask(http.MethodPost, p.url+"/v1/ledgers/"+ledger+"/ipc-records", record)
	if status == http.StatusCreated {
		c.posted.Add(1)
	}
	return status, header, text
}

// mustPost posts a record, and retries with the same run_id until the server accepts the record.
func (c *cluster) mustPost(p *process, ledger string) (receipt string) {
	c.Helper()
	record := newRecord()
	begin := time.Now()
	require.Eventually(c, func() bool {
		status, header, text := c.postRecord(p, ledger, record)
		receipt = text
		if status == http.StatusServiceUnavailable {
			require.NotEmpty(c, header.Get("Retry-After"), text)
		} else {
			require.Contains(c, []int{0, http.StatusCreated, http.StatusOK}, status, text)
		}
		if status == http.StatusOK { // an earlier attempt recorded it, but the response was lost
			c.posted.Add(1)
		}
		return status == http.StatusCreated || status == http.StatusOK
	}, patience, 50*time.Millisecond)
	c.Logf("posted to %s after %v", p.url, time.Since(begin).Round(time.Millisecond))
	return receipt
}

// size returns the tree size that a server reports for a ledger, or -1 if the request for the
// ledger's description fails.
func (c *cluster) size(p *process, ledger string) int {
	c.Helper()
	status, _, text := c.ask(http.MethodGet, p.url+"/v1/ledgers/"+ledger, "")
	if status != http.StatusOK {
		return -1
	}
	var row struct {
		TreeSize int `json:"tree_size"`
	}
	require.NoError(c, json.Unmarshal([]byte(text), &row))
	return row.TreeSize
}

// holds reports whether a server holds the lease on a ledger.
func (c *cluster) holds(p *process, ledger string) bool {
	c.Helper()
	_, _, text := c.ask(http.MethodGet, p.url+"/metrics", "")
	return strings.Contains(text, fmt.Sprintf("colophon_lease_held{ledger=%q} 1\n", ledger))
}

// waitFor waits until a server holds the lease on a ledger.
func (c *cluster) waitFor(p *process, ledger string) {
	c.Helper()
	require.Eventually(c, func() bool { return c.holds(p, ledger) }, patience, 20*time.Millisecond)
}

// requireAll requires that a server shows exactly the number of records that all servers together
// have acknowledged.
func (c *cluster) requireAll(p *process, ledger string) {
	c.Helper()
	want := int(c.posted.Load()) + 1 // plus the event that created the ledger
	require.Eventually(c, func() bool { return c.size(p, ledger) >= want }, patience, 20*time.Millisecond)
	require.Equal(c, want, c.size(p, ledger))
	status, _, text := c.ask(http.MethodGet, fmt.Sprintf("%s/v1/ledgers/%s/stats", p.url, ledger), "")
	require.Equal(c, http.StatusOK, status, text)
}

// If the server that holds the lease on a ledger is killed, the other server takes over the ledger.
// After a restart, the first server forwards writes.
func killedHolder(c *cluster) {
	a, b := c.startTwo()
	c.waitFor(a, "default")
	require.False(c, c.holds(b, "default"))
	c.mustPost(a, "default")
	c.mustPost(b, "default")
	require.NoError(c, a.cmd.Process.Kill())
	a.wait()
	c.mustPost(b, "default")
	c.waitFor(b, "default")
	c.requireAll(b, "default")

	again := c.start(a.cmd.Args[3])
	c.mustPost(again, "default")
	c.requireAll(again, "default")
	c.requireAll(b, "default")
}

// If the server that holds the lease shuts down while clients write through the other server, no write
// is lost.
func cleanStop(c *cluster) {
	a, b := c.startTwo()
	var writers sync.WaitGroup
	var stop atomic.Bool
	for range 4 {
		writers.Go(func() {
			for !stop.Load() {
				c.mustPost(b, "default")
			}
		})
	}
	require.Eventually(c, func() bool { return c.posted.Load() > 20 }, patience, time.Millisecond)
	require.NoError(c, a.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(c, 0, a.wait(), "%s", a.output)
	until := c.posted.Load() + 20
	require.Eventually(c, func() bool { return c.posted.Load() > until }, patience, time.Millisecond)
	stop.Store(true)
	writers.Wait()
	c.waitFor(b, "default")
	c.requireAll(b, "default")
}

// A suspended server loses the lease. When it resumes, it cannot commit anything and forwards
// writes.
func pausedWriter(c *cluster) {
	a, b := c.startTwo()
	c.mustPost(a, "default")
	for range 3 {
		holder, other := a, b
		require.Eventually(c, func() bool {
			if c.holds(b, "default") {
				holder, other = b, a
			}
			return c.holds(holder, "default")
		}, patience, 20*time.Millisecond)
		// The writer is suspended at a random moment, possibly within a commit.
		var writers sync.WaitGroup
		var stop atomic.Bool
		for range 4 {
			writers.Go(func() {
				for !stop.Load() {
					c.mustPost(holder, "default")
				}
			})
		}
		until := c.posted.Load() + 10
		require.Eventually(c, func() bool { return c.posted.Load() > until }, patience, time.Millisecond)
		require.NoError(c, holder.cmd.Process.Signal(syscall.SIGSTOP))
		c.mustPost(other, "default")
		c.waitFor(other, "default")
		require.NoError(c, holder.cmd.Process.Signal(syscall.SIGCONT))
		c.mustPost(holder, "default")
		stop.Store(true)
		writers.Wait()
		require.False(c, holder.gone())
		c.requireAll(holder, "default")
		c.requireAll(other, "default")
	}
}

// A server that does not have the signing key follows a ledger but never takes it over.
func noKeyNoLease(c *cluster) {
	a := c.start(filepath.Join(c.TempDir(), "a"))
	b := c.start(filepath.Join(c.TempDir(), "b"), "--max-wait", "100ms")
	c.mustPost(b, "default")
	require.NoError(c, a.cmd.Process.Kill())
	a.wait()
	for range 50 {
		status, header, text := c.post(b, "default")
		require.Equal(c, http.StatusServiceUnavailable, status, text)
		require.NotEmpty(c, header.Get("Retry-After"))
		require.False(c, c.holds(b, "default"))
		time.Sleep(100 * time.Millisecond)
	}
	c.requireAll(b, "default")
	status, _, text := c.ask(http.MethodGet, b.url+"/readyz", "")
	require.Equal(c, http.StatusOK, status, text)

	// The operator copies the key.
	c.shareKeys(a.cmd.Args[3], b.cmd.Args[3])
	c.mustPost(b, "default")
	c.waitFor(b, "default")
	c.requireAll(b, "default")
}

// A server that does not hold the lease forwards every write to the lease holder, and shows the
// write immediately afterwards.
func forwarding(c *cluster) {
	a, b := c.startTwo()
	require.False(c, c.holds(b, "default"))
	record := `{"run_id":"one","payload":{"n":1},"system_prompt":"s","output":"o","model":"m","temperature":0.5,"max_tokens":16}`
	status, _, receipt := c.postRecord(b, "default", record)
	require.Equal(c, http.StatusCreated, status, receipt)
	require.Equal(c, 2, c.size(b, "default"), "the follower must show the acknowledged event")
	status, header, again := c.postRecord(b, "default", record)
	require.Equal(c, http.StatusOK, status)
	require.Equal(c, "true", header.Get("Idempotent-Replayed"))
	status, _, direct := c.postRecord(a, "default", record)
	require.Equal(c, http.StatusOK, status)
	require.JSONEq(c, direct, again)

	status, _, _ = c.ask(http.MethodGet, b.url+"/v1/ledgers/default/records/1", "")
	require.Equal(c, http.StatusOK, status)
	// A receipt for an older tree size needs a new signature, which only the holder of the lease
	// can make.
	status, _, text := c.ask(http.MethodGet, b.url+"/v1/ledgers/default/records/0/receipt?tree_size=1", "")
	require.Equal(c, http.StatusOK, status, text)

	var lines bytes.Buffer
	for i := range 2000 {
		fmt.Fprintf(&lines, `{"kind":"ipc_record","record":{"run_id":"line-%d","payload":{"n":%d},"system_prompt":"s","output":"o","model":"m","temperature":0.5,"max_tokens":16}}`+"\n", i, i)
	}
	request, err := http.NewRequestWithContext(c.Context(), http.MethodPost, b.url+"/v1/ledgers/default/batch", &lines)
	require.NoError(c, err)
	request.Header.Set("Content-Type", "application/x-ndjson")
	answer, err := http.DefaultClient.Do(request)
	require.NoError(c, err)
	text2, err := io.ReadAll(answer.Body)
	require.NoError(c, err)
	require.NoError(c, answer.Body.Close())
	require.Equal(c, 2000, strings.Count(string(text2), `"seq":`), "%.500s", text2)
	require.Equal(c, 2002, c.size(b, "default"))

	// The follower's event stream contains records that are posted through either server.
	stream, err := http.NewRequestWithContext(c.Context(), http.MethodGet, b.url+"/v1/ledgers/default/events?from=2002", nil)
	require.NoError(c, err)
	stream.Header.Set("Accept", "text/event-stream")
	events, err := http.DefaultClient.Do(stream)
	require.NoError(c, err)
	defer events.Body.Close()
	c.mustPost(a, "default")
	c.mustPost(b, "default")
	seen := 0
	for lines := bufio.NewScanner(events.Body); seen < 2 && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "id: ") {
			require.Equal(c, fmt.Sprintf("id: %d", 2002+seen), lines.Text())
			seen++
		}
	}
	require.Equal(c, 2, seen)

	// An error response from the lease holder reaches the client unchanged.
	status, _, text = c.postRecord(b, "default", `{"unknown":1}`)
	require.Equal(c, http.StatusBadRequest, status, text)
	// The follower shows the current settings, and whether the ledger is frozen.
	status, _, text = c.ask(http.MethodPut, b.url+"/v1/ledgers/default/visibility", `{"log":"public"}`)
	require.Equal(c, http.StatusOK, status, text)
	_, _, text = c.ask(http.MethodGet, b.url+"/v1/ledgers/default", "")
	require.Contains(c, text, `"log":"public"`)
	status, _, text = c.ask(http.MethodPost, b.url+"/v1/ledgers/default/freeze", ``)
	require.Equal(c, http.StatusOK, status, text)
	for _, p := range []*process{a, b} {
		status, _, text = c.post(p, "default")
		require.Equal(c, http.StatusForbidden, status, text)
	}
}

// Two servers share the ledgers equally. When one of them stops, the other takes over its ledgers.
func spread(c *cluster) {
	a, b := filepath.Join(c.TempDir(), "a"), filepath.Join(c.TempDir(), "b")
	// By these IDs alone, the first server would be the preferred one for all ledgers except ledger-1.
	c.name(a, "server-1")
	c.name(b, "server-2")
	first := c.start(a)
	names := []string{"default"}
	for i := range 5 {
		name := fmt.Sprintf("ledger-%d", i)
		status, _, text := c.ask(http.MethodPost, first.url+"/v1/ledgers", fmt.Sprintf(`{"name":%q}`, name))
		require.Equal(c, http.StatusCreated, status, text)
		names = append(names, name)
	}
	c.shareKeys(a, b)
	second := c.start(b)
	held := func() (n [2]int) {
		for _, name := range names {
			for i, p := range []*process{first, second} {
				if c.holds(p, name) {
					n[i]++
				}
			}
		}
		return n
	}
	require.Eventually(c, func() bool { return held() == [2]int{3, 3} }, patience, 100*time.Millisecond)
	for _, name := range names {
		c.mustPost(first, name)
		c.mustPost(second, name)
		require.Equal(c, 3, c.size(second, name))
	}
	require.NoError(c, second.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(c, 0, second.wait(), "%s", second.output)
	for _, name := range names {
		c.mustPost(first, name)
		c.waitFor(first, name)
	}
}
