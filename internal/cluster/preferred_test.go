package cluster

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/storage/postgres"
)

// If a server stops, only the ledgers it wrote move to other servers. Each server is preferred for
// about the same number of ledgers.
func TestPreferred(t *testing.T) {
	const ledgers = 300
	var names []string
	for i := range ledgers {
		names = append(names, fmt.Sprintf("ledger-%d", i))
	}
	var servers []postgres.RunningServer
	for _, id := range []string{"a", "b", "c"} {
		servers = append(servers, postgres.RunningServer{LedgerServer: postgres.LedgerServer{ID: id}, Ledgers: names})
	}
	counts := make(map[string]int)
	for _, name := range names {
		best := PreferredWriter(name, servers)
		counts[best]++
		require.Equal(t, best, PreferredWriter(name, []postgres.RunningServer{servers[2], servers[0], servers[1]}), "the order of the servers must not matter")
		if without := PreferredWriter(name, servers[:2]); best != "c" {
			require.Equal(t, best, without)
		}
	}
	for _, s := range servers {
		require.Greater(t, counts[s.ID], ledgers/5)
	}
	servers[0].Ledgers = []string{"other"}
	require.Equal(t, "a", PreferredWriter("other", servers))
	require.Empty(t, PreferredWriter("unknown", servers))
}
