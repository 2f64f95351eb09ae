package size

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestByteSizeReadsWhatItWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := Bytes(rapid.Int64Min(0).Draw(t, "bytes") >> rapid.IntRange(0, 62).Draw(t, "shift"))
		value <<= min(rapid.IntRange(0, 4).Draw(t, "unit")*10, 40)
		value = max(value, 0)
		text, err := value.MarshalText()
		require.NoError(t, err)
		var read Bytes
		require.NoError(t, read.UnmarshalText(text))
		require.Equal(t, value, read)
	})
}

func TestByteSizeRefuses(t *testing.T) {
	for _, text := range []string{"", "-1", "1MB", "1 megabyte", "MiB", "1.5GiB", "9223372036854775808", "8388608TiB", "0x10"} {
		var value Bytes
		require.ErrorContains(t, value.UnmarshalText([]byte(text)), "is not a valid size", text)
	}
	var value Bytes
	require.NoError(t, value.UnmarshalText([]byte("64 MiB")))
	require.Equal(t, Bytes(64<<20), value)
}
