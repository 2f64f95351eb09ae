package manifests_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
)

// signingKey contains characters that are special in an environment file.
const signingKey = "PRIVATE+KEY+ledger.example.org/default+8bc471bd+AU7b0Gn6/fyEkNO151VWg5n3FLliaSd9ucGU5f5phM=="

// load loads compose files from deploy/. The environment is a copy of servers.env.example with the
// given key and password filled in.
func load(t *testing.T, key, password string, files ...string) (*types.Project, error) {
	t.Helper()
	text, err := os.ReadFile("../servers.env.example")
	require.NoError(t, err)
	filled := strings.NewReplacer("DEFAULT=''", "DEFAULT='"+key+"'", "PASSWORD=\n", "PASSWORD="+password+"\n").Replace(string(text))
	require.NotEqual(t, string(text), filled)
	environment := filepath.Join(t.TempDir(), "servers.env")
	require.NoError(t, os.WriteFile(environment, []byte(filled), 0o600))
	var paths []string
	for _, file := range files {
		paths = append(paths, filepath.Join("..", file))
	}
	options, err := cli.NewProjectOptions(paths, cli.WithEnvFiles(environment), cli.WithDotEnv)
	require.NoError(t, err)
	return options.LoadProject(t.Context())
}

func TestCompose(t *testing.T) {
	p, err := load(t, signingKey, "secret", "compose.yaml")
	require.NoError(t, err)
	require.Equal(t, []string{"colophon", "grafana", "prometheus"}, sorted(p.ServiceNames()))
}

// Each server gets its own volume and address, the signing key, and a database URL. The URL comes from
// the compose file of the database.
func TestComposeOfServers(t *testing.T) {
	for file, c := range map[string]struct {
		databases    []string
		dependencies int
		store        string
	}{
		"compose.postgres.yaml":    {[]string{"postgres-1", "postgres-2"}, 2, "postgres://colophon:secret@postgres-1,postgres-2/colophon?"},
		"compose.cockroachdb.yaml": {[]string{"cockroach-1", "cockroach-2", "cockroach-3", "cockroach-init"}, 1, "postgres://root@cockroach-1:26257,"},
	} {
		t.Run(file, func(t *testing.T) {
			p, err := load(t, signingKey, "secret", "compose.servers.yaml", file)
			require.NoError(t, err)
			names := []string{"balancer", "colophon-1", "colophon-2", "colophon-3", "grafana", "prometheus"}
			require.Equal(t, sorted(append(names, c.databases...)), sorted(p.ServiceNames()))
			volumes := make(map[string]bool)
			for _, name := range names[1:4] {
				s := p.Services[name]
				require.Equal(t, signingKey, *s.Environment["COLOPHON_SIGNING_KEY_DEFAULT"])
				require.Equal(t, name+":8080", *s.Environment["COLOPHON_ADVERTISE"])
				require.True(t, strings.HasPrefix(*s.Environment["COLOPHON_STORE"], c.store), *s.Environment["COLOPHON_STORE"])
				require.Contains(t, s.Environment, "GOMEMLIMIT")
				require.Contains(t, s.Command, "--insecure")
				require.Len(t, s.DependsOn, c.dependencies)
				require.Len(t, s.Volumes, 1)
				require.Equal(t, "/data", s.Volumes[0].Target)
				volumes[s.Volumes[0].Source] = true
				require.Contains(t, s.Networks, "store")
				require.Contains(t, s.Networks, "ledger")
			}
			require.Len(t, volumes, 3)
			for _, name := range c.databases {
				require.Len(t, p.Services[name].Networks, 1)
				require.Contains(t, p.Services[name].Networks, "store")
			}
			if first, is := p.Services["postgres-1"]; is {
				second := p.Services["postgres-2"]
				require.Equal(t, first.Command, second.Command, "either node can be the primary")
				require.Equal(t, "postgres-1", *first.Environment["PRIMARY"])
				require.Equal(t, "postgres-1", *second.Environment["PRIMARY"])
			}
			require.Contains(t, p.Services["prometheus"].Command, "--config.file=/etc/prometheus/servers.yml")
			require.NotContains(t, p.Services["prometheus"].Command, "--config.file=/etc/prometheus/prometheus.yml")
			require.Contains(t, p.Services["grafana"].Environment, "GF_AUTH_ANONYMOUS_ENABLED")
			require.Equal(t, "/etc/grafana/dashboards/colophon-servers.json", *p.Services["grafana"].Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
			for name, s := range p.Services {
				for _, port := range s.Ports {
					require.Equal(t, "127.0.0.1", port.HostIP, name)
				}
				for _, volume := range s.Volumes {
					if volume.Type == types.VolumeTypeBind {
						_, err := os.Stat(volume.Source)
						require.NoError(t, err, name)
					}
				}
			}
		})
	}
}

// If settings are missing in servers.env, the error names them.
func TestComposeWithoutSettings(t *testing.T) {
	_, err := load(t, "", "secret", "compose.servers.yaml", "compose.postgres.yaml")
	require.ErrorContains(t, err, "COLOPHON_SIGNING_KEY_DEFAULT")
	_, err = load(t, signingKey, "", "compose.servers.yaml", "compose.postgres.yaml")
	require.ErrorContains(t, err, "POSTGRES_PASSWORD")
}

func sorted(names []string) []string {
	slices.Sort(names)
	return names
}
