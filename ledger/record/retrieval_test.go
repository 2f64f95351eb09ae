package record

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A retrieval of too many chunks is refused before it takes memory, however they are spread
// over sources.
func TestRetrievalsAreBounded(t *testing.T) {
	source := func(chunks int) string {
		return `{"chunks":[{}` + strings.Repeat(`,{}`, chunks-1) + `]}`
	}
	body := func(sources ...string) []byte {
		return []byte(`{"top_k":1,"sources":[` + strings.Join(sources, ",") + `]}`)
	}
	chunks, _, _, err := DecodeRetrieval(body(source(MaxChunks-1), source(1)))
	require.NoError(t, err)
	require.Len(t, chunks, MaxChunks)
	for _, b := range [][]byte{body(source(MaxChunks + 1)), body(source(MaxChunks), source(1))} {
		_, _, _, err := DecodeRetrieval(b)
		require.ErrorContains(t, err, "chunks in all")
	}
}
