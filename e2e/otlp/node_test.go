package otlp_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// wantNode skips the test if Node or the packages that e2e/otlp/node needs are missing. If
// COLOPHON_REQUIRE_INTEROP is set, the test fails instead.
func wantNode(t *testing.T) {
	t.Helper()
	_, missing := exec.LookPath("node")
	if missing == nil {
		_, missing = os.Stat("node/node_modules")
	}
	if os.Getenv("COLOPHON_REQUIRE_INTEROP") != "" {
		require.NoError(t, missing, "install Node 18 or later, and run npm ci in e2e/otlp/node")
	}
	if missing != nil {
		t.Skipf("the exporters for JavaScript need Node and the packages of e2e/otlp/node (make otlp installs these): %v", missing)
	}
}

// Each generation is recorded once, whichever exporter of the JavaScript SDK sends it, although
// send.mjs sends all of them twice.
func TestNodeExporters(t *testing.T) {
	wantNode(t)
	for _, signal := range []string{"traces", "logs"} {
		for _, how := range [][]string{{"proto"}, {"proto", "gzip"}, {"http"}, {"http", "gzip"}, {"grpc"}, {"grpc", "gzip"}} {
			t.Run(fmt.Sprint(signal, " ", how), func(t *testing.T) {
				s := start(t)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				url := s.http.URL + "/v1/ledgers/default/otlp/v1/" + signal
				if how[0] == "grpc" {
					url = s.grpc.URL
				}
				arguments := append([]string{"node/send.mjs", signal, how[0], url, strconv.Itoa(count)}, how[1:]...)
				out, err := exec.CommandContext(ctx, "node", arguments...).CombinedOutput()
				require.NoError(t, err, "%s", out)
				require.EqualValues(t, 1+count, s.ledger.Head().Size)
				s.recorded(t, "chat-js")
			})
		}
	}
}

// The JavaScript program in docs/otlp.md records its generation, both when the endpoint for all signals is
// set and when only the endpoint for traces is set.
func TestNodeProgramOfTheDocument(t *testing.T) {
	wantNode(t)
	document, err := os.ReadFile("../../docs/otlp.md")
	require.NoError(t, err)
	_, program, found := strings.Cut(string(document), "\n```js\n")
	require.True(t, found)
	program, _, found = strings.Cut(program, "\n```\n")
	require.True(t, found)
	file := filepath.Join("node", "document.test.mjs") // Node looks for packages relative to the file
	require.NoError(t, os.WriteFile(file, []byte(program), 0o600))
	t.Cleanup(func() { _ = os.Remove(file) })
	for variable, path := range map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "/otlp", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "/otlp/v1/traces"} {
		t.Run(variable, func(t *testing.T) {
			s := start(t)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			command := exec.CommandContext(ctx, "node", file)
			command.Env = append(os.Environ(), variable+"="+s.http.URL+"/v1/ledgers/default"+path)
			out, err := command.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Empty(t, out)
			require.EqualValues(t, 2, s.ledger.Head().Size)
		})
	}
}
