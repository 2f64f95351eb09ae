//go:build !race

package record

import (
	"fmt"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAllocations checks the number of allocations, which, unlike a duration, does not vary between
// runs. It is excluded from race-detector builds, in which sync.Pool sometimes drops items.
func TestAllocations(t *testing.T) {
	body := benchBodies()["typical"]
	allocations := testing.AllocsPerRun(100, func() {
		r, err := Parse(KindIPCRecord, body)
		if err != nil {
			t.Fatal(err)
		}
		r.BodyPrefix(EventContext{Actor: "anonymous", Ledger: "default"})
		r.Release()
	})
	require.LessOrEqual(t, allocations, 3.0)
}

// Hashing does not split texts into lists of lines or words, because each element would need a
// slice header of 24 bytes. It allocates at most a fixed multiple of a text's length, whatever the
// text contains.
func TestHashingDoesNotSplitTexts(t *testing.T) {
	const size, most = 1 << 20, 8
	for name, c := range map[string]struct {
		kind Kind
		body string
	}{
		"content":       {KindPathFingerprint, `{"project":"p","route":["a"],"content":"%s"}`},
		"system prompt": {KindIPCRecord, `{"model":"m","temperature":0,"max_tokens":1,"payload":{},"system_prompt":"%s"}`},
		"output":        {KindIPCRecord, `{"model":"m","temperature":0,"max_tokens":1,"payload":{},"output":"%s"}`},
		"question":      {KindRunDAG, `{"dag":{"root":"` + zeros + `","nodes":[{"stage":"a","hash":"` + zeros + `"}]},"question":"%s"}`},
		"chunk":         {KindCitationSet, `{"subject":"s","citations":[{"source_id":"a","weight":1,"text":"%s"}]}`},
	} {
		for _, piece := range []string{`\n`, "a ", "[a](b)", "[[a]]", "  ", `\n\n\n`} {
			body := fmt.Appendf(nil, c.body, strings.Repeat(piece, size/len(piece)))
			sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
			metrics.Read(sample)
			before := sample[0].Value.Uint64()
			r, err := Parse(c.kind, body)
			require.NoError(t, err)
			r.Release()
			metrics.Read(sample)
			require.LessOrEqual(t, sample[0].Value.Uint64()-before, uint64(most*size), "%s of %q", name, piece)
		}
	}
}
