package capacity

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const us = time.Microsecond

var costs = Costs{Client: 10 * us, Before: 40 * us, Sequence: 10 * us, After: 10 * us, Index: 40 * us,
	ServerCommit: 50 * us, Database: 30 * us, DatabaseCommit: 100 * us, Wait: time.Millisecond}

// A single client waits for each step of its record except indexing, which overlaps with the next
// record.
func TestOneClient(t *testing.T) {
	p := Simulate(costs, Scenario{Servers: 1, Ledgers: 1, Clients: 1, ServerCores: 2, Together: true}, 1000)
	require.Equal(t, 1240*us, p.P50)
	require.InEpsilon(t, 1e6/1250, p.Rate, 0.01)
	require.InEpsilon(t, 1, p.PerCommit, 1e-9)
}

// Many clients keep all cores busy and share commits.
func TestManyClientsAreBoundByCores(t *testing.T) {
	costs := costs
	costs.Wait = 10 * us
	p := Simulate(costs, Scenario{Servers: 1, Ledgers: 4, Clients: 64, ServerCores: 2, Together: true}, 50_000)
	work := 140 + 150/p.PerCommit // µs of processor time per record
	require.InEpsilon(t, 2e6/work, p.Rate, 0.02)
	require.Greater(t, p.PerCommit, 3.0)
	require.InEpsilon(t, 1, p.Busy, 0.02)
}

// If commits wait for a long time, they limit the rate of a ledger. More ledgers then increase the total
// rate. More servers increase the rate only if one server has too few cores.
func TestLedgerBottleneck(t *testing.T) {
	slow := costs
	slow.Wait = 50 * time.Millisecond
	rate := func(servers, ledgers int) float64 {
		return Simulate(slow, Scenario{Servers: servers, Ledgers: ledgers, Clients: 64 * ledgers, ServerCores: 2, DatabaseCores: 8}, 20_000).Rate
	}
	// The first client that receives its answer posts its next record, which begins a commit. The records of
	// the other clients share the next commit.
	require.InEpsilon(t, 64/(2*0.05), rate(1, 1), 0.1)
	require.InEpsilon(t, 4*rate(1, 1), rate(1, 4), 0.1)
	require.InEpsilon(t, rate(1, 4), rate(2, 4), 0.1, "the wait must be the limit, not the server")
	slow.Wait = time.Millisecond
	require.Greater(t, rate(2, 4), 1.4*rate(1, 4), "the server must be the limit")
}

// Each server that follows the ledgers uses processor time for each record. The fewer polls a server
// makes, the less they cost per record.
func TestFollowers(t *testing.T) {
	costs := costs
	costs.Wait, costs.Follow, costs.FollowDatabase = 10*us, 60*us, 20*us
	rate := func(servers int) float64 {
		p := Simulate(costs, Scenario{Servers: servers, Ledgers: 4, Clients: 64, ServerCores: 2, Together: true}, 50_000)
		work := 140 + 150/p.PerCommit + float64(servers-1)*80 // µs of processor time per record
		require.InEpsilon(t, 2e6/work, p.Rate, 0.05, servers)
		return p.Rate
	}
	alone := rate(1)
	require.Greater(t, alone, 1.3*rate(2))
	require.Greater(t, rate(2), 1.1*rate(3))

	// With few clients, a poll finds few records. A longer interval between polls makes each record cheaper.
	costs.Poll, costs.PollDatabase = 200*us, 300*us
	often := rateOf(costs)
	costs.PollInterval = 20 * time.Millisecond
	require.Greater(t, rateOf(costs), 1.2*often)
}

func rateOf(c Costs) float64 {
	return Simulate(c, Scenario{Servers: 2, Ledgers: 4, Clients: 8, ServerCores: 2, Together: true}, 20_000).Rate
}
