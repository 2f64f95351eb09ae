package retrieval

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Decode refuses a request with too many chunks before the chunks use much memory, no matter how
// they are distributed over the sources.
func TestRetrievalsAreBounded(t *testing.T) {
	source := func(chunks int) string {
		return `{"chunks":[{}` + strings.Repeat(`,{}`, chunks-1) + `]}`
	}
	body := func(sources ...string) []byte {
		return []byte(`{"top_k":1,"sources":[` + strings.Join(sources, ",") + `]}`)
	}
	r, err := Decode(body(source(MaxChunks-1), source(1)))
	require.NoError(t, err)
	require.Len(t, r.Chunks, MaxChunks)
	for _, b := range [][]byte{body(source(MaxChunks + 1)), body(source(MaxChunks), source(1))} {
		_, err := Decode(b)
		require.ErrorContains(t, err, "exceeds the limit of 100000 chunks per request")
	}
}

// A request can contain every argument of the service's own retrieval function, including arguments
// that Decode ignores. top_k defaults to 5.
func TestRetrievalsAsTheServiceCallsIt(t *testing.T) {
	r, err := Decode([]byte(`{"query":"who?","seed":42,"sources":[{"id":"a","title":"t","score":0.5,"chunks":[{"text":"x","hash":"h","rank":1}]}]}`))
	require.NoError(t, err)
	require.Equal(t, 5, r.TopK)
	require.Len(t, r.Chunks, 1)
	require.Equal(t, "a", string(r.Chunks[0].SourceID))
	r, err = Decode([]byte(`{"sources":[],"top_k":0,"seed":null}`))
	require.NoError(t, err)
	require.Zero(t, r.TopK)
	for body, pointer := range map[string]string{
		`{"top_k":-1,"sources":[]}`: "/top_k", `{"top_k":1.0,"sources":[]}`: "/top_k", `{"sources":[1]}`: "/sources/0",
		`{"sources":[{"chunks":["x"]}]}`: "/sources/0/chunks/0", `{"sources":[],"mood":1}`: "/mood",
	} {
		_, err := Decode([]byte(body))
		require.ErrorContains(t, err, pointer)
	}
}
