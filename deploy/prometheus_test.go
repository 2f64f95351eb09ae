package deploy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// prometheus is a running Prometheus process that scrapes Colophon servers.
type prometheus struct{ url string }

// patience is the time limit for each wait for scrapes or rule evaluations.
const patience = 18 * time.Second

// configure writes a copy of a deployed Prometheus configuration with the addresses of the test's
// servers, absolute paths to the rules, and short intervals.
func configure(t *testing.T, file string, servers []*server) (path string) {
	t.Helper()
	var config struct {
		Global struct {
			ScrapeInterval     string `yaml:"scrape_interval"`
			EvaluationInterval string `yaml:"evaluation_interval"`
		} `yaml:"global"`
		RuleFiles     []string `yaml:"rule_files"`
		ScrapeConfigs []struct {
			JobName       string `yaml:"job_name"`
			StaticConfigs []struct {
				Targets []string `yaml:"targets"`
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	readYAML(t, file, &config)
	config.Global.ScrapeInterval, config.Global.EvaluationInterval = "1s", "1s"
	for i, file := range config.RuleFiles {
		absolute, err := filepath.Abs(filepath.Join("prometheus", file))
		require.NoError(t, err)
		config.RuleFiles[i] = absolute
	}
	require.Len(t, config.ScrapeConfigs, 1)
	var targets []string
	for _, s := range servers {
		targets = append(targets, strings.TrimPrefix(s.url, "http://"))
	}
	config.ScrapeConfigs[0].StaticConfigs[0].Targets = targets
	text, err := yaml.Marshal(config)
	require.NoError(t, err)
	path = filepath.Join(t.TempDir(), "prometheus.yml")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}

// startPrometheus starts Prometheus with a deployed configuration and returns once it has scraped
// the servers.
func startPrometheus(t *testing.T, program, file string, servers ...*server) *prometheus {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	command := exec.Command(program, "--config.file="+configure(t, file, servers), "--storage.tsdb.path="+t.TempDir(), "--web.listen-address="+address)
	log := new(bytes.Buffer)
	command.Stdout, command.Stderr = log, log
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		require.NoError(t, command.Process.Signal(syscall.SIGTERM))
		require.NoError(t, command.Wait(), "%s", log)
	})
	p := &prometheus{"http://" + address}
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		assert.Equal(t, counted{"": float64(len(servers))}, p.answer(t, `sum(up{job="colophon"})`))
	}, patience, 100*time.Millisecond)
	return p
}

// get requests a path of Prometheus's API and decodes the data in the response. It reports whether
// that succeeded.
func (p *prometheus) get(t assert.TestingT, path string, data any) bool {
	response, err := http.Get(p.url + path)
	if !assert.NoError(t, err) {
		return false
	}
	defer response.Body.Close()
	answer := struct {
		Error string `json:"error"`
		Data  any    `json:"data"`
	}{Data: data}
	return assert.NoError(t, json.NewDecoder(response.Body).Decode(&answer)) && assert.Empty(t, answer.Error, "%s", path)
}

// answer evaluates an expression at the current time. It returns the values keyed by their sorted
// labels, leaving out the metric's name, the server's address, and the job.
func (p *prometheus) answer(t assert.TestingT, expression string) counted {
	var data struct {
		Result []struct {
			Metric map[string]string `json:"metric"`
			Value  [2]any            `json:"value"` // a time and the value as a string
		} `json:"result"`
	}
	if !p.get(t, "/api/v1/query?query="+url.QueryEscape(expression), &data) {
		return nil
	}
	found := make(counted)
	for _, sample := range data.Result {
		var labels []string
		for name, value := range sample.Metric {
			if name != "__name__" && name != "instance" && name != "job" {
				labels = append(labels, name+"="+value)
			}
		}
		slices.Sort(labels)
		value, err := strconv.ParseFloat(fmt.Sprint(sample.Value[1]), 64)
		assert.NoError(t, err)
		found[strings.Join(labels, ",")] = value
	}
	return found
}

// fill imports the shared data files into the ledger "default" and the tampered file into the
// ledger "tampered", and posts events of every kind to the ledger "probe". It first waits until
// Prometheus has scraped the empty ledgers, because values in the first scrape do not count as an
// increase.
func fill(t *testing.T, s *server, p *prometheus) {
	t.Helper()
	for _, name := range []string{"tampered", "probe"} {
		s.post("/v1/ledgers", `{"name":"`+name+`"}`, http.StatusCreated)
	}
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		assert.Equal(t, counted{"": 3}, p.answer(t, `count(ledger:colophon_hash_mismatches:max)`))
	}, patience, 100*time.Millisecond)
	for _, name := range []string{"generations", "run-dags", "citation-sets", "story-paths"} {
		s.run("import", filepath.Join(sharedData, name+".ndjson.gz"))
	}
	s.run("import", "--ledger", "tampered", filepath.Join(sharedData, "generations-tampered.ndjson.gz"))
	s.exercise("probe")
}

// fact is an expression and the result that Prometheus must return for it.
type fact struct {
	expression string
	want       counted
}

// facts returns what the dashboard's queries and the recording rules must return for the data that
// fill imports.
func facts(t *testing.T) []fact {
	d := readDashboard(t, mainDashboard)
	shown := func(panel, ledger string) string {
		return strings.ReplaceAll(d.query(t, panel), `ledger=~".+"`, `ledger="`+ledger+`"`)
	}
	generations := float64(len(readRecords[struct{}](t, "generations.ndjson.gz")))
	require.Equal(t, 4830.0, generations)
	drift := expectedDrift(t, "generations.ndjson.gz")
	altered, alterations := expectedMismatches(t)
	return []fact{
		{shown("Records", "default"), counted{"": generations + 420 + 403 + 176}},
		{shown("Records", "tampered"), counted{"": 700}},
		{`max by (field) (colophon_ledger_hash_checks_total{ledger="default",kind="ipc_record",result="match"})`,
			counted{"field=input_hash": generations, "field=system_prompt_hash": generations, "field=output_hash": generations, "field=ipc_id": generations}},
		{shown("Claims that did not hold", "default"), counted{"": 0}},
		{shown("Claims that did not hold", "tampered"), counted{"": alterations}},
		{shown("Mismatches by field", "tampered"), altered.with("kind=ipc_record", "ledger=tampered")},
		{`ledger:colophon_hash_mismatches:max{ledger!="probe"}`, counted{"ledger=default": 0, "ledger=tampered": alterations}},
		{shown("Runs by cause, ever", "default") + " > 0", drift},
		{`ledger_cause:colophon_drift:max{ledger="default"} > 0`, drift.with("ledger=default")},
		{shown("Paths by category", "default"), expectedCategories(t)},
		{shown("Run-DAGs by failure stage and audit mode", "default") + " > 0", expectedFailures(t, "run-dags.ndjson.gz")},
		{"sum(" + shown("Run-DAGs by first stage that differs", "default") + ")", counted{"": expectedRepeats(t, "run-dags.ndjson.gz")}},
		{shown("Refusals by reason", "probe"), counted{"reason=mismatch": 1, "reason=idempotency_key_conflict": 1}},
		{shown("Left out by producers", "probe"), counted{"": 1}},
		{shown("Changes of state", "probe") + " > 0", counted{"state=quarantined": 1}},
		{`max by (ledger) (colophon_ledger_tree_size) - max by (ledger) (colophon_ledger_index_size)`,
			counted{"ledger=default": 0, "ledger=tampered": 0, "ledger=probe": 0}},
		{`count(ALERTS{alertname="ColophonHashMismatchRateHigh",ledger="tampered"})`, counted{"": 1}},
		{shown("Alerts", "default"), counted{"": 0}}, // 0, because no alert has been active long enough to fire
	}
}

func TestPrometheusAnswersWithTheRealNumbers(t *testing.T) {
	program := tool(t, "prometheus")
	if _, err := os.Stat(sharedData); err != nil {
		t.Skip("the shared data files are absent")
	}
	s := startServer(t)
	p := startPrometheus(t, program, "prometheus/prometheus.yml", s)
	fill(t, s, p)
	known, d, rules := facts(t), readDashboard(t, mainDashboard), readRules(t, "prometheus/recording.rules.yml", "prometheus/alerts.rules.yml")
	// Every panel shows data, and every recording rule has a value.
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		for _, f := range known {
			assert.Equal(t, f.want, p.answer(t, f.expression), "%s", f.expression)
		}
		for _, panel := range d.Panels {
			for _, target := range panel.Targets {
				assert.NotEmpty(t, p.answer(t, dashboardVariables.Replace(target.Expr)), "%s shows nothing: %s", panel.Title, target.Expr)
			}
		}
		for _, r := range rules {
			if r.Record != "" {
				assert.NotEmpty(t, p.answer(t, r.Record), "%s", r.Record)
			}
		}
	}, patience, time.Second)
	health := p.health(t)
	for _, r := range rules {
		require.Equal(t, "ok", health[r.Record+r.Alert], "%s%s", r.Record, r.Alert)
	}
	requireDocumentedLabels(t, s)
}

// Every panel of the dashboard for several servers shows data, and queries and rules return values
// that match the state of the servers.
func TestPrometheusOfServers(t *testing.T) {
	program := tool(t, "prometheus")
	servers := startServers(t)
	writer, follower := servers[0], servers[1]
	p := startPrometheus(t, program, "prometheus/servers.yml", servers...)
	follower.exercise("default")
	d := readDashboard(t, serversDashboard)
	rules := readRules(t, "prometheus/recording.rules.yml", "prometheus/alerts.rules.yml", "prometheus/servers.rules.yml")
	sequence := 10
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		for _, s := range servers { // keep posting so that rates are above 0
			sequence++
			s.post("/v1/ledgers/default/ipc-records", fmt.Sprintf(`{"run_id":"%d",%s,"output":"x"}`, sequence, run), http.StatusCreated)
		}
		for expression, want := range map[string]counted{
			`ledger:colophon_lease_held:max`:                                      {"ledger=default": 1},
			d.query(t, "Servers that answer"):                                     {"": 2},
			d.query(t, "Ledgers without a writer"):                                {"": 0},
			`colophon_lease_held{instance="` + writer.url[len("http://"):] + `"}`: {"ledger=default": 1},
			`sum(colophon_forwarded_requests_total{outcome!="answered"})`:         {},
			`count(ALERTS{alertstate="firing"}) or vector(0)`:                     {"": 0},
		} {
			assert.Equal(c, want, p.answer(c, expression), "%s", expression)
		}
		for _, panel := range d.Panels {
			for _, target := range panel.Targets {
				assert.NotEmpty(c, p.answer(c, dashboardVariables.Replace(target.Expr)), "%s shows nothing: %s", panel.Title, target.Expr)
			}
		}
	}, 2*patience, time.Second)
	health := p.health(t)
	for _, r := range rules {
		require.Equal(t, "ok", health[r.Record+r.Alert], "%s%s", r.Record, r.Alert)
	}
}

// health returns the health of each rule, keyed by the rule's name.
func (p *prometheus) health(t *testing.T) map[string]string {
	t.Helper()
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health string }
		}
	}
	require.True(t, p.get(t, "/api/v1/rules", &data))
	health := make(map[string]string)
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			health[r.Name] = r.Health
		}
	}
	return health
}
