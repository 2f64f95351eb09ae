package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/internal/remote"
)

// clientOf is a client of a server that a handler is.
func clientOf(t testing.TB, handler http.HandlerFunc) *httpClient {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	asked, err := newClient(someDoctor(t).Console, remote.Options{URL: server.URL})
	require.NoError(t, err)
	return asked
}

func TestAskNamesWhatAnswers(t *testing.T) {
	stranger := clientOf(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) })
	require.ErrorContains(t, ask(t.Context(), stranger, stranger).err, "no colophon server")
	broken := clientOf(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	require.ErrorContains(t, ask(t.Context(), broken, broken).err, "502")
}

func TestGrowthIsThatOfTheLastWeek(t *testing.T) {
	// One event an hour for a long time, then ten.
	const slow, quick = 1000, 840
	week := doctorNow.AddDate(0, 0, -7)
	timeOf := func(seq int) time.Time {
		if seq < slow {
			return week.Add(time.Duration(seq-slow) * time.Hour)
		}
		return week.Add(time.Duration(seq-slow) * time.Hour / 5)
	}
	requests := 0
	asked := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		requests++
		seq, err := strconv.Atoi(r.URL.Query().Get("from"))
		if err != nil || r.URL.Path != "/v1/ledgers/default/events" || r.URL.Query().Get("limit") != "1" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, `{"seq":%d,"event_hash":"","entry":"","event":{"time":%q}}`+"\n", seq, timeOf(seq).Format(time.RFC3339Nano))
	})
	l := ledgerAnswers{ledgerInfo: ledgerInfo{Name: "default", TreeSize: slow + quick, Created: timeOf(0)}}
	perDay, err := l.growth(t.Context(), asked, doctorNow)
	require.NoError(t, err)
	require.InDelta(t, quick/7.0, perDay, 0.01)
	require.LessOrEqual(t, requests, 11, "a search, not a walk")

	l.Created = doctorNow.Add(-time.Hour)
	perDay, err = l.growth(t.Context(), asked, doctorNow)
	require.NoError(t, err)
	require.Zero(t, perDay, "a ledger that was just made says nothing")

	l = ledgerAnswers{ledgerInfo: ledgerInfo{Name: "other", TreeSize: 10, Created: timeOf(0)}}
	_, err = l.growth(t.Context(), asked, doctorNow)
	require.ErrorContains(t, err, "400")
}
