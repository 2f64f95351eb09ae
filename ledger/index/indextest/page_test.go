package indextest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/index"
	"colophon/ledger/index/citations"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
)

// A page ends after a few MiB of events, even if it has not reached its row limit. The next page
// continues from there.
func TestAPageIsBoundedInBytes(t *testing.T) {
	const sets = 2 * rowstore.MaxPageBytes / (60 << 10)
	padding := strings.Repeat("x", 60<<10)
	var bodies []string
	for n := range sets {
		bodies = append(bodies, rawBody("citation_set", "{}", fmt.Sprintf(
			`{"subject":"x","citations":[{"chunk_hash":%q,"source_id":"s","section":%q,"weight":1}]}`, chunkOf(fmt.Sprint(n)), padding)))
	}
	f, log := foldBodies(t, bodies...)
	lists := map[string]func(v *index.View, p index.PageRequest) (int, []byte, error){
		"records": func(v *index.View, p index.PageRequest) (int, []byte, error) {
			rows, next, err := records.List(t.Context(), v, records.Filter{Values: []records.Value{{Name: "source_id", Text: "s"}}}, p)
			return len(rows), next, err
		},
		"by source": func(v *index.View, p index.PageRequest) (int, []byte, error) {
			rows, next, err := citations.SetsCitingSource(t.Context(), v, "s", p)
			return len(rows), next, err
		},
		"drift": func(v *index.View, p index.PageRequest) (int, []byte, error) {
			rows, next, err := citations.ListDrift(t.Context(), v, "x", p)
			return len(rows), next, err
		},
	}
	for name, list := range lists {
		v := viewOf(t, f, log.head.Size)
		all := 0
		for p := (index.PageRequest{Limit: 1000}); ; {
			before := v.EventBytesRead()
			rows, next, err := list(v, p)
			require.NoError(t, err)
			require.LessOrEqual(t, v.EventBytesRead()-before, rowstore.MaxPageBytes+3*len(padding), name)
			if all += rows; next == nil {
				break
			}
			require.Positive(t, rows, name)
			p.After = next
		}
		require.Equal(t, sets, all, name)
	}
}
