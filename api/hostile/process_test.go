package hostile_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"colophon/internal/testing/locked"
)

// process is a server with its own data folder.
type process struct {
	command *exec.Cmd
	data    string
	address string        // host:port
	token   string        // a token that permits everything; empty if the server requires no credentials
	log     locked.Buffer // the server's standard error
}

// startServer starts a server on a data folder, with small caches. The server runs until the test
// ends.
func startServer(t *testing.T, data string, credentials *credentials) *process {
	t.Helper()
	return startServerIn(t, data, credentials, nil, "--bad-request-limit", "1000000", "--cache", strconv.Itoa(databaseCache), "--index-cache", strconv.Itoa(indexMemory))
}

// startServerIn is like startServer, but also sets environment variables, and passes the given
// flags instead of the usual ones.
func startServerIn(t *testing.T, data string, credentials *credentials, environment []string, flags ...string) *process {
	t.Helper()
	p := &process{data: data}
	arguments := append([]string{"serve", "--data", data, "--listen", "127.0.0.1:0", "--log-level", "debug"}, flags...)
	if credentials != nil {
		p.token = credentials.all
		arguments = append(arguments, "--failed-auth-limit", "1000000") // otherwise, most requests would be answered with 429
	}
	p.command = exec.Command(binary, arguments...)
	p.command.Env = append(os.Environ(), environment...)
	p.command.Stderr = &p.log
	banner, err := p.command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.command.Start())
	t.Cleanup(func() {
		if p.command.ProcessState == nil { // the process is still running if the test has failed
			_ = p.command.Process.Kill()
			_ = p.command.Wait()
		}
	})
	for lines := bufio.NewScanner(banner); p.address == "" && lines.Scan(); {
		if name, at, found := strings.Cut(strings.TrimSpace(lines.Text()), " "); found && name == "server" {
			server, err := url.Parse(strings.TrimSpace(at))
			require.NoError(t, err)
			p.address = server.Host
		}
	}
	require.NotEmpty(t, p.address, "the server did not start: %s", &p.log)
	go func() { _, _ = io.Copy(io.Discard, banner) }() // keeps the server from blocking on its output
	return p
}

// stop stops the server with SIGTERM. The server must exit cleanly.
func (p *process) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.command.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.command.Wait(), "%s", &p.log)
}

// run runs a command of the colophon binary, which must succeed, and returns its standard output.
func run(t *testing.T, arguments ...string) string {
	t.Helper()
	var out, messages bytes.Buffer
	command := exec.Command(binary, arguments...)
	command.Stdout, command.Stderr = &out, &messages
	require.NoError(t, command.Run(), "colophon %s\n%s%s", strings.Join(arguments, " "), &out, &messages)
	return out.String()
}

// send makes an ordinary request, requires the given response status, and returns the body of the
// response.
func (p *process) send(t *testing.T, method, path, body string, status int) []byte {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+p.address+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	if p.token != "" {
		r.Header.Set("Authorization", "Bearer "+p.token)
	}
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, status, response.StatusCode, "%s %s: %s", method, path, answer)
	return answer
}

// families returns the server's metrics, keyed by name.
func (p *process) families(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	found, err := parser.TextToMetricFamilies(bytes.NewReader(p.send(t, http.MethodGet, "/metrics", "", http.StatusOK)))
	require.NoError(t, err)
	return found
}

// openOutsideData lists the files that the server has open. It omits the databases' files, whose
// number depends on the stored data, unless they have been deleted. The list is empty if the system
// does not report open files.
func (p *process) openOutsideData(t *testing.T) (open []string) {
	t.Helper()
	folder := fmt.Sprintf("/proc/%d/fd", p.command.Process.Pid)
	entries, err := os.ReadDir(folder)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	for _, e := range entries {
		to, err := os.Readlink(filepath.Join(folder, e.Name()))
		if err != nil {
			continue // the file has since been closed
		}
		held := strings.HasPrefix(to, filepath.Join(p.data, "db")) || strings.HasPrefix(to, filepath.Join(p.data, "index"))
		if !held || strings.HasSuffix(to, "(deleted)") {
			open = append(open, to)
		}
	}
	return open
}
