package importer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/record"
)

// keyOf returns the idempotency key in a line.
func keyOf(t require.TestingT, line []byte) string {
	parsed, err := record.ParseBatchLine(line)
	require.NoError(t, err)
	defer parsed.Record.Release()
	return parsed.Key
}

func TestKeysOfLinesWithoutAKey(t *testing.T) {
	const body = `{"payload":{"a":1.0},"model":"m","temperature":1,"max_tokens":16,"seed":1}`
	keys := newKeyer()
	complete := func(text string) string {
		l := line{text: []byte(text)}
		require.NoError(t, keys.complete(&l, ""))
		return string(l.text)
	}
	first := keyOf(t, []byte(complete(`{"kind":"ipc_record","record":`+body+`}`)))
	require.Regexp(t, `^import:[0-9a-f]{64}:1$`, first)
	second := keyOf(t, []byte(complete(`{"record":`+strings.Replace(body, `"a"`, `"\u0061"`, 1)+`,"idempotency_key":null,"kind":"ipc_record"}`)))
	require.Equal(t, strings.TrimSuffix(first, "1")+"2", second, "the same record in another spelling")
	third := keyOf(t, []byte(complete(`{"kind":"ipc_record","idempotency_key":"","record":`+strings.Replace(body, "1.0", "1", 1)+`}`)))
	require.NotEqual(t, first[:70], third[:70], "another record")

	for _, line := range []string{
		`{"kind":"ipc_record","record":` + body + `,"idempotency_key":"own"}`,
		`{"kind":"ipc_record","record":{"run_id":"r"}}`,
		`{"kind":"ipc_record","record":{"run_id":7}}`,
		`{"kind":"ipc_record","record":[]}`,
		`{"kind":null,"record":{}}`,
		`{"kind":"ipc_record","record":{},"mood":1}`,
		`{"kind":"ipc_record","record":{}`,
		`[]`, `null`, ``,
	} {
		require.Equal(t, line, complete(line), "the line must not change")
	}
}

func TestEqualLinesCountApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys, seen := newKeyer(), make(map[string]bool)
		for _, seed := range rapid.SliceOf(rapid.IntRange(0, 3)).Draw(t, "seeds") {
			l := line{text: fmt.Appendf(nil, `{"kind":"ipc_record","record":{"payload":{"seed":%d},"model":"m","temperature":1,"max_tokens":16}}`, seed)}
			require.NoError(t, keys.complete(&l, ""))
			key := keyOf(t, l.text)
			require.False(t, seen[key], "no key may occur twice")
			seen[key] = true
		}
	})
}
