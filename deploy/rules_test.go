package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// rule is a recording rule or an alerting rule.
type rule struct {
	Record      string            `yaml:"record"`
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// readYAML decodes a YAML file into the value that to points to. The test fails if the file
// contains fields that the value's type does not have.
func readYAML(t *testing.T, path string, to any) {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	decoder := yaml.NewDecoder(file)
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(to), "%s", path)
}

// readRules returns the rules from all the files, in order.
func readRules(t *testing.T, paths ...string) (rules []rule) {
	t.Helper()
	for _, path := range paths {
		var file struct {
			Groups []struct {
				Name  string `yaml:"name"`
				Rules []rule `yaml:"rules"`
			} `yaml:"groups"`
		}
		readYAML(t, path, &file)
		for _, g := range file.Groups {
			rules = append(rules, g.Rules...)
		}
	}
	return rules
}

// glob returns the files that match a pattern, and requires that there is at least one.
func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, paths, "%s", pattern)
	return paths
}

// requirePrometheus names an environment variable. If its value is 1, tests that need Prometheus
// fail instead of being skipped when Prometheus is missing.
const requirePrometheus = "COLOPHON_REQUIRE_PROMETHEUS"

// tool returns the path of one of Prometheus's programs. If the program is not installed, tool skips
// the test or, if requirePrometheus is 1, fails it.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv(requirePrometheus) == "1" {
		require.NoError(t, err)
	}
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	return path
}

func TestPromtool(t *testing.T) {
	promtool := tool(t, "promtool")
	for name, arguments := range map[string][]string{
		"check config": {"check", "config", "prometheus/prometheus.yml", "prometheus/servers.yml"},
		"check rules":  append([]string{"check", "rules", "--lint=all", "--lint-fatal"}, glob(t, "prometheus/*.rules.yml")...),
		"test rules":   append([]string{"test", "rules"}, glob(t, "prometheus/tests/*.test.yml")...),
	} {
		t.Run(name, func(t *testing.T) {
			out, err := exec.Command(promtool, arguments...).CombinedOutput()
			require.NoError(t, err, "%s", out)
		})
	}
}

// Each alert has a severity, says what happened and what to do about it, and fires in at least one
// test case. Each recording rule is used in at least one test case.
func TestAlertsAreActionable(t *testing.T) {
	var cases strings.Builder
	for _, path := range glob(t, "prometheus/tests/*.test.yml") {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		cases.Write(text)
	}
	alerts := 0
	for _, r := range readRules(t, glob(t, "prometheus/*.rules.yml")...) {
		if r.Alert == "" {
			require.Contains(t, cases.String(), r.Record, "no test case uses this recording rule")
			continue
		}
		alerts++
		require.Contains(t, []string{"critical", "warning", "info"}, r.Labels["severity"], "%s", r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], "%s", r.Alert)
		require.NotEmpty(t, r.Annotations["description"], "%s", r.Alert)
		require.Contains(t, cases.String(), `ALERTS{alertname="`+r.Alert+`",alertstate="firing",`, "no test case makes the alert fire")
	}
	require.NotZero(t, alerts)
}
