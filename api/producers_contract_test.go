package api_test

import (
	"fmt"
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	producersOf = prefix + "/producers"
	producerOf  = prefix + "/producers/{id}"
)

// times matches the times of events in an answer.
var times = regexp.MustCompile(`"time":"[^"]*"`)

// numbered returns a server with records of two producers. The sequence numbers of web/7 have gaps
// and repetitions.
func numbered(t *testing.T) *server {
	s := newServer(t)
	for i, number := range []uint64{1, 2, 5, 2, 9, 0, 5, 9223372036854775807} {
		body := fmt.Sprintf(`{"producer":{"id":"web/7","seq":%d},"run_id":"r%d",%s`, number, i, goodIPC[1:])
		s.do(t, post(ipc, body), http.StatusCreated)
	}
	s.do(t, post(ipc, `{"producer":{"id":"batch","seq":1},`+goodIPC[1:]), http.StatusCreated)
	return s
}

func TestGapsAreAnsweredAsTheContractSays(t *testing.T) {
	s := numbered(t)
	const web = `"seq":8,"id":"web/7","records":8,"complete_to":2,"highest":9223372036854775807,"missing":9223372036854775802,"repeated":2`
	a := s.do(t, get(producersOf).asking("?after=9"), http.StatusOK)
	require.Equal(t, `{"as_of":10,"rows":[{"seq":9,"id":"batch","records":1,"complete_to":1,"highest":1,"missing":0,"repeated":0},{`+web+`}]}`+"\n", string(a.body))
	all := `{"as_of":10,` + web + `,"gaps":[{"from":3,"to":4},{"from":6,"to":8},{"from":10,"to":9223372036854775806}],` +
		`"duplicates":[{"seq":7,"producer_seq":5,"first_seq":3},{"seq":4,"producer_seq":2,"first_seq":2}]}`
	one := get(producerOf, "id", "web%2F7")
	a = s.do(t, one, http.StatusOK)
	require.Equal(t, all+"\n", string(a.body))

	var gaps, duplicates []any
	for query := "?as_of=10&limit=1&proofs=true"; query != ""; {
		var page struct {
			Gaps, Duplicates []any
			Next             string
		}
		s.do(t, one.asking(query), http.StatusOK).decode(t, &page)
		gaps, duplicates, query = append(gaps, page.Gaps...), append(duplicates, page.Duplicates...), ""
		if page.Next != "" {
			query = "?limit=1&cursor=" + page.Next
		}
	}
	require.Len(t, gaps, 3)
	require.Len(t, duplicates, 2)
	a = s.do(t, one.asking("?as_of=3"), http.StatusOK)
	require.Contains(t, string(a.body), `"complete_to":2,"highest":2,"missing":0,"repeated":0,"gaps":[],"duplicates":[]}`)
	requirePages(t, s, get(producersOf), "as_of=10", "")
}

func TestProblemsOfProducersAreAsTheContractSays(t *testing.T) {
	s := numbered(t)
	s.do(t, get(producerOf, "id", "web"), http.StatusNotFound)
	s.do(t, get(producerOf, "id", "web%2F7").asking("?as_of=1"), http.StatusNotFound)
	var page struct{ Next string }
	s.do(t, get(producersOf).asking("?as_of=10&limit=1"), http.StatusOK).decode(t, &page)
	s.do(t, get(producerOf, "id", "batch").asking("?cursor="+page.Next), http.StatusBadRequest)
	s.send(t, get(producersOf).asking("?limit=0"), http.StatusBadRequest)
}
