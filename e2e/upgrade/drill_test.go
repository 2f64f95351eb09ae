// Package upgrade_test performs a rolling upgrade of servers that share a database, replacing one
// after another while clients write.
package upgrade_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/testing/locked"
	"colophon/ledger"
	"colophon/proofs"
	"colophon/storage/postgres/postgrestest"
)

// fromVariable is the name of the environment variable that selects the commit from which the old servers are
// built. If it is not set, the old servers are built from the same source, with a different version.
const fromVariable = "DRILL_FROM"

// patience is the time limit for each wait. The tests do not depend on its exact value.
const patience = time.Minute

// build builds the command from the source in dir, with the given version, and returns its path.
func build(t *testing.T, dir, version string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "colophon")
	command := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-X main.version="+version, "-o", program, "./cmd/colophon")
	command.Dir, command.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// programs builds the old and the new version of the command.
func programs(t *testing.T) (old, latest string) {
	t.Helper()
	top, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	source, commit := top, os.Getenv(fromVariable)
	if commit != "" {
		source = filepath.Join(t.TempDir(), "source")
		git := func(arguments ...string) {
			out, err := exec.Command("git", append([]string{"-C", top}, arguments...)...).CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
		git("worktree", "add", "--quiet", "--detach", source, commit)
		t.Cleanup(func() { git("worktree", "remove", "--force", source) })
	}
	return build(t, source, "old"), build(t, top, "new")
}

// node is a data folder and the server process that uses it.
type node struct {
	*testing.T
	data    string
	environ []string
	command *exec.Cmd
	said    *locked.Buffer
	url     atomic.Pointer[string] // nil while the server is not running
}

var serves = regexp.MustCompile(`server +(http://[0-9.:]+)`)

// start runs the given program on the node's data folder and waits until the server is ready.
func (n *node) start(program string) {
	n.Helper()
	n.said = new(locked.Buffer)
	n.command = exec.Command(program, "serve", "--data", n.data, "--listen", "127.0.0.1:0")
	n.command.Env, n.command.Stdout, n.command.Stderr = n.environ, n.said, n.said
	require.NoError(n, n.command.Start())
	require.Eventually(n, func() bool {
		found := serves.FindStringSubmatch(n.said.String())
		if found != nil {
			n.url.Store(&found[1])
		}
		return found != nil
	}, patience, 10*time.Millisecond, "%s", n.said)
	require.Eventually(n, func() bool { return strings.HasPrefix(n.get("/readyz"), "ready") }, patience, 20*time.Millisecond)
}

// stop sends SIGTERM to the server and waits until it has exited.
func (n *node) stop() {
	n.Helper()
	require.NoError(n, n.command.Process.Signal(syscall.SIGTERM))
	err := n.command.Wait()
	n.url.Store(nil)
	require.NoError(n, err, "%s", n.said)
}

// get returns the body of the response if its status is 200, and "" otherwise.
func (n *node) get(path string) string {
	answer, err := http.Get(*n.url.Load() + path)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return ""
	}
	return string(text)
}

// writes reports whether the server holds the lease on the ledger.
func (n *node) writes() bool {
	return strings.Contains(n.get("/metrics"), `colophon_lease_held{ledger="default"} 1`)
}

// balancer is an http.RoundTripper that sends each request to the next running server, as a load
// balancer would. It does not resend a request that may have reached a server; the client does that.
type balancer struct {
	nodes []*node
	turn  atomic.Uint64
}

func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	for range b.nodes {
		if url := b.nodes[b.turn.Add(1)%uint64(len(b.nodes))].url.Load(); url != nil {
			sent := r.Clone(r.Context())
			sent.URL.Host = strings.TrimPrefix(*url, "http://")
			return http.DefaultTransport.RoundTrip(sent)
		}
	}
	return nil, fmt.Errorf("no server is running")
}

// writers write records through the balancer until stop is set.
type writers struct {
	sync.WaitGroup
	stop atomic.Bool

	mu    sync.Mutex
	seqs  []uint64      // seqs of the acknowledged records, in the order of acknowledgement
	last  time.Time     // time of the last acknowledgement
	pause time.Duration // longest time without an acknowledgement since the last call to longest
}

const writerCount = 4

func (w *writers) begin(t *testing.T, c *client.Client) {
	w.last = time.Now()
	for i := range writerCount {
		w.Go(func() {
			for n := 0; !w.stop.Load(); n++ {
				receipt, err := c.Ledger("default").Records.Post(context.WithoutCancel(t.Context()), record(i, n), nil)
				if err != nil {
					t.Errorf("a write failed despite retries: %v", err)
					return
				}
				w.note(receipt.Seq)
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
}

func record(writer, n int) *wire.IPCRecord {
	prompt, out := "s", "o"
	return &wire.IPCRecord{
		CommonRecordMembers: wire.CommonRecordMembers{RunID: fmt.Sprintf("run-%d-%d", writer, n)},
		Payload:             []byte(`{"n":1}`), SystemPrompt: &prompt, Output: &out, Model: "m",
	}
}

func (w *writers) note(seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seqs = append(w.seqs, seq)
	w.pause, w.last = max(w.pause, time.Since(w.last)), time.Now()
}

// longest returns the longest time without an acknowledgement since the previous call, and the
// number of records acknowledged so far.
func (w *writers) longest() (pause time.Duration, acknowledged int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pause, w.pause = w.pause, 0
	return pause, len(w.seqs)
}

// waitFor waits until the given number of further records have been acknowledged. Like longest, it
// restarts the measurement of the longest time without an acknowledgement.
func (w *writers) waitFor(t *testing.T, more int) {
	t.Helper()
	_, begun := w.longest()
	require.Eventually(t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.seqs) >= begun+more || t.Failed()
	}, patience, 5*time.Millisecond)
}

// rotate starts a rotation to the next key, which all servers received during the upgrade. It then
// stops the server that writes the ledger, so that another server must take over and sign with both
// keys.
func (w *writers) rotate(t *testing.T, c *client.Client, nodes []*node, program string, next *proofs.Signer) {
	t.Helper()
	_, err := c.Ledger("default").AdvanceKeyRotation(t.Context(), "rotate")
	require.NoError(t, err)
	w.waitFor(t, 50)
	holder := slices.IndexFunc(nodes, (*node).writes)
	require.GreaterOrEqual(t, holder, 0)
	nodes[holder].stop()
	w.waitFor(t, 50)
	for _, n := range slices.Delete(slices.Clone(nodes), holder, holder+1) {
		require.Contains(t, n.get("/v1/ledgers/default/log/key"), next.Verifier().String())
	}
	nodes[holder].start(program)
}

// Three servers that share a key, as in deploy/kubernetes/servers, start at the same time and are
// replaced one after another. The server that writes the ledger hands it over before it exits.
// Every write succeeds, some after retries, and each acknowledged record is in the log exactly
// once. During the upgrade, all servers are also given the next key.
func TestRollingUpgrade(t *testing.T) {
	database := postgrestest.Start(t)
	old, latest := programs(t)
	store := database.URL("search_path", database.CreateSchema(t))
	signer, err := proofs.GenerateKey().Signer("log.example/default")
	require.NoError(t, err)
	next, err := proofs.GenerateKey().Signer("log.example/default")
	require.NoError(t, err)
	environ := append(os.Environ(), "COLOPHON_STORE="+store, ledger.KeyEnvVar("default")+"="+signer.Secret(), "GOMEMLIMIT=1GiB")

	var nodes []*node
	var starts sync.WaitGroup
	for i := range 3 {
		n := &node{T: t, data: filepath.Join(t.TempDir(), fmt.Sprintf("server-%d", i)), environ: environ}
		nodes = append(nodes, n)
		starts.Go(func() { n.start(old) })
	}
	starts.Wait()
	t.Cleanup(func() {
		for _, n := range nodes {
			if n.command.ProcessState == nil {
				_ = n.command.Process.Kill()
				_ = n.command.Wait()
			}
			if t.Failed() {
				t.Logf("%s:\n%s", n.data, n.said)
			}
		}
	})
	require.False(t, t.Failed())
	c, err := client.New("http://localhost", client.WithHTTPClient(&http.Client{Transport: &balancer{nodes: nodes}}),
		client.WithRetryPolicy(client.RetryPolicy{MaxAttempts: 100, FirstPause: 20 * time.Millisecond, LongestPause: 2 * time.Second}),
		client.WithVerifierKeys("default", signer.Verifier().String()))
	require.NoError(t, err)
	var w writers
	w.begin(t, c)
	w.waitFor(t, 200)

	passed := 0
	for i, n := range nodes {
		wrote := n.writes()
		begun := time.Now()
		n.stop()
		stopped := time.Since(begun)
		if wrote {
			require.Contains(t, n.said.String(), "passed the ledger to another server", "the server must pass the ledger on")
			passed++
		}
		w.waitFor(t, 100)
		without, _ := w.longest()
		n.environ = append(slices.Clone(environ), ledger.KeyEnvVar("default")+"="+signer.Secret()+" "+next.Secret())
		n.start(latest)
		require.Contains(t, n.get("/version"), `"new"`)
		w.waitFor(t, 100)
		with, acknowledged := w.longest()
		t.Logf("server %d (wrote the ledger: %v) stopped in %v; longest time without an acknowledged write: %v while it stopped, %v while it restarted; %d acknowledged",
			i, wrote, stopped.Round(time.Millisecond), without.Round(time.Millisecond), with.Round(time.Millisecond), acknowledged)
	}
	require.Positive(t, passed, "one of the servers must have written the ledger")
	w.rotate(t, c, nodes, latest, next)
	w.stop.Store(true)
	w.Wait()
	require.False(t, t.Failed())

	slices.Sort(w.seqs)
	require.Equal(t, len(w.seqs), len(slices.Compact(slices.Clone(w.seqs))), "no two records may have the same seq")
	for _, n := range nodes {
		want := fmt.Sprintf(`"tree_size":%d,`, len(w.seqs)+2) // the records, plus the events for the creation of the ledger and the key rotation
		require.Eventually(t, func() bool { return strings.Contains(n.get("/v1/ledgers/default"), want) }, patience, 20*time.Millisecond,
			"the server must show each acknowledged record once: want %s, got %s", want, n.get("/v1/ledgers/default"))
	}
	for _, n := range nodes {
		n.stop()
	}
	check := exec.Command(latest, "fsck", "--data", nodes[0].data, "--key", signer.Verifier().String())
	check.Env = nodes[0].environ
	out, err := check.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
