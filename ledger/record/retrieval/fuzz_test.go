package retrieval

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/strict"
)

// FuzzRetrieval checks that Decode returns either a valid request or a *strict.Error.
func FuzzRetrieval(f *testing.F) {
	zeros := strings.Repeat("0", 64)
	f.Add([]byte(`{"sources":[{"id":"b","chunks":[{"text":"a \ud800","hash":"sha256:` + zeros + `"},{}]}],"top_k":3,"required":["sha256:` + zeros + `"]}`))
	f.Add([]byte(`{"sources":null,"top_k":-1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := Decode(body)
		if err != nil {
			var problem *strict.Error
			require.ErrorAs(t, err, &problem)
			require.NotEmpty(t, problem.Problems)
			return
		}
		require.LessOrEqual(t, len(r.Chunks), MaxChunks)
		require.GreaterOrEqual(t, r.TopK, 0)
		for _, hash := range r.RequiredHashes {
			require.Len(t, hash, len("sha256:")+64)
		}
	})
}
