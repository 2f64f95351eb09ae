package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "localhost": true, "::ffff:127.0.0.1": true,
		"": false, "0.0.0.0": false, "::": false, "192.0.2.1": false, "example.org": false, "127.0.0.1.example.org": false,
	} {
		require.Equal(t, want, Loopback(host), "%q", host)
	}
}

func TestByteSizeReadsWhatItWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := Size(rapid.Int64Min(0).Draw(t, "bytes") >> rapid.IntRange(0, 62).Draw(t, "shift"))
		size <<= min(rapid.IntRange(0, 4).Draw(t, "unit")*10, 40)
		size = max(size, 0)
		text, err := size.MarshalText()
		require.NoError(t, err)
		var read Size
		require.NoError(t, read.UnmarshalText(text))
		require.Equal(t, size, read)
	})
}

func TestByteSizeRefuses(t *testing.T) {
	for _, text := range []string{"", "-1", "1MB", "1 megabyte", "MiB", "1.5GiB", "9223372036854775808", "8388608TiB", "0x10"} {
		var size Size
		require.ErrorContains(t, size.UnmarshalText([]byte(text)), "is not a size", text)
	}
	var size Size
	require.NoError(t, size.UnmarshalText([]byte("64 MiB")))
	require.Equal(t, Size(64<<20), size)
}
