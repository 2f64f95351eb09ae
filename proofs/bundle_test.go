package proofs

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestBundles(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		entries := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 300), 1, FullTileWidth).Draw(r, "entries")
		var bundle []byte
		var err error
		for _, entry := range entries {
			bundle, err = AppendBundleEntry(bundle, entry)
			require.NoError(r, err)
		}
		got, err := ParseBundle(bundle)
		require.NoError(r, err)
		require.Len(r, got, len(entries))
		for i := range entries {
			require.True(r, bytes.Equal(entries[i], got[i]))
		}
	})
}

func TestBundleLimits(t *testing.T) {
	longest := make([]byte, MaxEntryBytes)
	bundle, err := AppendBundleEntry(nil, longest)
	require.NoError(t, err)
	require.Equal(t, []byte{0xff, 0xff}, bundle[:2])
	entries, err := ParseBundle(bundle)
	require.NoError(t, err)
	require.Equal(t, [][]byte{longest}, entries)

	_, err = AppendBundleEntry(nil, make([]byte, MaxEntryBytes+1))
	require.ErrorIs(t, err, ErrTooLong)

	full := bytes.Repeat([]byte{0, 1, 'x'}, FullTileWidth)
	entries, err = ParseBundle(full)
	require.NoError(t, err)
	require.Len(t, entries, FullTileWidth)
	for _, bad := range [][]byte{nil, {0}, {0, 1}, {0, 2, 'x'}, {0, 1, 'x', 0}, append(full, 0, 1, 'x')} {
		_, err = ParseBundle(bad)
		require.ErrorIs(t, err, ErrMalformed, "%x", bad[:min(8, len(bad))])
	}
}

func FuzzParseBundle(f *testing.F) {
	f.Add([]byte{0, 1, 'x', 0, 0, 0, 2, 'y', 'z'})
	f.Add([]byte{0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, bundle []byte) {
		entries, err := ParseBundle(bundle)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		var again []byte
		for _, entry := range entries {
			again, err = AppendBundleEntry(again, entry)
			require.NoError(t, err)
		}
		require.Equal(t, bundle, again)
	})
}
