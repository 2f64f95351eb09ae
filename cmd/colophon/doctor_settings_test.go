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
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	config := server.Config{}.WithDefaults()
	config.Bind(flags)
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
