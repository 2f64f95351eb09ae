package gate

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/client"
)

// wholeSets returns a collector whose server answers requests for texts with handle, and two sets of
// ten runs each that are compared as wholes.
func wholeSets(t *testing.T, handle http.HandlerFunc) (*collector, *ComparedRuns) {
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	to, err := client.New(server.URL)
	require.NoError(t, err)
	one := new(Case)
	c := &collector{ledger: to.Ledger("default")}
	for i := range 10 {
		one.Baseline = append(one.Baseline, Run{Seq: uint64(i)})
		one.Candidate = append(one.Candidate, Run{Seq: uint64(10 + i)})
	}
	for _, run := range one.runs() {
		c.runs[0] = append(c.runs[0], found{Run: *run, stored: true})
	}
	return c, &ComparedRuns{ComparesWholeSets: true, Cases: []*Case{one}}
}

// The texts of whole sets are read concurrently.
func TestWholeSetsAreReadConcurrently(t *testing.T) {
	var arrived atomic.Int32
	both := make(chan struct{})
	c, d := wholeSets(t, func(w http.ResponseWriter, r *http.Request) {
		if arrived.Add(1) == 2 {
			close(both)
		}
		select { // the first request is answered only after the second has arrived
		case <-both:
		case <-r.Context().Done():
		}
		_, _ = fmt.Fprint(w, "three words here")
	})
	require.NoError(t, c.measure(t.Context(), d))
	require.Len(t, d.measured(), 1)
	for _, run := range d.Cases[0].runs() {
		require.Equal(t, 3, run.words)
	}
}

// If a text may not be read or has been erased, no texts are compared.
func TestWholeSetsWithoutTexts(t *testing.T) {
	for status, reason := range map[int]string{http.StatusForbidden: noContentScope, http.StatusGone: ""} {
		c, d := wholeSets(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/ledgers/default/records/7/content/output" {
				w.WriteHeader(status)
			}
		})
		require.NoError(t, c.measure(t.Context(), d))
		require.Empty(t, d.measured())
		require.Equal(t, reason, d.NoTextsReason)
	}
}
