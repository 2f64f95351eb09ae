package deploy_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"colophon/storage/postgres"
)

// requireKnownFlags requires that the server accepts the arguments from a manifest.
func requireKnownFlags(t *testing.T, arguments []string) {
	t.Helper()
	require.Equal(t, "serve", arguments[0])
	out, err := exec.Command(colophon, append(arguments, "--help")...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// composeFile holds the parts of a compose file that the tests use.
type composeFile struct {
	Services map[string]struct {
		Image       string            `yaml:"image"`
		Command     []string          `yaml:"command"`
		Environment map[string]string `yaml:"environment"`
		Ports       []string          `yaml:"ports"`
		Networks    []string          `yaml:"networks"`
		ReadOnly    bool              `yaml:"read_only"`
		CapDrop     []string          `yaml:"cap_drop"`
		NetworkMode string            `yaml:"network_mode"`
		Extends     struct {
			File, Service string
		} `yaml:"extends"`
	} `yaml:"services"`
}

func readCompose(t *testing.T, name string) (file composeFile) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &file))
	return file
}

// requireLoopbackPortsOnly requires that a service publishes ports only on loopback addresses and has no
// capabilities.
func (f composeFile) requireLoopbackPortsOnly(t *testing.T, name string) {
	t.Helper()
	s := f.Services[name]
	for _, port := range s.Ports {
		require.True(t, strings.HasPrefix(port, "127.0.0.1:"), "%s publishes %s", name, port)
	}
	require.Empty(t, s.NetworkMode, "%s", name)
	require.Equal(t, []string{"ALL"}, s.CapDrop, "%s", name)
}

// The services have no authentication, so their ports are published only on loopback addresses.
func TestComposePublishesOnLoopbackOnly(t *testing.T) {
	file := readCompose(t, "compose.yaml")
	require.Len(t, file.Services, 3)
	for name, s := range file.Services {
		require.NotEmpty(t, s.Ports, "%s", name)
		file.requireLoopbackPortsOnly(t, name)
	}
	require.Equal(t, []string{"ledger"}, file.Services["colophon"].Networks)
	require.NotContains(t, file.Services["grafana"].Networks, "ledger")
	require.True(t, file.Services["colophon"].ReadOnly)
	requireKnownFlags(t, file.Services["colophon"].Command)
}

// Services publish ports only on loopback addresses, and only the servers can reach the databases.
// The compose files for PostgreSQL and CockroachDB give every server a database URL with several
// hosts.
func TestComposeOfServers(t *testing.T) {
	file := readCompose(t, "compose.servers.yaml")
	targets, err := os.ReadFile("prometheus/servers.yml")
	require.NoError(t, err)
	balancer, err := os.ReadFile("haproxy/haproxy.cfg")
	require.NoError(t, err)
	servers := 0
	for name, s := range file.Services {
		if s.Extends.File != "" {
			require.Contains(t, readCompose(t, s.Extends.File).Services, s.Extends.Service)
			continue
		}
		file.requireLoopbackPortsOnly(t, name)
		if !strings.HasPrefix(name, "colophon-") {
			continue
		}
		servers++
		require.Empty(t, s.Ports, "%s", name)
		require.True(t, s.ReadOnly, "%s", name)
		require.Equal(t, name+":8080", s.Environment["COLOPHON_ADVERTISE"])
		requireKnownFlags(t, append(s.Command, "--advertise="+s.Environment["COLOPHON_ADVERTISE"]))
		require.Contains(t, s.Environment, "COLOPHON_SIGNING_KEY_DEFAULT")
		require.Contains(t, string(targets), "- "+name+":9464")
		require.Contains(t, string(balancer), " "+name+":8080")
		for _, store := range []string{"compose.postgres.yaml", "compose.cockroachdb.yaml"} {
			url := variable.ReplaceAllString(readCompose(t, store).Services[name].Environment["COLOPHON_STORE"], "secret")
			require.True(t, postgres.IsURL(url), "%s: %s", store, url)
			config, err := pgxpool.ParseConfig(url)
			require.NoError(t, err, store)
			require.Equal(t, "colophon", config.ConnConfig.Database, store)
			hosts := []string{config.ConnConfig.Host}
			for _, other := range config.ConnConfig.Fallbacks {
				hosts = append(hosts, other.Host)
			}
			require.Greater(t, len(hosts), 1)
			for _, host := range hosts {
				require.Contains(t, readCompose(t, store).Services, host)
			}
		}
	}
	require.Equal(t, 3, servers)
	for _, store := range []string{"compose.postgres.yaml", "compose.cockroachdb.yaml"} {
		file := readCompose(t, store)
		for name, s := range file.Services {
			if s.Image != "" {
				file.requireLoopbackPortsOnly(t, name)
				require.Empty(t, s.Ports, "%s", name)
				require.Equal(t, []string{"store"}, s.Networks, "%s", name)
			}
		}
	}
}

var (
	// variable matches a variable in the syntax that Docker Compose interpolates.
	variable = regexp.MustCompile(`\$\{[^}]*\}`)
	image    = regexp.MustCompile(`(?m)^\s*(?:- )?(?:image|imageName|name|FROM):? (\S+/\S+|postgres\S*|haproxy\S*|golang\S*)`)
)

// Every image is pinned to a version. With a tag such as latest, a different version could run
// without any change to these files.
func TestImagesArePinned(t *testing.T) {
	found := 0
	files := slices.Concat(glob(t, "compose*.yaml"), glob(t, "kubernetes/*.yaml"), glob(t, "kubernetes/*/*.yaml"), []string{"Dockerfile"})
	for _, path := range files {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range image.FindAllStringSubmatch(string(text), -1) {
			found++
			require.Regexp(t, `:v?\d+\.\d+\.?\d*`, m[1], "%s", path)
		}
	}
	require.GreaterOrEqual(t, found, 8)
}

// The load balancer health-checks the servers, sends requests to all of them, and avoids a server that does
// not respond.
func TestBalancer(t *testing.T) {
	program, err := exec.LookPath("haproxy")
	if err != nil && os.Getenv("COLOPHON_REQUIRE_HAPROXY") != "1" {
		t.Skip("HAProxy is not installed: install Debian's package haproxy")
	}
	require.NoError(t, err)
	servers := startServers(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	text, err := os.ReadFile("haproxy/haproxy.cfg")
	require.NoError(t, err)
	config := strings.NewReplacer("bind :8080", "bind "+address, "colophon-1:8080", strings.TrimPrefix(servers[0].url, "http://"),
		"colophon-2:8080", strings.TrimPrefix(servers[1].url, "http://"), "colophon-3:8080", "127.0.0.1:1").Replace(string(text))
	path := filepath.Join(t.TempDir(), "haproxy.cfg")
	require.NoError(t, os.WriteFile(path, []byte(config), 0o600))
	require.NoError(t, free.Close())
	command := exec.CommandContext(t.Context(), program, "-db", "-f", path)
	log := new(bytes.Buffer)
	command.Stdout, command.Stderr = log, log
	require.NoError(t, command.Start())
	t.Cleanup(func() { _ = command.Wait() }) // t.Context is canceled before cleanups run, which kills the command
	balanced := &server{t, "http://" + address}
	require.Eventually(t, func() bool {
		answer, err := http.Get(balanced.url + "/readyz")
		if err == nil {
			err = answer.Body.Close()
		}
		return err == nil && answer.StatusCode == http.StatusOK
	}, time.Minute, 20*time.Millisecond, "%s", log)
	for i := range 6 {
		balanced.post("/v1/ledgers/default/ipc-records", fmt.Sprintf(`{"run_id":"%d",%s,"output":"x"}`, i, run), http.StatusCreated)
	}
	for _, s := range servers {
		requests := 0.0
		for _, m := range s.families()["colophon_http_requests_total"].GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "route" && strings.HasSuffix(l.GetValue(), "/ipc-records") {
					requests += m.GetCounter().GetValue()
				}
			}
		}
		require.Positive(t, requests, "each server must get requests")
	}
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
	require.Equal(t, 1, set.Spec.Replicas, "there must be one writer")
	pod := set.Spec.Template.Spec
	require.True(t, pod.SecurityContext.RunAsNonRoot)
	require.Len(t, pod.Containers, 1)
	container := pod.Containers[0]
	require.True(t, container.SecurityContext.ReadOnlyRootFilesystem)
	require.NotNil(t, container.SecurityContext.AllowPrivilegeEscalation)
	require.False(t, *container.SecurityContext.AllowPrivilegeEscalation)
	requireKnownFlags(t, container.Args)

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

// The server serves metrics on a separate port in the compose files, in Kubernetes, and under
// systemd. Prometheus scrapes this port.
func TestMetricsHaveASeparateAddress(t *testing.T) {
	const port = "9464"
	for file, wanted := range map[string][]string{
		"prometheus/prometheus.yml":   {"- colophon:" + port},
		"compose.servers.yaml":        {"--metrics-listen=0.0.0.0:" + port},
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
			requireKnownFlags(t, strings.Fields(command))
			found = true
		}
	}
	require.True(t, found)
}

// Grafana's configuration matches the paths and addresses in the compose file.
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
