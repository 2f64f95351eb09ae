package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/internal/remote"
	"colophon/internal/testing/ledgertest"
	"colophon/ledger"
)

// childOfAudit is the environment variable that passes the arguments of the audit to
// TestAuditChild, as a JSON array.
const childOfAudit = "COLOPHON_TEST_AUDIT"

// childMemory is the text that precedes the peak memory, in KiB, in the child's output.
const childMemory = "peak memory: "

// TestAuditChild is not a test. It is the entry point of the child processes that
// TestMemoryIsBounded starts.
func TestAuditChild(t *testing.T) {
	line, isChild := os.LookupEnv(childOfAudit)
	if !isChild {
		t.Skip("runs only as a child process of TestMemoryIsBounded")
	}
	var args []string
	require.NoError(t, json.Unmarshal([]byte(line), &args))
	c := cli.New(strings.NewReader(""), os.Stdout, os.Stderr, func(string) (string, bool) { return "", false })
	code := auditCommand(context.Background(), c, args...)
	status, err := os.ReadFile("/proc/self/status") // the rusage of a child would include its parent's memory
	require.NoError(t, err)
	_, most, _ := strings.Cut(string(status), "VmHWM:")
	fmt.Fprintf(os.Stderr, "\n%s%s\n", childMemory, strings.Fields(most)[0])
	os.Exit(code)
}

// The audit uses at most 512 MiB and reports what is wrong, whatever a server sends.
func TestMemoryIsBounded(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("the test sends gigabytes, and reads /proc")
	}
	const limit = 512 << 10 // KiB
	w := ledgertest.New(t, 100, 0, 0)
	honest, stop := ledgertest.Serve(t, w.DataDir)
	defer stop()
	rows := []byte(`{"as_of":` + cli.FormatUint(w.Size) + `,"rows":[` + strings.Repeat(`{"seq":1,"kind":"ipc_record"},`, 2_000_000) + `{}]}`)
	var members strings.Builder
	fmt.Fprintf(&members, `{"as_of":%d,"rows":[]`, w.Size)
	for i := range 3_000_000 {
		fmt.Fprintf(&members, `,"%x":1`, i)
	}
	members.WriteByte('}')
	nested := []byte(`{"as_of":` + cli.FormatUint(w.Size) + `,"rows":[` + strings.Repeat(`[1,`, 100_000))
	one := []byte(`{"as_of":` + cli.FormatUint(w.Size) + `,"rows":["` + strings.Repeat("x", maxAnswer-100) + `"]}`)
	for name, lie := range map[string]struct {
		path string
		body []byte
		end  bool
		code int
	}{
		"rows":               {"/", rows, true, 44},
		"members":            {"/", []byte(members.String()), true, 44},
		"without end":        {"/", make([]byte, 1<<20), false, 44},
		"nested":             {"/", nested, true, 44},
		"as long as allowed": {"/", one, true, 44},
		"metrics":            {"metrics", []byte(strings.Repeat("colophon_ledger_records_total{ledger=\"default\",kind=\"x\"} 1\n", 1_000_000)), true, 45},
		"short metrics":      {"metrics", []byte(strings.Repeat("a 1\n", 10_000_000)), true, 45},
		"receipts":           {"/receipt", []byte(strings.Repeat(`[1,`, 10_000_000)), true, 46},
	} {
		t.Run(name, func(t *testing.T) {
			base, err := url.Parse(honest)
			require.NoError(t, err)
			server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
				about := strings.Contains(r.URL.Path, lie.path) && (lie.path != "/" || r.URL.Path != "/metrics")
				if !about || strings.Contains(r.URL.Path, "/log/") {
					r.URL.Scheme, r.URL.Host, r.RequestURI, r.Host = base.Scheme, base.Host, "", base.Host
					response, err := http.DefaultTransport.RoundTrip(r)
					if err != nil {
						return
					}
					defer response.Body.Close()
					for name, values := range response.Header {
						answer.Header()[name] = values
					}
					answer.WriteHeader(response.StatusCode)
					_, _ = io.Copy(answer, response.Body)
					return
				}
				answer.Header().Set("Content-Type", "application/json")
				if !lie.end {
					endless(answer, lie.body)
					return
				}
				_, _ = answer.Write(lie.body)
			}))
			defer server.Close()
			args := []string{server.URL + remote.LedgerPath(ledger.DefaultName), "--key", w.Key, "--receipts", "4", "--json"}
			if lie.code != 46 {
				args = append(args, "--replay-index", "--sample", "2")
			}
			line, err := json.Marshal(args)
			require.NoError(t, err)
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAuditChild$")
			child.Env = append(os.Environ(), childOfAudit+"="+string(line))
			output, _ := child.CombinedOutput()
			require.Equal(t, lie.code, child.ProcessState.ExitCode(), "%.2000s", output)
			_, most, found := strings.Cut(string(output), childMemory)
			require.True(t, found)
			used, err := strconv.Atoi(strings.TrimSpace(most))
			require.NoError(t, err)
			t.Logf("%d MiB, %v", used>>10, child.ProcessState.UserTime())
			require.Less(t, used, limit)
		})
	}
}
