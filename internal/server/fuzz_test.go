package server

import (
	"bytes"
	"encoding"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/api/limits"
	"colophon/internal/size"
)

// FuzzConfigurationFile checks that a configuration file is either valid or refused with an
// error that contains no names of Go types.
func FuzzConfigurationFile(f *testing.F) {
	f.Add([]byte("listen: 127.0.0.1:80\ncache: 64MiB\nmax-page: 10\nlog-level: warn\nshutdown-limit: 3s\n"))
	f.Add([]byte("trusted-proxies: [10.0.0.0/8]\nallow-host: a,b\n---\nx"))
	f.Add([]byte("a: &a [*a, *a]\n"))
	f.Add([]byte("max-page: 1e99\ncache: -1\nrate-limit: .nan\n"))
	file := filepath.Join(f.TempDir(), "colophon.yaml")
	f.Fuzz(func(t *testing.T, text []byte) {
		require.NoError(t, os.WriteFile(file, text, 0o600))
		config := Config{}.WithDefaults()
		err := config.readFile(file)
		if err == nil {
			err = config.WithDefaults().validate()
		}
		if err != nil && !bytes.Contains(text, []byte(" in")) { // an error can quote a part of the file that looks like a type name
			require.NotRegexp(t, goType, err.Error())
		}
	})
}

// text is a flag value whose printed form can be parsed again.
type text interface {
	encoding.TextMarshaler
	encoding.TextUnmarshaler
}

// FuzzFlags checks that parsing the printed form of a flag value returns the same value.
func FuzzFlags(f *testing.F) {
	for _, given := range []string{"64MiB", "1 TiB", "9223372036854775807", "a.example,b", "10.0.0.0/8, ::1", "warn+3", "90d", "12h", "2030-01-31T12:00:00Z"} {
		f.Add(given)
	}
	f.Fuzz(func(t *testing.T, given string) {
		for _, make := range []func() text{
			func() text { return new(size.Bytes) }, func() text { return new(limits.Networks) }, func() text { return new(HostNames) }, func() text { return new(logLevel) },
		} {
			read, again := make(), make()
			if read.UnmarshalText([]byte(given)) != nil {
				continue
			}
			shown, err := read.MarshalText()
			require.NoError(t, err)
			require.NoError(t, again.UnmarshalText(shown), "%q is shown as %q", given, shown)
			require.Equal(t, read, again)
		}
	})
}
