package deploy_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

// documented is a metric as it is described in docs/metrics.md.
type documented struct {
	kind   string   // "Counter", "Gauge", or "Histogram"
	labels []string // sorted
}

var (
	metricSection = regexp.MustCompile("(?m)^### `([a-z_0-9]+)`\n\\*(Counter|Gauge|Histogram)([^.*]*)\\.\\* \\S")
	labelRow      = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (.*) \\|$")
	quotedName    = regexp.MustCompile("`([^`]+)`")
)

func quoted(text string) (names []string) {
	for _, m := range quotedName.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

func readMetricsPage(t *testing.T) (metrics map[string]documented, values map[string][]string) {
	t.Helper()
	file, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)
	text := string(file)
	metrics, values = make(map[string]documented), make(map[string][]string)
	sections := metricSection.FindAllStringSubmatch(text, -1)
	require.Len(t, sections, strings.Count(text, "\n### "), "each section must begin with the type, the unit, and the labels")
	for _, m := range sections {
		require.NotContains(t, metrics, m[1], "documented twice")
		labels := quoted(m[3])
		slices.Sort(labels)
		metrics[m[1]] = documented{kind: m[2], labels: labels}
	}
	for _, m := range labelRow.FindAllStringSubmatch(text, -1) {
		values[m[1]] = quoted(m[2])
	}
	return metrics, values
}

// exported converts a metric family to a documented, so that it can be compared with
// docs/metrics.md.
func exported(family *dto.MetricFamily) documented {
	name := family.GetType().String() // such as COUNTER
	d := documented{kind: name[:1] + strings.ToLower(name[1:])}
	for _, l := range family.GetMetric()[0].GetLabel() {
		d.labels = append(d.labels, l.GetName())
	}
	slices.Sort(d.labels)
	return d
}

func TestMetricsAreDocumented(t *testing.T) {
	s := startServer(t)
	s.exercise("default")
	own := make(map[string]documented)
	for name, family := range s.families() {
		if strings.HasPrefix(name, "colophon_") {
			own[name] = exported(family)
			require.NotEmpty(t, family.GetHelp(), "%s", name)
		}
	}
	page, _ := readMetricsPage(t)
	require.Equal(t, slices.Sorted(maps.Keys(own)), slices.Sorted(maps.Keys(page)))
	for name, want := range own {
		require.Equal(t, want, page[name], "%s", name)
	}
}

var serversRow = regexp.MustCompile("(?m)^\\| ((?:`colophon_[a-z_0-9]+`(?:, )?)+) \\|")

// docs/servers.md documents the metrics that only servers with a remote database export.
// docs/metrics.md omits these metrics.
func TestMetricsOfServersAreDocumented(t *testing.T) {
	servers := startServers(t)
	servers[1].exercise("default")
	page, _ := readMetricsPage(t)
	own := make(map[string]bool)
	for _, s := range servers {
		for name, family := range s.families() {
			if _, common := page[name]; !common && strings.HasPrefix(name, "colophon_") {
				own[name] = true
				require.NotEmpty(t, family.GetHelp(), "%s", name)
			}
		}
	}
	text, err := os.ReadFile("../docs/servers.md")
	require.NoError(t, err)
	var listed []string
	for _, row := range serversRow.FindAllStringSubmatch(string(text), -1) {
		for _, name := range quoted(row[1]) {
			if _, common := page[name]; !common {
				listed = append(listed, name)
			}
		}
	}
	slices.Sort(listed)
	require.Equal(t, slices.Sorted(maps.Keys(own)), listed)
}

// openLabels lists the labels whose values docs/metrics.md does not list, because the values depend on
// the server or on the API contract. Other tests check that these values are bounded.
var openLabels = []string{"ledger", "hook", "route", "status"}

func TestLabelValuesAreDocumented(t *testing.T) {
	s := startServer(t)
	s.exercise("default")
	used := requireDocumentedLabels(t, s)
	_, values := readMetricsPage(t)
	require.Equal(t, slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(values)))
}

// requireDocumentedLabels requires that docs/metrics.md documents the labels that a server currently
// exports and, except for openLabels, their values. It returns the names of the labels.
func requireDocumentedLabels(t *testing.T, s *server) map[string]bool {
	t.Helper()
	page, values := readMetricsPage(t)
	for _, stage := range values["stage"] {
		values["field"] = append(values["field"], "stage:"+stage)
	}
	used := make(map[string]bool)
	for name, family := range s.families() {
		if _, ours := page[name]; !ours {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				used[l.GetName()] = true
				require.Contains(t, values, l.GetName(), "a label of %s", name)
				if !slices.Contains(openLabels, l.GetName()) {
					require.Contains(t, values[l.GetName()], l.GetValue(), "%s of %s", l.GetName(), name)
				}
			}
		}
	}
	return used
}
