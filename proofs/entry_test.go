package proofs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/pyjson"
)

// hexHash parses a hash without using the code under test.
func hexHash(t testing.TB, text string) Hash {
	t.Helper()
	raw, err := hex.DecodeString(text)
	require.NoError(t, err)
	return Hash(raw)
}

// The chain and tree hashes match those in the test vectors, which were computed by CPython.
func TestVectors(t *testing.T) {
	raw, err := os.ReadFile("../testdata/vectors/audit-chain.json")
	require.NoError(t, err)
	var vectors struct {
		Genesis string `json:"genesis_prev_event_hash"`
		Events  []struct {
			Prev  string          `json:"prev_event_hash"`
			Body  json.RawMessage `json:"body"`
			Entry string          `json:"entry_hex"`
			Event string          `json:"event_hash"`
			Leaf  string          `json:"leaf_hash"`
			Root  string          `json:"root"`
		} `json:"events"`
	}
	require.NoError(t, json.Unmarshal(raw, &vectors))
	require.NotEmpty(t, vectors.Events)

	var chain Chain
	require.Equal(t, hexHash(t, vectors.Genesis), chain.Tip)
	tree, err := OpenTree(0, nil, nil)
	require.NoError(t, err)
	for _, v := range vectors.Events {
		var doc pyjson.Document
		require.NoError(t, doc.Parse(v.Body))
		body := doc.Root().AppendCanonical(nil, pyjson.CompactForm)
		entry := AppendEntry(nil, hexHash(t, v.Prev), body)
		require.Equal(t, v.Entry, hex.EncodeToString(entry))

		link, err := chain.Advance(entry)
		require.NoError(t, err)
		require.Equal(t, body, link.Body)
		require.Equal(t, hexHash(t, v.Event), link.EventHash)
		require.Equal(t, hexHash(t, v.Event), chain.Tip)
		require.Equal(t, hexHash(t, v.Leaf), link.LeafHash)
		tree.Append(link.LeafHash)
		require.Equal(t, hexHash(t, v.Root), tree.Root())
	}
	require.Equal(t, uint64(len(vectors.Events)), chain.Size)
}

// EventHash and LeafHash match their definitions for entries of all lengths. Only short entries are
// hashed without an allocation.
func TestHashesByDefinition(t *testing.T) {
	prev := Hash{1, 2, 3}
	for _, n := range []int{1, 100, 4062, 4063, 4064, 4065, 5000, MaxEntryBytes - HashSize} {
		body := []byte(strings.Repeat("x", n))
		entry := AppendEntry(nil, prev, body)
		require.Equal(t, sha256.Sum256(entry), EventHash(prev, body))
		require.Equal(t, sha256.Sum256(append([]byte{0}, entry...)), LeafHash(entry))
	}
	left, right := testLeaf(1), testLeaf(2)
	require.Equal(t, sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...)), NodeHash(left, right))
	require.Equal(t, sha256.Sum256(nil), EmptyRoot())
}

func TestSplitEntry(t *testing.T) {
	prev, body, err := SplitEntry(AppendEntry(nil, Hash{7}, []byte("{}")))
	require.NoError(t, err)
	require.Equal(t, Hash{7}, prev)
	require.Equal(t, "{}", string(body))

	_, _, err = SplitEntry(make([]byte, HashSize))
	require.ErrorIs(t, err, ErrMalformed)
	_, _, err = SplitEntry(make([]byte, MaxEntryBytes))
	require.NoError(t, err)
	_, _, err = SplitEntry(make([]byte, MaxEntryBytes+1))
	require.ErrorIs(t, err, ErrTooLong)
}

func TestChainRefuses(t *testing.T) {
	var chain Chain
	_, err := chain.Advance(AppendEntry(nil, Hash{1}, []byte("{}")))
	require.ErrorIs(t, err, ErrChainLink)
	_, err = chain.Advance(AppendEntry(nil, Hash{}, nil))
	require.ErrorIs(t, err, ErrMalformed)
	require.Equal(t, Chain{}, chain)
	_, err = chain.Advance(AppendEntry(nil, Hash{}, []byte("{}")))
	require.NoError(t, err)
}

func TestParseHash(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 4)
	h, err := ParseHash(text)
	require.NoError(t, err)
	require.Equal(t, text, hex.EncodeToString(h[:]))
	for _, bad := range []string{"", text[1:], text + "0", "A" + text[1:], "g" + text[1:], " " + text[1:]} {
		_, err := ParseHash(bad)
		require.ErrorIs(t, err, ErrMalformed, "%q", bad)
	}
}
