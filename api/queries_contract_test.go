package api_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

// Every query accepts the common parameters that the contract lists for it, and refuses all others.
func TestQueriesTakeTheCommonParametersOfTheContract(t *testing.T) {
	s := newServer(t)
	s.do(t, s.record(t, "complete"), http.StatusCreated)
	queries := 0
	for route, item := range s.Paths.Map() {
		if item.Get == nil || item.Get.Parameters.GetByInAndName(openapi3.ParameterInQuery, "as_of") == nil {
			continue
		}
		queries++
		path := strings.Replace(route, "{ledger}", "default", 1)
		for _, p := range slices.Concat(item.Get.Parameters, item.Parameters) {
			if p.Value.In == openapi3.ParameterInPath {
				path = strings.Replace(path, "{"+p.Value.Name+"}", fmt.Sprint(p.Value.Example), 1)
			}
		}
		values := map[string]string{"after": "0", "limit": "1", "cursor": "", "state": "live", "proofs": "false"}
		for _, name := range slices.Sorted(maps.Keys(values)) {
			response, err := s.client.Get(s.url + path + "?" + name + "=" + values[name])
			require.NoError(t, err)
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			known := item.Get.Parameters.GetByInAndName(openapi3.ParameterInQuery, name) != nil
			require.Equal(t, !known, strings.Contains(string(body), name+": unknown query parameter"), "%s %s: %s", route, name, body)
		}
	}
	require.Greater(t, queries, 25)
}

// A parameter with an empty value is refused, because the value usually comes from an unset
// variable. Only filters by names that can be empty in a record, such as model, accept an empty
// value.
func TestEmptyParametersAreRefused(t *testing.T) {
	s := newServer(t)
	s.do(t, s.record(t, "complete"), http.StatusCreated)
	asked := 0
	nameless := []string{"model", "ollama_build_hash", "subject", "project", "label:{name}", "audit_mode", "verifier_method"}
	for route, item := range s.Paths.Map() {
		if item.Get == nil {
			continue
		}
		k := get(route)
		for _, p := range slices.Concat(item.Get.Parameters, item.Parameters) {
			if p.Value.In == openapi3.ParameterInPath && p.Value.Name != "ledger" {
				k.path[p.Value.Name] = fmt.Sprint(p.Value.Example)
			}
		}
		if _, ofRecord := k.path["seq"]; ofRecord {
			k.path["seq"] = "1"
		}
		for _, p := range item.Get.Parameters {
			if p.Value.In != openapi3.ParameterInQuery || route == recordsOf && slices.Contains(nameless, p.Value.Name) ||
				(route == prefix+"/drift/timeline" || route == prefix+"/run-dags") && slices.Contains(nameless, p.Value.Name) {
				continue
			}
			name := strings.Replace(p.Value.Name, "{name}", "answer", 1)
			var refused struct {
				Errors []struct{ Pointer string }
			}
			s.send(t, k.asking("?"+name+"="), http.StatusBadRequest).decode(t, &refused)
			require.Equal(t, "/"+name, refused.Errors[0].Pointer, route)
			asked++
		}
	}
	require.Greater(t, asked, 150)
	s.send(t, post(ipc, goodIPC).asking("?derive="), http.StatusBadRequest)
	for _, filter := range []string{`"source_id":""`, `"kind":"ipc_record","until":""`} { // an empty until would mean no limit
		s.send(t, post(prefix+"/redactions", `{"reason":"r","dry_run":true,"filter":{`+filter+`}}`), http.StatusUnprocessableEntity)
	}
	// For the following filters, an empty value finds records with an empty name.
	s.do(t, post(ipc, `{"labels":{"note":""},`+strings.Replace(goodIPC[1:], `"m"`, `""`, 1)), http.StatusCreated)
	s.do(t, post(prefix+"/citation-sets", `{"subject":"","citations":[]}`), http.StatusCreated)
	s.do(t, post(prefix+"/path-fingerprints", `{"project":"","route":["a"]}`), http.StatusCreated)
	for name, seq := range map[string]string{"label:note": "2", "model": "2", "subject": "3", "project": "4"} {
		require.Equal(t, seq, s.records(t, get(recordsOf).asking("?"+name+"=")).seqs(), name)
	}
	s.do(t, get(prefix+"/drift/timeline").asking("?model="), http.StatusOK)
}

// The earliest time that RFC 3339 can express is a valid value of since and until.
func TestTimesOfTheYearOneAreValid(t *testing.T) {
	s := newServer(t)
	s.do(t, s.record(t, "complete"), http.StatusCreated)
	for query, rows := range map[string]int{"since": 1, "until": 0} {
		var list struct{ Rows []struct{} }
		s.do(t, get(recordsOf).asking("?after=1&"+query+"=0001-01-01T00:00:00Z"), http.StatusOK).decode(t, &list)
		require.Len(t, list.Rows, rows, query)
	}
}
