// Package manifests_test loads the compose files as Docker Compose does, and lints the Helm chart.
// It checks the rendered chart and the manifests in deploy/kubernetes against the Kubernetes types.
// It also checks that the server accepts the rendered settings.
package manifests_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	strict "sigs.k8s.io/yaml"
)

const (
	chart     = "../helm/colophon"
	manifests = "../kubernetes"
	// kubernetes is the oldest version of Kubernetes that the chart permits.
	kubernetes = "v1.30.0"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // Helm logs a line for each symbolic link to a rule file or dashboard
	os.Exit(m.Run())
}

// several contains the chart values that produce the manifests in deploy/kubernetes/servers.
const several = `
servers: 3
insecure: true
trustedProxies: [10.0.0.0/8]
keys: {secret: colophon-keys}
store: {secret: colophon-db-app, caSecret: colophon-db-ca}
persistence: {size: 20Gi}
`

// everything sets every value of the chart.
const everything = several + `
image: {repository: registry.example.org/colophon, tag: v1.2.3}
imagePullSecrets: [{name: pull}]
publish: {url: "s3://logs/colophon?endpoint=https://s3.example.org&region=eu", ledgers: [default, notes], secret: bucket}
tls: {secret: colophon-tls}
extraArgs: [--rate-limit=100]
extraEnv: [{name: SSL_CERT_FILE, value: /etc/colophon/tls/ca.crt}]
extraVolumes: [{name: access, configMap: {name: access}}]
extraVolumeMounts: [{name: access, mountPath: /etc/colophon/access}]
nodeSelector: {disk: fast}
tolerations: [{key: ledger, operator: Exists}]
affinity: {nodeAffinity: {}}
networkPolicy: {extraEgress: [{ports: [{port: 443}]}]}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
prometheusRule: {enabled: true, labels: {release: prometheus}}
dashboards: {enabled: true}
`

func values(t *testing.T, text string) map[string]any {
	t.Helper()
	read, err := chartutil.ReadValues([]byte(text))
	require.NoError(t, err)
	return read
}

// render renders the chart as the release "colophon", with the YAML values in text.
func render(t *testing.T, text string) (objects []any, err error) {
	t.Helper()
	c, err := loader.Load(chart)
	require.NoError(t, err)
	release := chartutil.ReleaseOptions{Name: "colophon", Namespace: "ledger", IsInstall: true}
	all, err := chartutil.ToRenderValues(c, values(t, text), release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.Render(c, all)
	if err != nil {
		return nil, err
	}
	for name, text := range files {
		if strings.HasSuffix(name, ".yaml") {
			objects = append(objects, decode(t, name, []byte(text))...)
		}
	}
	return objects, nil
}

// decode decodes all objects in a file. The test fails if an object contains fields that its type
// does not have.
func decode(t *testing.T, name string, text []byte) (objects []any) {
	t.Helper()
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		require.NoError(t, err, name)
		var kind struct {
			APIVersion, Kind string
		}
		require.NoError(t, strict.Unmarshal(document, &kind), "%s: %s", name, document)
		if kind.Kind == "" {
			continue // the document contains only comments
		}
		object, known := map[string]any{
			"apps/v1 StatefulSet":                     new(apps.StatefulSet),
			"v1 Service":                              new(core.Service),
			"v1 ConfigMap":                            new(core.ConfigMap),
			"policy/v1 PodDisruptionBudget":           new(policy.PodDisruptionBudget),
			"networking.k8s.io/v1 NetworkPolicy":      new(networking.NetworkPolicy),
			"monitoring.coreos.com/v1 ServiceMonitor": new(monitoring.ServiceMonitor),
			"monitoring.coreos.com/v1 PrometheusRule": new(monitoring.PrometheusRule),
		}[kind.APIVersion+" "+kind.Kind]
		require.True(t, known, "%s: %s %s", name, kind.APIVersion, kind.Kind)
		require.NoError(t, strict.UnmarshalStrict(document, object), "%s: %s", name, document)
		objects = append(objects, object)
	}
}

// Helm's linter reports neither errors nor warnings about the chart.
func TestLint(t *testing.T) {
	version, err := chartutil.ParseKubeVersion(kubernetes)
	require.NoError(t, err)
	for name, text := range map[string]string{"one server": "", "several servers": several, "everything": everything} {
		t.Run(name, func(t *testing.T) {
			result := lint.AllWithKubeVersion(chart, values(t, text), "ledger", version)
			for _, message := range result.Messages {
				if message.Severity > support.InfoSev {
					t.Error(message)
				}
			}
		})
	}
}

// If insecure is the only value that is set, the chart renders the manifests in deploy/kubernetes. With
// the values for several servers, it renders the manifests in deploy/kubernetes/servers.
func TestChartEqualsManifests(t *testing.T) {
	for name, c := range map[string]struct{ values, folder string }{
		"one server":      {"insecure: true", manifests},
		"several servers": {several, manifests + "/servers"},
	} {
		t.Run(name, func(t *testing.T) {
			rendered, err := render(t, c.values)
			require.NoError(t, err)
			paths, err := filepath.Glob(c.folder + "/*.yaml")
			require.NoError(t, err)
			require.NotEmpty(t, paths)
			var written []any
			for _, path := range paths {
				text, err := os.ReadFile(path)
				require.NoError(t, err)
				written = append(written, decode(t, path, text)...)
			}
			require.Equal(t, plain(t, written), plain(t, rendered))
		})
	}
}

// plain returns the objects as sorted YAML, without the labels and settings that only the chart
// adds.
func plain(t *testing.T, objects []any) string {
	t.Helper()
	var texts []string
	for _, object := range objects {
		text, err := strict.Marshal(object)
		require.NoError(t, err)
		var lines []string
		for line := range strings.Lines(string(text)) {
			name, _, _ := strings.Cut(strings.TrimSpace(line), ":")
			if !slices.Contains([]string{"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart", "imagePullPolicy"}, name) {
				lines = append(lines, line)
			}
		}
		texts = append(texts, strings.Join(lines, ""))
	}
	slices.Sort(texts)
	return strings.Join(texts, "---\n")
}

// The chart rejects values that cannot work, with a message that says what to set.
func TestWrongValues(t *testing.T) {
	for text, message := range map[string]string{
		"servers: 3":                       "set store.secret",
		"{servers: 3, store: {secret: a}}": "set keys.secret",
		"{servers: 3, store: {secret: a}, keys: {secret: b}}": "set trustedProxies",
		"replicas: 3":          "replicas",
		"extraArgs: [x]":       "extraArgs",
		"image: {name: other}": "name",
	} {
		_, err := render(t, text)
		require.ErrorContains(t, err, message, "%s", text)
	}
}

// The server accepts every flag that the chart sets, and has a flag for every COLOPHON_ variable
// that the chart sets. Every volume mount in the chart refers to an existing volume.
func TestServerAcceptsTheSettings(t *testing.T) {
	program := filepath.Join(t.TempDir(), "colophon")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, "./cmd/colophon")
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	help, err := exec.Command(program, "serve", "--help").Output()
	require.NoError(t, err)
	for name, text := range map[string]string{"one server": "insecure: true", "several servers": several, "everything": everything} {
		t.Run(name, func(t *testing.T) {
			objects, err := render(t, text)
			require.NoError(t, err)
			sets := 0
			for _, object := range objects {
				set, is := object.(*apps.StatefulSet)
				if !is {
					continue
				}
				sets++
				container := set.Spec.Template.Spec.Containers[0]
				out, err := exec.Command(program, append(container.Args, "--help")...).CombinedOutput()
				require.NoError(t, err, "%s", out)
				for _, variable := range container.Env {
					if flag, ours := strings.CutPrefix(variable.Name, "COLOPHON_"); ours {
						require.Contains(t, string(help), "--"+strings.ToLower(strings.ReplaceAll(flag, "_", "-"))+" ")
					}
				}
				mounted := make(map[string]bool)
				for _, volume := range set.Spec.Template.Spec.Volumes {
					mounted[volume.Name] = true
				}
				for _, claim := range set.Spec.VolumeClaimTemplates {
					mounted[claim.Name] = true
				}
				for _, mount := range container.VolumeMounts {
					require.True(t, mounted[mount.Name], mount.Name)
				}
			}
			require.Equal(t, 1, sets)
		})
	}
}

// The chart passes all rules to the Prometheus operator, and all dashboards to Grafana.
func TestMonitoring(t *testing.T) {
	objects, err := render(t, everything)
	require.NoError(t, err)
	var groups, dashboards []string
	for _, object := range objects {
		switch o := object.(type) {
		case *monitoring.PrometheusRule:
			for _, group := range o.Spec.Groups {
				groups = append(groups, group.Name)
				require.NotEmpty(t, group.Rules)
			}
		case *core.ConfigMap:
			for name, text := range o.Data {
				dashboards = append(dashboards, name)
				file, err := os.ReadFile("../grafana/dashboards/" + name)
				require.NoError(t, err)
				require.Equal(t, string(bytes.TrimSpace(file)), strings.TrimSpace(text))
			}
		}
	}
	var want []string
	paths, err := filepath.Glob("../prometheus/*.rules.yml")
	require.NoError(t, err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		var rules struct{ Groups []struct{ Name string } }
		require.NoError(t, strict.Unmarshal(text, &rules))
		for _, group := range rules.Groups {
			want = append(want, group.Name)
		}
	}
	require.NotEmpty(t, want)
	require.ElementsMatch(t, want, groups)
	files, err := filepath.Glob("../grafana/dashboards/*.json")
	require.NoError(t, err)
	require.Len(t, dashboards, len(files), fmt.Sprint(dashboards))
}
