package api

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/keystore"
	questions "colophon/ledger/query"
	"colophon/ledger/record"
	"colophon/storage"
	"colophon/storage/memory"
)

// families holds the metric families that /metrics returns, keyed by name.
type families map[string]*dto.MetricFamily

func parseMetrics(t testing.TB, text io.Reader) families {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	found, err := parser.TextToMetricFamilies(text)
	require.NoError(t, err)
	return found
}

func (s *service) metrics() families {
	s.t.Helper()
	return parseMetrics(s.t, strings.NewReader(string(s.get(s.http.URL+"/metrics").want(http.StatusOK).body)))
}

// value returns the value of the series that has exactly the given labels, which are alternating
// names and values. For a histogram, it returns the number of observations. found is false if there
// is no such series.
func (f families) value(name string, labels ...string) (value float64, found bool) {
	for _, m := range f[name].GetMetric() {
		if !carries(m, labels) {
			continue
		}
		switch {
		case m.Counter != nil:
			return m.Counter.GetValue(), true
		case m.Gauge != nil:
			return m.Gauge.GetValue(), true
		case m.Histogram != nil:
			return float64(m.Histogram.GetSampleCount()), true
		}
	}
	return 0, false
}

func carries(m *dto.Metric, labels []string) bool {
	if len(m.GetLabel()) != len(labels)/2 {
		return false
	}
	for i := 0; i < len(labels); i += 2 {
		found := false
		for _, l := range m.GetLabel() {
			found = found || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
		}
		if !found {
			return false
		}
	}
	return true
}

// require checks the value of a series.
func (f families) require(t testing.TB, want float64, name string, labels ...string) {
	t.Helper()
	got, found := f.value(name, labels...)
	require.True(t, found, "no %s with %s", name, labels)
	require.Equal(t, want, got, "%s with %s", name, labels)
}

const ipcRoute = "/v1/ledgers/:ledger/ipc-records"

func TestMetricsCountRequests(t *testing.T) {
	s := start(t)
	s.post("/ipc-records", ipcBody("a", "x")).want(http.StatusCreated)
	s.post("/ipc-records", ipcBody("b", "x")).want(http.StatusCreated)
	s.post("/ipc-records", ipcBody("b", "y")).want(http.StatusConflict)
	s.post("/ipc-records", "{").want(http.StatusBadRequest)
	s.batch(ipcLine("c", "x") + ipcLine("d", "x"))
	m := s.metrics()
	for status, count := range map[string]float64{"201": 2, "409": 1, "400": 1} {
		m.require(t, count, "colophon_http_requests_total", "route", ipcRoute, "method", http.MethodPost, "status", status)
	}
	m.require(t, 4, "colophon_http_request_duration_seconds", "route", ipcRoute, "method", http.MethodPost)
	m.require(t, 0, "colophon_http_requests_in_progress", "route", ipcRoute, "method", http.MethodPost)
	m.require(t, 1, "colophon_http_requests_in_progress", "route", "/metrics", "method", http.MethodGet)
	// The conflict appends a refusal event, which counts like the two records.
	m.require(t, 3, "colophon_append_duration_seconds", "ledger", "default")
	events := m["colophon_commit_events"].GetMetric()[0].GetHistogram()
	require.EqualValues(t, 5, events.GetSampleSum(), "four records and a refusal; the first event precedes the metrics")
	m.require(t, float64(events.GetSampleCount()), "colophon_commit_duration_seconds", "ledger", "default")
	m.require(t, 6, "colophon_ledger_tree_size", "ledger", "default")
	m.require(t, 1, "colophon_index_running", "ledger", "default")
	m.require(t, 1, "colophon_storage_writable", "ledger", "default")
}

// Clients cannot create series: the labels of the HTTP metrics have a fixed set of values.
func TestMetricLabelsAreBounded(t *testing.T) {
	s := start(t)
	routes := map[string]bool{"unknown": true}
	for _, r := range s.http.Config.Handler.(*Server).echo.Routes() {
		routes[r.Path] = true
	}
	for _, path := range []string{"/nowhere/1", "/v1/ledgers/none/ipc-records", "/v1/ledgers/default/records/77", "/v1/ledgers/default/log/tile/x/y/z", "//", "/v1/compute/poem"} {
		for _, method := range []string{http.MethodGet, http.MethodPost, "BREW", "get"} {
			r, err := http.NewRequest(method, s.http.URL+path, nil)
			require.NoError(t, err)
			require.GreaterOrEqual(t, s.send(r).status, 400)
		}
	}
	m := s.metrics()
	for _, name := range []string{"colophon_http_requests_total", "colophon_http_request_duration_seconds", "colophon_http_requests_in_progress"} {
		require.NotEmpty(t, m[name].GetMetric())
		for _, series := range m[name].GetMetric() {
			for _, l := range series.GetLabel() {
				switch l.GetName() {
				case "route":
					require.Contains(t, routes, l.GetValue())
				case "method":
					require.Contains(t, []string{http.MethodGet, http.MethodPost, "other"}, l.GetValue())
				case "status":
					require.Regexp(t, `^[45]\d\d$`, l.GetValue())
				default:
					require.Fail(t, "unexpected label", "%s of %s", l.GetName(), name)
				}
			}
		}
	}
}

// The metrics distinguish a stuck writer from an idle ledger: if the writer is stuck, they show
// waiting records and requests in progress.
func TestMetricsDistinguishStalledAndIdleLedgers(t *testing.T) {
	s := start(t)
	idle := s.metrics()
	idle.require(t, 0, "colophon_queue_depth", "ledger", "default")
	age, _ := idle.value("colophon_checkpoint_age_seconds", "ledger", "default")
	require.Positive(t, age)

	const waiting = 3
	stuck, release := make(chan struct{}), make(chan struct{})
	s.ledger().OnCommit(func(ledger.Commit) {
		select {
		case stuck <- struct{}{}:
			<-release
		case <-release:
		}
	})
	answers := make(chan int, 1+waiting)
	write := func() {
		response, err := http.Post(s.url+"/ipc-records", "application/json", strings.NewReader(ipcBody("", "x")))
		if err != nil {
			answers <- 0
			return
		}
		answers <- response.StatusCode
		_ = response.Body.Close()
	}
	go write()
	<-stuck
	for range waiting {
		go write()
	}
	require.Eventually(t, func() bool {
		depth, _ := s.metrics().value("colophon_queue_depth", "ledger", "default")
		return depth == waiting
	}, patience, time.Millisecond)
	s.metrics().require(t, 1+waiting, "colophon_http_requests_in_progress", "route", ipcRoute, "method", http.MethodPost)

	close(release)
	for range 1 + waiting {
		require.Equal(t, http.StatusCreated, <-answers)
	}
	after := s.metrics()
	after.require(t, 0, "colophon_queue_depth", "ledger", "default")
	after.require(t, 2+waiting, "colophon_ledger_tree_size", "ledger", "default")
}

// full is a database that acts as if its disk were full.
type full struct{ *memory.Database }

func (f full) Ledger(ctx context.Context, name string) (storage.Store, error) {
	s, err := f.Database.Ledger(ctx, name)
	return fullStore{s}, err
}

type fullStore struct{ storage.Store }

func (fullStore) CheckWritable(context.Context) error { return storage.ErrNoSpace }

// The metrics show that the disk is full, that the index has stopped, and how far it lags behind
// the log.
func TestMetricsOfTrouble(t *testing.T) {
	database, keys := memory.New(), keystore.KeyFiles{Dir: t.TempDir()}
	defaults := func(string) ledger.Config { return ledger.Config{} }
	host, err := ledger.OpenHost(t.Context(), database, keys, defaults)
	require.NoError(t, err)
	l, err := host.Create(t.Context(), ledger.CreateOptions{Name: ledger.DefaultName})
	require.NoError(t, err)
	r, err := record.Parse(record.KindIPCRecord, []byte(ipcBody("", "x")))
	require.NoError(t, err)
	defer r.Release()
	submission, err := l.PrepareRecord(r, ledger.AnonymousActor, "")
	require.NoError(t, err)
	for range 2 {
		_, err = l.Submit(submission)
		require.NoError(t, err)
	}
	require.NoError(t, host.Close())
	tamper, err := database.Tamperer(ledger.DefaultName)
	require.NoError(t, err)
	require.NoError(t, tamper.DeleteEntry(1)) // the first and the last event remain, because a ledger cannot be opened without them
	host, err = ledger.OpenHost(t.Context(), full{database}, keys, defaults)
	require.NoError(t, err)
	folded, err := questions.OpenIndex(index.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	s, err := New(Config{Host: host, Index: folded, Version: "test"})
	require.NoError(t, err)
	require.Error(t, folded.Follower(ledger.DefaultName).WaitForSize(t.Context(), 2))

	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, answer.Code)
	m := parseMetrics(t, answer.Body)
	m.require(t, 0, "colophon_storage_writable", "ledger", ledger.DefaultName)
	m.require(t, 0, "colophon_index_running", "ledger", ledger.DefaultName)
	m.require(t, 2, "colophon_index_lag_events", "ledger", ledger.DefaultName)
	require.NoError(t, folded.Close())
	require.NoError(t, host.Close())
}
