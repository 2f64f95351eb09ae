package replay

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"colophon/api"
	"colophon/internal/datadir"
	"colophon/internal/server"
	"colophon/internal/testing/ledgertest"
	"colophon/ledger"
)

// scraped returns the metrics that a server exports for a copy of the given ledger.
func scraped(t testing.TB, w *ledgertest.Ledger) string {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	data := w.Copy(t)
	n, err := server.OpenNode(context.Background(), server.Config{DataDir: data}.WithDefaults(), datadir.KeyFiles(data), log)
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close()) }()
	service, err := api.New(api.Config{Host: n.Host, Index: n.Index, Logger: log, SpoolDir: datadir.SpoolFolder(data), Version: "test", Metrics: api.NewMetrics(prometheus.NewRegistry())})
	require.NoError(t, err)
	require.NoError(t, n.Index.Follower(ledger.DefaultName).WaitForSize(t.Context(), w.Size))
	server := httptest.NewServer(service)
	defer server.Close()
	response, err := http.Get(server.URL + "/metrics")
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(text)
}

// The reference exports the same metrics as a server.
func TestMetricsOfTheReference(t *testing.T) {
	l := ledgertest.NewPopulated(t, 10)
	got, err := readMetrics([]byte(scraped(t, l)), ledger.DefaultName)
	require.NoError(t, err)
	expected, err := compareLedger(t, l).reference.metrics()
	require.NoError(t, err)
	require.Equal(t, got.size, expected.size)
	require.Equal(t, got.series, expected.series)
	require.Equal(t, got.types, expected.types)
}

// The comparison detects every change to a metric whose value the log determines.
func TestEveryChangeOfMetricsIsFound(t *testing.T) {
	w := ledgertest.NewPopulated(t, 10)
	text := scraped(t, w)
	honest, err := readMetrics([]byte(text), ledger.DefaultName)
	require.NoError(t, err)
	require.Equal(t, []uint64{w.Size, w.Size}, []uint64{honest.size, honest.tree})
	noticed := func(text string) bool {
		got, err := readMetrics([]byte(text), ledger.DefaultName)
		return err != nil || got.checkSizes(w.Size, w.Size) != nil || len(honest.differences(got)) > 0
	}
	require.False(t, noticed(text))
	// Help lines and the metrics of other ledgers are not compared.
	require.False(t, noticed(regexp.MustCompile(`(?m)^# HELP .*\n`).ReplaceAllString(text, "")))
	require.False(t, noticed(text+"colophon_ledger_records_total{kind=\"x\",ledger=\"another\"} 9\n"))

	lines := strings.SplitAfter(text, "\n")
	value := regexp.MustCompile(` \S+\n$`)
	tried := 0
	for i, line := range lines {
		if !strings.Contains(line, ledgerMetrics) || strings.HasPrefix(line, "# HELP") {
			continue
		}
		with := func(changed ...string) string {
			return strings.Join(slices.Replace(slices.Clone(lines), i, i+1, changed...), "")
		}
		changes := map[string]string{}
		if strings.HasPrefix(line, "# TYPE") {
			for _, kind := range []string{"counter", "gauge", "untyped", "summary", "histogram"} {
				if !strings.HasSuffix(line, " "+kind+"\n") {
					changes["type "+kind] = with(regexp.MustCompile(` \w+\n$`).ReplaceAllString(line, " "+kind+"\n"))
				}
			}
			changes["type dropped"] = with()
			changes["type twice"] = with(line, line)
		} else {
			another := value.ReplaceAllString(line, " 77\n")
			changes["dropped"] = with()
			changes["another value"] = with(another)
			changes["a fraction"] = with(value.ReplaceAllString(line, " 0.5\n"))
			changes["no number"] = with(value.ReplaceAllString(line, " NaN\n"))
			changes["negative"] = with(value.ReplaceAllString(line, " -1\n"))
			changes["twice"] = with(line, line)
			changes["twice, the first wrong"] = with(another, line)
			changes["twice, the last wrong"] = with(line, another)
			changes["twice, spelt otherwise"] = with(line, strings.Replace(another, `ledger="`, `ledger = "`, 1))
			changes["a timestamp"] = with(strings.TrimSuffix(line, "\n") + " 1000\n")
			changes["of another ledger"] = with(strings.Replace(line, `"default"`, `"another"`, 1))
			changes["another series"] = with(line, strings.Replace(line, "{", `{more="x",`, 1))
		}
		for name, changed := range changes {
			tried++
			require.True(t, noticed(changed), "the change was not noticed: %s: %s", name, line)
		}
	}
	require.Greater(t, tried, 500)
	require.True(t, noticed(strings.TrimSuffix(text, "\n")))
	require.True(t, noticed(""))
}
