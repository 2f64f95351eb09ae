package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"colophon/internal/server"
)

// givenFlags are flags of serve with a command line.
func givenFlags(t testing.TB, args ...string) *pflag.FlagSet {
	t.Helper()
	flags := flagsOf(server.Config{}.WithDefaults())
	require.NoError(t, flags.Parse(args))
	return flags
}

func TestCheckSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "colophon.yaml")
	judge := func(text string, args ...string) []diagnosis {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		d := someDoctor(t)
		d.settings = readSettings(path, d.Env, givenFlags(t, args...))
		d.settings.strangers = nil // the environment of whoever runs the test
		return checkSettings(d)
	}
	requireVerdict(t, judge("listen: 127.0.0.1:9\n"), fine, path)
	requireVerdict(t, judge("lissten: 127.0.0.1:9\n"), wrong, "field lissten not found")
	requireVerdict(t, judge("{"), wrong, path)
	requireVerdict(t, judge("", "--max-page", "0"), wrong, "a page has at least one row")
	requireVerdict(t, checkSettings(someDoctor(t)), fine, "flags and variables are as serve takes them")
	requireVerdict(t, checkSettings(someDoctor(t, func(d *doctor) { d.settings.strangers = []string{"COLOPHON_LISTN"} })), advice, "COLOPHON_LISTN sets nothing")
	if hasModes {
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Chmod(path, 0o666))
		requireVerdict(t, checkSettings(someDoctor(t, func(d *doctor) { d.settings.file = path })), wrong, "can change")
	}
}

func TestReadSettingsGoesOnWithoutABadFile(t *testing.T) {
	nothing := func(string) (string, bool) { return "", false }
	path := filepath.Join(t.TempDir(), "colophon.yaml")
	require.NoError(t, os.WriteFile(path, []byte("listen: 127.0.0.1:9\ncache: much\n"), 0o600))
	s := readSettings(path, nothing, givenFlags(t, "--data", "here"))
	require.ErrorContains(t, s.err, "much")
	require.Equal(t, "here", s.config.Data)
	require.Equal(t, "127.0.0.1:8080", s.config.Listen)
	s = readSettings("", nothing, givenFlags(t, "--listen", "nonsense"))
	require.ErrorContains(t, s.err, "nonsense")
	require.Equal(t, "data", s.config.Data)
}

func TestDoctorJudgesTheSettingsOfTheServerThatRuns(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "c.yaml"), []byte("max-page: 7\n"), 0o600))
	compare := func(given bool, args ...string) *doctor {
		d := someDoctor(t)
		d.machine.process = &serverProcessInfo{
			arguments: append([]string{"colophon"}, args...), dir: dir,
			variables: []string{"COLOPHON_LOG_FORMAT=json", "COLOPHON_TOKEN=secret"},
		}
		d.compareSettings(given)
		return d
	}
	same := someDoctor(t)
	same.compareSettings(false)
	require.False(t, same.settings.ofServer, "no process")
	require.False(t, compare(false, "import", "-").settings.ofServer, "no server")

	d := compare(false, "serve", "--nonsense")
	require.False(t, d.settings.ofServer, "of another version")
	requireVerdict(t, checkSettings(d), advice, "nonsense")

	args := []string{"serve", "--data", "/elsewhere", "--listen", "0.0.0.0:1", "--insecure", "--config", "c.yaml", "--tls-cert", "c.pem", "--tls-key", "/k.pem"}
	d = compare(false, args...)
	require.NotEqual(t, "/elsewhere", d.data())
	require.Equal(t, "0.0.0.0:1", d.settings.config.Listen)
	require.Equal(t, 7, d.settings.config.MaxPage)
	require.Equal(t, filepath.Join(dir, "c.pem"), d.settings.config.TLSCert)
	require.Equal(t, "/k.pem", d.settings.config.TLSKey)
	requireVerdict(t, checkSettings(d), fine, filepath.Join(dir, "c.yaml")+", flags and variables of the server")

	d = compare(true, "serve", "--listen", "0.0.0.0:1", "--insecure", "--config", "c.yaml")
	require.Equal(t, "127.0.0.1:8080", d.settings.config.Listen)
	requireVerdict(t, checkSettings(d), advice, "--insecure true, --listen 0.0.0.0:1, --log-format json, --max-page 7")
}

func TestGivesSettings(t *testing.T) {
	require.False(t, givesSettings(givenFlags(t, "--data", "d")))
	require.True(t, givesSettings(givenFlags(t, "--data", "d", "--listen", "127.0.0.1:1")))
}
