package replay

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/api"
	"colophon/internal/datadir"
	"colophon/internal/server"
	"colophon/internal/testing/ledgertest"
)

// For each GET route, either the audit compares the responses, or docs/audit.md says why it
// does not.
func TestEveryRouteIsAuditedOrDocumented(t *testing.T) {
	w := compareLedger(t, ledgertest.NewPopulated(t, 25))
	routes := routesOf(t)
	asked := make(map[string]bool)
	for _, q := range asClientsAsk(w.questions.all(), w.size, 5) {
		asked[patternOf(t, routes, q)] = true
	}
	document, err := os.ReadFile("../../docs/audit.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(document), "## Routes that are not compared")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	for _, route := range routes {
		pattern, get := strings.CutPrefix(route, "GET ")
		if !get {
			continue
		}
		named := strings.Contains(table, "`"+pattern+"`")
		require.NotEqual(t, asked[pattern], named, "%s: either the audit queries the route or the document says why not", pattern)
	}
}

// Different seeds produce different questions, so that a server cannot predict them. The same seed
// produces the same questions.
func TestSeedRepeatsTheQuestions(t *testing.T) {
	world := ledgertest.NewPopulated(t, 5)
	w := compareLedger(t, world)
	asked := func(seed uint64) (list []string) {
		for _, q := range asClientsAsk(w.questions.all(), w.size, seed) {
			list = append(list, q.at(pageRequest{size: q.asOf, limit: q.limit}))
		}
		return list
	}
	require.Equal(t, asked(5), asked(5))
	require.NotEqual(t, asked(5), asked(6))
	forms := make(map[string]bool)
	for _, q := range asked(5) {
		for _, name := range []string{"as_of=", "limit=", "after=", "proofs=", "sort=", "since=", "until=", "min_runs=", "min_outputs="} {
			path, parameters, _ := strings.Cut(q, "?")
			if path == "/drift/groups" {
				forms[fmt.Sprint(name, strings.Contains(parameters, name))] = true
			}
		}
	}
	require.Len(t, forms, 18, "/drift/groups is requested with and without each parameter")
}

// Adding a question changes neither the random variations of the other questions nor their order.
func TestNewQuestionsDoNotShiftOthers(t *testing.T) {
	b := &questionBuilder{}
	for i := range 100 {
		b.ask("/records", rowsList, "kind", decimal(uint64(i)))
		b.ask("/records", rowsList, "kind", decimal(uint64(i/2)))
		b.askAll("/drift/groups", "by", decimal(uint64(i)))
	}
	asked := func(list []question) (texts []string) {
		for _, q := range asClientsAsk(list, 1000, 7) {
			if q.path != "/producers" {
				texts = append(texts, q.at(pageRequest{size: q.asOf, limit: q.limit})+" "+strconv.Itoa(q.pages))
			}
		}
		return texts
	}
	before := asked(b.questions)
	atHead := 0
	for _, q := range asClientsAsk(b.questions, 1000, 7) {
		if q.asOf == 0 || q.asOf == 1000 {
			atHead++
		}
	}
	require.Equal(t, 400, atHead, "an older size never replaces the newest one")
	require.Greater(t, len(before), atHead)
	require.Greater(t, len(slices.Compact(slices.Sorted(slices.Values(before)))), 200, "the variations differ")
	b.ask("/producers", rowsList)
	require.Equal(t, before, asked(append(b.questions[len(b.questions)-1:], b.questions[:len(b.questions)-1]...)))
}

// routesOf returns the routes of a server that exports metrics.
func routesOf(t testing.TB) []string {
	t.Helper()
	data := t.TempDir()
	log := slog.New(slog.DiscardHandler)
	n, err := server.OpenNode(context.Background(), server.Config{DataDir: data}.WithDefaults(), datadir.KeyFiles(data), log)
	require.NoError(t, err)
	service, err := api.New(api.Config{Host: n.Host, Index: n.Index, Logger: log, SpoolDir: datadir.SpoolFolder(data), Version: "test"})
	require.NoError(t, err)
	require.NoError(t, n.Close())
	return service.Routes()
}
