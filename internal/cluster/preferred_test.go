package cluster

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/storage/postgres"
)

// runningServers returns servers with the given IDs, all of which have the keys of all ledgers.
func runningServers(ledgers []string, ids ...string) (servers []postgres.RunningServer) {
	for _, id := range ids {
		servers = append(servers, postgres.RunningServer{LedgerServer: postgres.LedgerServer{ID: id}, Ledgers: ledgers})
	}
	return servers
}

func ledgerNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("ledger-%d", i))
	}
	return names
}

// moved counts the ledgers whose preferred server differs between before and after.
func moved(before, after map[string]string) (n int) {
	for name, id := range before {
		if after[name] != id {
			n++
		}
	}
	return n
}

// No server is preferred for much more than its share of the ledgers. When a server or a ledger comes or
// goes, few other ledgers move.
func TestPreferred(t *testing.T) {
	for n := range 40 {
		counts := make(map[string]int)
		for _, id := range PreferredWriters(ledgerNames(n), runningServers(ledgerNames(n), "a", "b", "c")) {
			counts[id]++
		}
		share := (n + 2) / 3
		require.LessOrEqual(t, max(counts["a"], counts["b"], counts["c"]), share+share/8, "%d ledgers", n)
		require.Equal(t, n, counts["a"]+counts["b"]+counts["c"])
	}

	const ledgers = 300
	names := ledgerNames(ledgers)
	all := PreferredWriters(names, runningServers(names, "a", "b", "c"))
	require.Equal(t, all, PreferredWriters(names, runningServers(names, "c", "a", "b")), "the order of the servers must not matter")
	lost := 0
	for _, id := range all {
		if id == "c" {
			lost++
		}
	}
	require.LessOrEqual(t, moved(all, PreferredWriters(names, runningServers(names, "a", "b"))), lost+ledgers/20)
	require.LessOrEqual(t, moved(all, PreferredWriters(ledgerNames(ledgers+1), runningServers(ledgerNames(ledgers+1), "a", "b", "c"))), ledgers/20)
}

// A few ledgers stay where they are when another one is created, unless it changes the limit.
func TestPreferredOfFewLedgers(t *testing.T) {
	for n := 3; n < 30; n++ {
		before, after := ledgerNames(n), ledgerNames(n+1)
		left := moved(PreferredWriters(before, runningServers(before, "a", "b", "c")), PreferredWriters(after, runningServers(after, "a", "b", "c")))
		if (n+2)/3 == (n+3)/3 {
			require.Zero(t, left, "%d ledgers", n)
		}
		require.LessOrEqual(t, left, (n+1)/2, "%d ledgers", n)
	}
}

// A ledger goes to a server that has its keys, even to one that is full. Servers without keys do not change
// how the others share the ledgers.
func TestPreferredHasKeys(t *testing.T) {
	twelve := ledgerNames(12)
	counts := make(map[string]int)
	for _, id := range PreferredWriters(twelve, append(runningServers(twelve, "a", "b"), runningServers(nil, "c")...)) {
		counts[id]++
	}
	require.Equal(t, map[string]int{"a": 6, "b": 6}, counts)

	names := ledgerNames(6)
	servers := append(runningServers(names, "a"), runningServers(nil, "b")...)
	preferred := PreferredWriters(append(names, "unknown"), servers)
	require.Len(t, preferred, len(names))
	for _, name := range names {
		require.Equal(t, "a", preferred[name])
	}
	require.Empty(t, PreferredWriters(names, nil))
}
