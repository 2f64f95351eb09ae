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

// Every query takes those of the common parameters that the contract has for it, and
// refuses the others: they would mean nothing.
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

// A time before all others is a bound like any other.
func TestBoundsOfTheYearOne(t *testing.T) {
	s := newServer(t)
	s.do(t, s.record(t, "complete"), http.StatusCreated)
	for query, rows := range map[string]int{"since": 1, "until": 0} {
		var list struct{ Rows []struct{} }
		s.do(t, get(recordsOf).asking("?after=1&"+query+"=0001-01-01T00:00:00Z"), http.StatusOK).decode(t, &list)
		require.Len(t, list.Rows, rows, query)
	}
}
