package deploy_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/proofs"
)

// dashboard holds the parts of Grafana's dashboard model that the tests need.
type dashboard struct {
	UID        string  `json:"uid"`
	Panels     []panel `json:"panels"`
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
}

type panel struct {
	ID      int    `json:"id"`
	Title   string `json:"title"`
	Type    string `json:"type"`
	GridPos struct {
		X, Y, W, H int
	} `json:"gridPos"`
	Targets []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
}

// The names of the dashboards. Each name is both the UID of the dashboard and the base name of its
// file.
const (
	mainDashboard    = "colophon"
	serversDashboard = "colophon-servers"
)

func readDashboard(t *testing.T, name string) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("grafana/dashboards/" + name + ".json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &d))
	return d
}

// dashboardVariables substitutes values for Grafana's variables in an expression. The values match all ledgers
// and all servers. The interval of 15 s is long enough because scrapes are a second apart.
var dashboardVariables = strings.NewReplacer("$ledger", ".+", "$instance", ".+", "$__rate_interval", "15s")

// query returns the expression of the first target of the panel with the given title.
func (d dashboard) query(t *testing.T, title string) string {
	t.Helper()
	for _, p := range d.Panels {
		if p.Title == title {
			return dashboardVariables.Replace(p.Targets[0].Expr)
		}
	}
	require.Fail(t, "no such panel", "%s", title)
	return ""
}

func TestDashboardsAreWellFormed(t *testing.T) {
	require.Len(t, glob(t, "grafana/dashboards/*.json"), 2)
	for _, name := range []string{mainDashboard, serversDashboard} {
		d := readDashboard(t, name)
		require.Equal(t, name, d.UID)
		ids, titles := make(map[int]bool), make(map[string]bool)
		taken := make(map[[2]int]string)
		for _, p := range d.Panels {
			require.NotZero(t, p.ID)
			require.False(t, ids[p.ID], "panel id %d occurs twice", p.ID)
			require.False(t, titles[p.Title], "the title %q occurs twice", p.Title)
			ids[p.ID], titles[p.Title] = true, true
			require.Equal(t, p.Type != "row", len(p.Targets) > 0, "%s", p.Title)
			require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, "%s", p.Title)
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					require.Empty(t, taken[[2]int{x, y}], "the panel %s overlaps another panel", p.Title)
					taken[[2]int{x, y}] = p.Title
				}
			}
			for _, target := range p.Targets {
				require.NotContains(t, dashboardVariables.Replace(target.Expr), "$", "%s uses a variable that does not exist", p.Title)
			}
		}
	}
}

// Every query of the main dashboard and of its rules uses only metrics that the servers export or
// that recording rules compute. With a wrong name, a dashboard would show nothing and a rule would
// never fire.
func TestQueriesNameWhatIsExported(t *testing.T) {
	signer, err := proofs.GenerateKey().Signer("log.example/default")
	require.NoError(t, err)
	copied := "file://" + t.TempDir()
	s := startWith(t, []string{"--publish", copied, "--publish-ledgers", "default", "--archive"}, "COLOPHON_SIGNING_KEY_DEFAULT="+signer.Secret())
	s.exercise("default")
	reader := startWith(t, []string{"--read-only", "--from", copied + "/v1/ledgers/default", "--key", signer.Verifier().String()})
	require.Eventually(t, func() bool {
		return s.families()["colophon_archive_events"] != nil && reader.families()["colophon_mirror_failing"] != nil
	},
		time.Minute, 50*time.Millisecond)
	requireKnownMetrics(t, mainDashboard, []*server{s, reader}, "prometheus/recording.rules.yml", "prometheus/alerts.rules.yml")
}

// Every query of the dashboard for several servers uses only metrics that the servers export or
// that recording rules compute.
func TestQueriesNameWhatServersExport(t *testing.T) {
	servers := startServers(t)
	servers[1].exercise("default")
	requireKnownMetrics(t, serversDashboard, servers, "prometheus/recording.rules.yml", "prometheus/servers.rules.yml")
}

// requireKnownMetrics requires that the queries of a dashboard and of rule files use only metrics that
// the servers export or that recording rules compute.
func requireKnownMetrics(t *testing.T, name string, servers []*server, files ...string) {
	t.Helper()
	known := map[string]bool{"up": true, "ALERTS": true} // provided by Prometheus itself
	for _, s := range servers {
		for name, family := range s.families() {
			known[name] = true
			if family.GetMetric()[0].Histogram != nil {
				known[name+"_bucket"], known[name+"_sum"], known[name+"_count"] = true, true, true
			}
		}
	}
	rules := readRules(t, files...)
	for _, r := range rules {
		if r.Record != "" {
			known[r.Record] = true
		}
	}
	hold := func(expression, where string) {
		names := metricNames(dashboardVariables.Replace(expression))
		require.NotEmpty(t, names, "%s", where)
		for _, name := range names {
			require.True(t, known[name], "%s selects %s, which nothing exports", where, name)
		}
	}
	for _, r := range rules {
		if name == mainDashboard || !usesTheDisk(r) {
			hold(r.Expr, r.Record+r.Alert)
		}
	}
	d := readDashboard(t, name)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			hold(target.Expr, p.Title)
		}
	}
	for _, v := range d.Templating.List {
		if list, found := strings.CutPrefix(v.Definition, "label_values("); found {
			metric, _, _ := strings.Cut(list, ",")
			hold(metric, "the variable "+v.Name)
		}
	}
}

// usesTheDisk reports whether a rule applies only to servers whose database is on disk in the data
// folder.
func usesTheDisk(r rule) bool { return strings.Contains(r.Expr, "colophon_storage_fsync_") }
