package reference_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"colophon/internal/testing/ledgertest"
	"colophon/proofs"
	"colophon/proofs/monitor"
	"colophon/proofs/monitor/fetch"
	"colophon/proofs/replay"
)

// The reference parses the path and the query of a question into the same values as a server does.
func TestReferenceReadsNamesAsAServerDoes(t *testing.T) {
	l := ledgertest.NewPopulated(t, 5)
	url, stop := ledgertest.Serve(t, l.DataDir)
	runs := []string{"compare", ".", ".."} // names that also occur as parts of routes
	for i, name := range []string{"", ".", "..", "a/b", "/", "a%2Fb", "%", "a b", "a+b", "a?b=c&d", "a#b", ":a", "*", "é☃", "\u0000", "<&>"} {
		text, err := json.Marshal(name)
		require.NoError(t, err)
		id := fmt.Sprint("run ", i, " ", name)
		if i < len(runs) {
			id = runs[i]
		}
		run, err := json.Marshal(id)
		require.NoError(t, err)
		producer := ""
		if name != "" && name != "\u0000" { // no producer can have these names
			producer = fmt.Sprintf(`"producer":{"id":%s,"seq":1},`, text)
		}
		for path, body := range map[string]string{
			"/ipc-records":       `{"run_id":%[2]s,%[3]s"payload":{"q":"Who?"},"output":%[1]s,"model":%[1]s,"temperature":0.5,"max_tokens":9,"seed":7,"labels":{"name":%[1]s}}`,
			"/citation-sets":     `{"run_id":%[2]s,%[3]s"subject":%[1]s,"citations":[{"source_id":%[1]s,"text":"Ana keeps it.","weight":1}]}`,
			"/path-fingerprints": `{"run_id":%[2]s,%[3]s"project":%[1]s,"build":%[1]s,"route":["Start",%[1]s],"content":"Go on."}`,
		} {
			status, answer := ledgertest.Send(t, "POST", url+path, fmt.Sprintf(body, text, run, producer), "application/json")
			require.Contains(t, []int{http.StatusCreated, http.StatusUnprocessableEntity}, status, answer)
			if status != http.StatusCreated {
				t.Logf("%s %q: %s", path, name, answer)
			}
		}
	}
	stop()
	url, stop = ledgertest.Serve(t, l.DataDir) // waits until the log is indexed
	defer stop()
	key, err := proofs.ParseVerifier(l.Key)
	require.NoError(t, err)
	report, err := monitor.Run(t.Context(), monitor.Options{
		Server: fetch.Server{URL: strings.TrimSuffix(url, "/v1/ledgers/default")}, Ledger: "default", Keys: []*proofs.Verifier{key},
		AnswerChecker: replay.New(replay.Options{}), CheckContent: true, Seed: 7, Concurrency: 4,
	})
	require.NoError(t, err)
	assert.Greater(t, report.Queries, uint64(1000))
	assert.Empty(t, report.Findings)
}
