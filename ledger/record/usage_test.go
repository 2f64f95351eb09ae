package record

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/fields"
	"colophon/ledger/record/pyjson"
)

// withUsage parses a valid IPC record with the given usage. It returns the record, and the record
// member of its event.
func withUsage(t *testing.T, usage string) (*Record, pyjson.Value) {
	t.Helper()
	r := parse(t, KindIPCRecord, []byte(strings.Replace(goodIPC, `"o"`, `"o","usage":`+usage, 1)))
	var d pyjson.Document
	// Nest the event in an object, as a receipt does.
	require.NoError(t, d.Parse([]byte(`{"event":`+string(AppendBodySuffix(r.AppendBodyPrefix(nil, EventContext{}), 1, time.Unix(0, 0)))+`}`)))
	return r, d.Root().Member("event").Member("record")
}

// Usage without text is part of the event if it is within every limit.
func TestFiguresOfUsageAreInTheEvent(t *testing.T) {
	for _, usage := range []string{
		`{}`,
		`{"cached":true,"cost":null,"total_tokens":93}`,
		`{"details":[{"ms":1.5},{"ms":-2}],"empty":[[],{}]}`,
		`{"` + strings.Repeat("n", fields.MaxUsageNameBytes) + `":1}`,
		usageOf(fields.MaxUsageBytes),
		nested(fields.MaxUsageDepth),
	} {
		r, event := withUsage(t, usage)
		require.Equal(t, usage, string(event.Member("usage").Raw()))
		require.False(t, event.Member("content").Member("usage").IsGiven())
		for _, c := range r.Contents {
			require.NotEqual(t, "usage", c.Name)
		}
	}
}

// Usage that contains text or exceeds a limit becomes content, byte for byte, and none of it is in
// the event.
func TestOtherUsageIsContent(t *testing.T) {
	for _, usage := range []string{
		`{"note": "a secret"}`,
		`{"a":{"b":[1,{"c":"a secret"}]}}`,
		`{"":""}`,
		`{"` + strings.Repeat("n", fields.MaxUsageNameBytes+1) + `":1}`,
		`{"a":{"` + strings.Repeat("é", fields.MaxUsageNameBytes/2) + `n":1}}`,
		`{"a":` + strings.Repeat("7", fields.MaxUsageBytes) + `}`,
		usageOf(fields.MaxUsageBytes + 1),
		nested(fields.MaxUsageDepth + 1),
	} {
		r, event := withUsage(t, usage)
		require.False(t, event.Member("usage").IsGiven(), "%.100s", usage)
		require.NotContains(t, string(r.AppendBodyPrefix(nil, EventContext{})), "secret")
		var kept []Content
		for _, c := range r.Contents {
			if c.Name == "usage" {
				kept = append(kept, c)
			}
		}
		require.Len(t, kept, 1, "%.100s", usage)
		require.Equal(t, usage, string(kept[0].Bytes))
		digest := sha256.Sum256([]byte(usage))
		named := event.Member("content").Member("usage")
		require.Equal(t, hex.EncodeToString(digest[:]), string(named.Member("sha256").Text()))
		require.Equal(t, fmt.Sprint(len(usage)), string(named.Member("size").Raw()))
	}
}

// No hash covers usage.
func TestUsageIsInNoHash(t *testing.T) {
	without := string(parse(t, KindIPCRecord, []byte(goodIPC)).HashesJSON())
	for _, usage := range []string{`null`, `{"n":1}`, `{"n":"one"}`} {
		r, _ := withUsage(t, usage)
		require.Equal(t, without, string(r.HashesJSON()))
	}
}

// usageOf returns usage whose canonical form has size bytes.
func usageOf(size int) string {
	const empty = `{"a":[]}`
	digits := size - len(empty)
	return `{"a":[` + strings.Repeat("1,", (digits-1)/2) + strings.Repeat("1", digits-(digits-1)/2*2) + `]}`
}

// nested returns usage whose JSON has the given nesting depth.
func nested(brackets int) string {
	return `{"a":` + strings.Repeat("[", brackets-1) + strings.Repeat("]", brackets-1) + `}`
}
