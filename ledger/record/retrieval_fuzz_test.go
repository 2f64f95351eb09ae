package record

import (
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/strict"
)

// FuzzRetrieval: a request for a pinned retrieval gives chunks and their number, or an error.
func FuzzRetrieval(f *testing.F) {
	f.Add([]byte(`{"sources":[{"id":"b","chunks":[{"text":"a \ud800","hash":"sha256:` + zeros + `"},{}]}],"top_k":3,"required":["sha256:` + zeros + `"]}`))
	f.Add([]byte(`{"sources":null,"top_k":-1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		chunks, required, top, err := DecodeRetrieval(body)
		if err != nil {
			var problem *strict.Error
			require.ErrorAs(t, err, &problem)
			require.NotEmpty(t, problem.Problems)
			return
		}
		require.LessOrEqual(t, len(chunks), MaxChunks)
		require.GreaterOrEqual(t, top, 0)
		for _, hash := range required {
			require.Len(t, hash, len("sha256:")+64)
		}
	})
}
