package pyjson

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/cpython"
)

func TestMain(m *testing.M) { os.Exit(cpython.Main(m)) }

// vectors holds the content of testdata/vectors/canonical-json.json. The file stores each source as
// a JSON string, so the escapes of lone surrogates in a source are plain ASCII.
type vectors struct {
	Values []struct {
		JSON          string `json:"json"`
		Spaced        string `json:"spaced"`
		Compact       string `json:"compact"`
		SHA256Spaced  string `json:"sha256_spaced"`
		SHA256Compact string `json:"sha256_compact"`
	} `json:"values"`
	LoneSurrogates []struct {
		JSON   string `json:"json"`
		SHA256 string `json:"sha256_compact_wtf8"`
	} `json:"lone_surrogates"`
	Reject []struct {
		JSON string `json:"json"`
		Why  string `json:"why"`
	} `json:"reject"`
}

func readVectors(t testing.TB) vectors {
	data, err := os.ReadFile("../../../testdata/vectors/canonical-json.json")
	require.NoError(t, err)
	var v vectors
	require.NoError(t, json.Unmarshal(data, &v))
	require.NotEmpty(t, v.Values)
	require.NotEmpty(t, v.LoneSurrogates)
	require.NotEmpty(t, v.Reject)
	return v
}

func TestVectors(t *testing.T) {
	v := readVectors(t)
	var d Document // reused, to check that nothing from an earlier document remains
	for _, value := range v.Values {
		require.NoError(t, d.Parse([]byte(value.JSON)), value.JSON)
		spaced := d.Root().AppendCanonical(nil, SpacedForm)
		compact := d.Root().AppendCanonical(nil, CompactForm)
		require.Equal(t, value.Spaced, string(spaced))
		require.Equal(t, value.Compact, string(compact))
		require.Equal(t, value.SHA256Spaced, hexSHA256(spaced))
		require.Equal(t, value.SHA256Compact, hexSHA256(compact))
		_, found := d.Root().FindLoneSurrogate()
		require.False(t, found)
	}
	for _, value := range v.LoneSurrogates {
		require.NoError(t, d.Parse([]byte(value.JSON)), value.JSON)
		require.Equal(t, value.SHA256, hexSHA256(d.Root().AppendCanonical(nil, CompactForm)))
		_, found := d.Root().FindLoneSurrogate()
		require.True(t, found, value.JSON)
	}
	for _, value := range v.Reject {
		var syntax *SyntaxError
		require.ErrorAs(t, d.Parse([]byte(value.JSON)), &syntax, value.Why)
		require.Equal(t, Absent, d.Root().Kind())
	}
}

func hexSHA256(data []byte) string {
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:])
}
