package doctor

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"colophon/internal/server"
)

// givenFlags parses args as flags of the serve command.
func givenFlags(t testing.TB, args ...string) *pflag.FlagSet {
	t.Helper()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	config := server.Config{}.WithDefaults()
	config.Bind(flags)
	require.NoError(t, flags.Parse(args))
	return flags
}

func TestCheckSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "colophon.yaml")
	judge := func(text string, args ...string) []Finding {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		d := newDeployment(t)
		d.settings = readSettings(path, d.console.LookupEnv, givenFlags(t, args...))
		d.settings.unknownVariables = nil // ignores the environment of the test run
		return checkSettings(d)
	}
	requireFinding(t, judge("listen: 127.0.0.1:9\n"), VerdictOK, path)
	requireFinding(t, judge("lissten: 127.0.0.1:9\n"), VerdictWrong, "field lissten not found")
	requireFinding(t, judge("{"), VerdictWrong, path)
	requireFinding(t, judge("", "--max-page", "0"), VerdictWrong, "max-page: must be at least 1")
	requireFinding(t, checkSettings(newDeployment(t)), VerdictOK, "flags and variables: serve accepts these settings")
	requireFinding(t, checkSettings(newDeployment(t, func(d *deployment) { d.settings.unknownVariables = []string{"COLOPHON_LISTN"} })), VerdictAdvice, "unknown environment variables: COLOPHON_LISTN")
	if hasModes {
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Chmod(path, 0o666))
		requireFinding(t, checkSettings(newDeployment(t, func(d *deployment) { d.settings.file = path })), VerdictWrong, "can write to")
	}
}

func TestReadSettingsIgnoresABadFile(t *testing.T) {
	nothing := func(string) (string, bool) { return "", false }
	path := filepath.Join(t.TempDir(), "colophon.yaml")
	require.NoError(t, os.WriteFile(path, []byte("listen: 127.0.0.1:9\ncache: much\n"), 0o600))
	s := readSettings(path, nothing, givenFlags(t, "--data", "here"))
	require.ErrorContains(t, s.err, "much")
	require.Equal(t, "here", s.config.DataDir)
	require.Equal(t, "127.0.0.1:8080", s.config.ListenAddress)
	s = readSettings("", nothing, givenFlags(t, "--listen", "nonsense"))
	require.ErrorContains(t, s.err, "nonsense")
	require.Equal(t, "data", s.config.DataDir)
}

func TestCheckAccessFile(t *testing.T) {
	d := newDeployment(t)
	requireFinding(t, checkAccessFile(d), VerdictOK, "none")
	path := filepath.Join(d.data(), "access.yaml")
	d.settings.config.AccessFile = path
	write := func(text string) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("oidc:\n- {issuer: https://id.example.org, audience: ledger, rules: [{claim: groups, value: eval, ledgers: [default], scopes: [read]}]}\n")
	requireFinding(t, checkAccessFile(d), VerdictOK, "1 issuer, 0 rules for client certificates")
	write("oidk: []\n")
	requireFinding(t, checkAccessFile(d), VerdictWrong, "oidk")
	write("mtls:\n- {san: 'dns:robot', name: robot, ledgers: [default], scopes: [write]}\n")
	requireFinding(t, checkAccessFile(d), VerdictWrong, "1 rule for client certificates, but --tls-client-ca is not set")
	d.settings.config.TLSClientCAFile = "ca.pem"
	requireFinding(t, checkAccessFile(d), VerdictOK, "1 rule for client certificates")
	if hasModes {
		require.NoError(t, os.Chmod(path, 0o666))
		requireFinding(t, checkAccessFile(d), VerdictWrong, "run: chmod o-w")
		require.NoError(t, os.Chmod(path, 0o660))
		requireFinding(t, checkAccessFile(d), VerdictAdvice, "members of the file's group can write to")
	}
	d.settings.config.AccessFile = ""
	requireFinding(t, checkAccessFile(d), VerdictWrong, "no rule grants them access")
}

func TestUnknownVariables(t *testing.T) {
	require.Equal(t, []string{"COLOPHON_", "COLOPHON_LISTN", "COLOPHON_PORTAL"}, findUnknownVariables([]string{
		"COLOPHON_PORTAL=x", "COLOPHON_LISTN=127.0.0.1:1", "COLOPHON_LISTEN=127.0.0.1:1", "COLOPHON_MAX_PAGE=2", "PATH=/bin", "COLOPHON_=",
		"COLOPHON_TOKEN=secret", "COLOPHON_TOKEN_FILE=f", "COLOPHON_CA_FILE=f", "COLOPHON_SERVER=s", "COLOPHON_LEDGER=l", "COLOPHON_CONFIG=c", "COLOPHON_KEY=k",
		"COLOPHON_PORT=tcp://10.0.0.1:8080", "COLOPHON_PORT_8080_TCP=tcp://10.0.0.1:8080", "COLOPHON_SERVICE_HOST=10.0.0.1",
	}))
}

func TestVariablesThatTheSourceReadsAreKnown(t *testing.T) {
	var names []string
	quoted := regexp.MustCompile(`["'](COLOPHON_[A-Z_]+)["']`)
	for _, root := range []string{"../../cmd", "..", "../../clients/python/src", "../../clients/typescript/src"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !slices.Contains([]string{".go", ".py", ".ts"}, filepath.Ext(path)) || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, match := range quoted.FindAllSubmatch(text, -1) {
				if name := string(match[1]); !strings.HasPrefix(name, "COLOPHON_TEST_") && !strings.HasPrefix(name, "COLOPHON_REQUIRE_") { // these are for tests
					names = append(names, name)
				}
			}
			return err
		}))
	}
	require.Subset(t, names, []string{"COLOPHON_STORE", "COLOPHON_ENDPOINT_KEY", "COLOPHON_SPOOL"}, "the test finds the variables")
	require.Empty(t, findUnknownVariables(names))
}

func TestServerURLFollowsTheSettings(t *testing.T) {
	for _, c := range []struct{ listen, certificate, want string }{
		{"127.0.0.1:8080", "", "http://127.0.0.1:8080"},
		{"0.0.0.0:8443", "c.pem", "https://127.0.0.1:8443"},
		{":80", "", "http://127.0.0.1:80"},
		{"[::]:80", "", "http://127.0.0.1:80"},
		{"[fd00::1]:80", "", "http://[fd00::1]:80"},
		{"ledger.example.org:443", "c.pem", "https://ledger.example.org:443"},
		{"127.0.0.1:0", "", ""},
		{"nonsense", "", ""},
	} {
		s := settings{config: server.Config{ListenAddress: c.listen, TLSCertFile: c.certificate}}
		require.Equal(t, c.want, s.serverURL(), c.listen)
	}
}
