package rerun_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/rerun"
)

// A request as text names the environment variable that holds the key, but does not contain the
// key.
func TestRequestAsText(t *testing.T) {
	var out bytes.Buffer
	request := &rerun.Request{URL: "http://127.0.0.1/v1", Body: []byte(`{"seed":7}`)}
	require.NoError(t, request.WriteText(&out, &rerun.Endpoint{APIKey: "secret", APIKeyEnvVar: "OTHER"}))
	require.Equal(t, "POST http://127.0.0.1/v1\nContent-Type: application/json\nAuthorization: Bearer $OTHER\n\n{\n  \"seed\": 7\n}\n", out.String())
	out.Reset()
	require.NoError(t, request.WriteText(&out, new(rerun.Endpoint)))
	require.NotContains(t, out.String(), "Authorization")
}

// A report prints each distinct summary once, with the number of runs that have it.
func TestReportAsText(t *testing.T) {
	var out bytes.Buffer
	report := &rerun.Report{Summary: "Not reproducible.", Runs: []rerun.Run{{Summary: "It changed."}, {}, {Summary: "It changed."}, {Summary: "A\x1bb."}}}
	require.NoError(t, report.WriteText(&out))
	require.Equal(t, "\n1 run: \"A\\x1bb.\"\n2 runs: It changed.\n\nNot reproducible.\n", out.String())
	out.Reset()
	report.Runs = nil
	require.NoError(t, report.WriteText(&out))
	require.Equal(t, "Not reproducible.\n", out.String())
}

func TestRunAsCells(t *testing.T) {
	require.Equal(t, []string{"7", "no", "ab", "seed"}, (&rerun.Run{Seq: 7, OutputHash: "ab", Cause: "seed"}).Cells())
	require.Equal(t, []string{"7", "yes", "ab", "-"}, (&rerun.Run{Seq: 7, OutputHash: "ab", OutputMatches: true}).Cells())
}
