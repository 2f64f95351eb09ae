package reference

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// described is an operation in the OpenAPI document that the reference page loads.
type described struct {
	OperationID  string `json:"operationId"`
	Description  string
	Irreversible bool `json:"x-irreversible"`
	Samples      []struct{ Source string }
}

// operations returns the operations of the contract, keyed by "METHOD path".
func operations(t *testing.T) map[string]described {
	t.Helper()
	text, err := OpenAPIJSON(&http.Request{}, false)
	require.NoError(t, err)
	var c struct {
		Servers []struct{ URL string }
		Paths   map[string]map[string]json.RawMessage
	}
	require.NoError(t, json.Unmarshal(text, &c))
	require.Equal(t, documentedServer, c.Servers[0].URL)
	all := make(map[string]described)
	for path, item := range c.Paths {
		for method, raw := range item {
			if method == "parameters" {
				continue
			}
			var o struct {
				described
				Samples []struct{ Source string } `json:"x-codeSamples"`
			}
			require.NoError(t, json.Unmarshal(raw, &o))
			o.described.Samples = o.Samples
			all[strings.ToUpper(method)+" "+path] = o.described
		}
	}
	return all
}

func TestEveryOperationHasACommand(t *testing.T) {
	all := operations(t)
	require.Greater(t, len(all), 60)
	for name, o := range all {
		require.Len(t, o.Samples, 1, name)
		require.NotRegexp(t, `[{}]|=[&']`, regexp.MustCompile(`'http[^']*'`).FindString(o.Samples[0].Source), "%s: a parameter without an example", name)
	}
	const address = "'http://127.0.0.1:8080/v1/ledgers/default"
	for name, want := range map[string]string{
		"GET /v1/ledgers/{ledger}/records/{seq}":        "curl -sS " + address + "/records/1'",
		"POST /v1/ledgers/{ledger}/freeze":              "curl -sS -X POST 'http://127.0.0.1:8080/v1/ledgers/evaluation/freeze'",
		"POST /v1/ledgers/{ledger}/records/{seq}/state": "curl -sS " + address + "/records/1/state' \\\n  -H 'Content-Type: application/json' --data-binary @- <<'EOF'\n{\n",
		"PUT /v1/ledgers/{ledger}/sources/{source_id}":  "curl -sS -X PUT " + address + "/sources/harbour-records' \\\n",
		"GET /v1/ledgers/{ledger}/log/tile/{path}":      " --output file",
	} {
		require.Contains(t, all[name].Samples[0].Source, want)
	}
	lines := strings.Split(all["POST /v1/ledgers/{ledger}/batch"].Samples[0].Source, "\n")
	for _, line := range lines[2 : len(lines)-1] {
		require.True(t, json.Valid([]byte(line)), line)
	}
}

// The descriptions of irreversible operations say that they cannot be undone. The sample command
// that erases many records is a dry run.
func TestIrreversibleOperationsWarn(t *testing.T) {
	var warned []string
	for _, o := range operations(t) {
		if strings.Contains(o.Description, "**This cannot be undone.**") {
			require.True(t, o.Irreversible, o.OperationID)
			warned = append(warned, o.OperationID)
		}
		if o.OperationID == "postRedactions" {
			require.Contains(t, o.Samples[0].Source, `"dry_run": true`)
		}
	}
	require.ElementsMatch(t, []string{"deleteContent", "postRedactions", "freezeLedger", "putVisibility", "changeKeys"}, warned)
}

func TestCommandsAddressTheServerOfTheRequest(t *testing.T) {
	for host, want := range map[string]string{
		"ledger.example:8443": "http://ledger.example:8443", "[::1]:80": "http://[::1]:80",
		"": documentedServer, "a'$(b)": documentedServer, "<b>": documentedServer,
	} {
		text, err := OpenAPIJSON(&http.Request{Host: host}, false)
		require.NoError(t, err)
		require.Contains(t, string(text), "curl -sS '"+want+"/v1/ledgers'")
	}
	text, err := OpenAPIJSON(&http.Request{Host: "a", Header: http.Header{"X-Forwarded-Proto": {"https"}}}, true)
	require.NoError(t, err)
	require.Contains(t, string(text), `curl -sS -H \"Authorization: Bearer $COLOPHON_TOKEN\" 'https://a/v1/ledgers'`)
	require.True(t, json.Valid(text))
}

func TestBrokenContractsAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"":        "0 documents",
		"info: [": "yaml",
		"paths: {/a: {post: {operationId: a, requestBody: {content: {application/json: {}}}}}}": "POST /a: the request body of type application/json has no example",
	} {
		_, err := withSamples([]byte(text))
		require.ErrorContains(t, err, want, "%q", text)
	}
}
