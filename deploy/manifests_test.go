package deploy_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// knownFlags requires that the server accepts the arguments in a manifest.
func knownFlags(t *testing.T, arguments []string) {
	t.Helper()
	require.Equal(t, "serve", arguments[0])
	out, err := exec.Command(colophon, append(arguments, "--help")...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// Without authentication, ports are published only on loopback.
func TestComposePublishesOnLoopbackOnly(t *testing.T) {
	var file struct {
		Services map[string]struct {
			Command     []string `yaml:"command"`
			Ports       []string `yaml:"ports"`
			Networks    []string `yaml:"networks"`
			ReadOnly    bool     `yaml:"read_only"`
			CapDrop     []string `yaml:"cap_drop"`
			NetworkMode string   `yaml:"network_mode"`
		} `yaml:"services"`
	}
	text, err := os.ReadFile("compose.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &file))
	require.Len(t, file.Services, 3)
	for name, s := range file.Services {
		require.NotEmpty(t, s.Ports, "%s", name)
		for _, port := range s.Ports {
			require.True(t, strings.HasPrefix(port, "127.0.0.1:"), "%s publishes %s", name, port)
		}
		require.Empty(t, s.NetworkMode, "%s", name)
		require.Equal(t, []string{"ALL"}, s.CapDrop, "%s", name)
	}
	require.Equal(t, []string{"ledger"}, file.Services["colophon"].Networks)
	require.NotContains(t, file.Services["grafana"].Networks, "ledger")
	require.True(t, file.Services["colophon"].ReadOnly)
	knownFlags(t, file.Services["colophon"].Command)
}

func TestKubernetesRunsConfined(t *testing.T) {
	var set struct {
		Spec struct {
			Replicas int `yaml:"replicas"`
			Template struct {
				Metadata struct {
					Labels map[string]string `yaml:"labels"`
				} `yaml:"metadata"`
				Spec struct {
					SecurityContext struct {
						RunAsNonRoot bool `yaml:"runAsNonRoot"`
					} `yaml:"securityContext"`
					Containers []struct {
						Args            []string `yaml:"args"`
						SecurityContext struct {
							ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
							AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
						} `yaml:"securityContext"`
					} `yaml:"containers"`
				} `yaml:"spec"`
			} `yaml:"template"`
		} `yaml:"spec"`
	}
	text, err := os.ReadFile("kubernetes/statefulset.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &set))
	require.Equal(t, 1, set.Spec.Replicas, "there is one writer")
	pod := set.Spec.Template.Spec
	require.True(t, pod.SecurityContext.RunAsNonRoot)
	require.Len(t, pod.Containers, 1)
	container := pod.Containers[0]
	require.True(t, container.SecurityContext.ReadOnlyRootFilesystem)
	require.NotNil(t, container.SecurityContext.AllowPrivilegeEscalation)
	require.False(t, *container.SecurityContext.AllowPrivilegeEscalation)
	knownFlags(t, container.Args)

	var policy struct {
		Spec struct {
			PodSelector struct {
				MatchLabels map[string]string `yaml:"matchLabels"`
			} `yaml:"podSelector"`
			PolicyTypes []string `yaml:"policyTypes"`
		} `yaml:"spec"`
	}
	text, err = os.ReadFile("kubernetes/networkpolicy.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &policy))
	require.Equal(t, set.Spec.Template.Metadata.Labels, policy.Spec.PodSelector.MatchLabels, "the policy must apply to this pod")
	require.Contains(t, policy.Spec.PolicyTypes, "Ingress")
}

// Prometheus scrapes the address that serves the metrics, in the compose file, in the cluster,
// and next to the systemd unit.
func TestMetricsHaveASeparateAddress(t *testing.T) {
	const port = "9464"
	for file, wanted := range map[string][]string{
		"prometheus/prometheus.yml":   {"- colophon:" + port},
		"compose.yaml":                {"--metrics-listen=0.0.0.0:" + port},
		"kubernetes/statefulset.yaml": {"--metrics-listen=0.0.0.0:" + port, `prometheus.io/port: "` + port + `"`, "containerPort: " + port},
		"systemd/colophon.service":    {"--metrics-listen 127.0.0.1:" + port},
	} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, line := range wanted {
			require.Contains(t, string(text), line, file)
		}
	}
}

func TestSystemdUnit(t *testing.T) {
	text, err := os.ReadFile("systemd/colophon.service")
	require.NoError(t, err)
	found := false
	for line := range strings.Lines(string(text)) {
		if command, start := strings.CutPrefix(strings.TrimSpace(line), "ExecStart=/usr/local/bin/colophon "); start {
			knownFlags(t, strings.Fields(command))
			found = true
		}
	}
	require.True(t, found)
}

// Grafana's configuration matches what the compose file mounts and serves.
func TestGrafanaFindsItsFiles(t *testing.T) {
	compose, err := os.ReadFile("compose.yaml")
	require.NoError(t, err)
	var providers struct {
		Providers []struct {
			Options struct {
				Path string `yaml:"path"`
			} `yaml:"options"`
		} `yaml:"providers"`
	}
	text, err := os.ReadFile("grafana/provisioning/dashboards/colophon.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &providers))
	require.Len(t, providers.Providers, 1)
	require.Contains(t, string(compose), "./grafana/dashboards:"+providers.Providers[0].Options.Path+":ro")

	var sources struct {
		Datasources []struct {
			Type string `yaml:"type"`
			URL  string `yaml:"url"`
		} `yaml:"datasources"`
	}
	text, err = os.ReadFile("grafana/provisioning/datasources/prometheus.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &sources))
	require.Len(t, sources.Datasources, 1)
	require.Equal(t, "prometheus", sources.Datasources[0].Type)
	require.Equal(t, "http://prometheus:9090", sources.Datasources[0].URL)
}
