package drift

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
)

func TestHashesAreShortenedUnlessFull(t *testing.T) {
	hash := "0123456789abcdef"
	d := &commands{}
	require.Equal(t, "-", d.hashOr(nil))
	require.Equal(t, "0123456789ab…", d.hashOr(&hash))
	d.full = true
	require.Equal(t, "-", d.hashOr(nil))
	require.Equal(t, hash, d.hashOr(&hash))
}

// A label can be used in place of a hash only if all records with the label have the same hash,
// including the records on later pages.
func TestHashesOfALabelAreOnAllPages(t *testing.T) {
	for _, test := range []struct {
		pages []string // the first digit of the hash in each page's only row
		want  string
	}{
		{[]string{"1", "2", "1"}, "label:a=b must identify a single value of input_hash, but its records have 2 values: 100000000000…, 200000000000…; use the first digits of one hash, or a label whose records all have the same value"},
		{strings.Split("123456789abcdef", ""), "label:a=b must identify a single value of input_hash, but its records have more than 8 values: 100000000000…, 200000000000…, 300000000000…, 400000000000…, 500000000000…, 600000000000…, 700000000000…, 800000000000…, …; use the first digits of one hash, or a label whose records all have the same value"},
	} {
		page := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/content/") { // the error can quote the texts, but does not need them
				http.NotFound(w, r)
				return
			}
			require.Equal(t, "/v1/ledgers/default/records", r.URL.Path)
			require.Equal(t, "b", r.URL.Query().Get("label:a"))
			next := ""
			if page+1 < len(test.pages) {
				next = fmt.Sprintf(`,"next":"page%d"`, page+1)
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"as_of":9,"rows":[{"seq":%d,"hashes":{"input_hash":"%s"}}]%s}`, page+1, test.pages[page]+strings.Repeat("0", 63), next)
			page++
		}))
		defer server.Close()
		var out bytes.Buffer
		command := New(cli.New(nil, &out, &out, func(string) (string, bool) { return "", false }))
		command.SetArgs([]string{"effects", "input_hash", "label:a=b", "label:a=b", "--server", server.URL})
		command.SilenceErrors, command.SilenceUsage = true, true
		require.ErrorContains(t, command.Execute(), test.want)
	}
}
