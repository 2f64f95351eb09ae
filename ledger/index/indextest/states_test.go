package indextest

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/ledger/index/counters"
	"colophon/ledger/index/records"
	"colophon/ledger/record"
)

// stateChange returns the body of the event that changes the state of a record.
func stateChange(t tester, seq uint64, state record.State) string {
	t.Helper()
	v, err := record.ParseStateChange(seq, fmt.Appendf(nil, `{"state":%q,"reason":"so"}`, state))
	require.NoError(t, err)
	return string(v.AppendBodyPrefix(nil, poster))
}

const smallDAG = `{"dag":{"root":"` + zeros + `","nodes":[{"stage":"question","hash":"` + zeros + `"}]}}`

func TestStates(t *testing.T) {
	log := newJournal(t, "default")
	log.append(
		string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil)),
		plain(t, 1),
		posted(t, record.KindRunDAG, smallDAG),
		stateChange(t, 1, record.StateFailed),
		stateChange(t, 2, record.StateQuarantined),
		stateChange(t, 1, record.StateFailed), // record 1 is already failed
		stateChange(t, 1, record.StateLive),
		stateChange(t, 1, record.StateFailed),
	)
	s := openTest(t, testConfig(vfs.NewMem()))
	f := follow(t, s, log)
	log.catchUp(f)
	for size, want := range map[uint64][2]record.State{
		3: {"live", "live"}, 4: {"failed", "live"}, 5: {"failed", "quarantined"}, 6: {"failed", "quarantined"},
		7: {"live", "quarantined"}, 8: {"failed", "quarantined"},
	} {
		v, err := f.View(size)
		require.NoError(t, err)
		listed := make(map[uint64]record.State)
		for _, state := range record.States {
			for _, r := range allRecords(t, v, records.List, records.Filter{State: state}, 10) {
				listed[r.Seq] = state
			}
		}
		require.Equal(t, map[uint64]record.State{1: want[0], 2: want[1]}, listed, "as of %d", size)
		for i, state := range want {
			got, err := records.StateOf(v, uint64(i)+1)
			require.NoError(t, err)
			require.Equal(t, string(state), got, "record %d as of %d", i+1, size)
		}
		require.NoError(t, v.Close())
	}
	counts := countsOf(f)
	require.Equal(t, uint64(3), counts[counters.SeriesOf(counters.MetricStateChanges, "failed")], "a repeated change to the same state is counted too")
	require.Equal(t, uint64(1), counts[counters.SeriesOf(counters.MetricStateChanges, "live")])
	require.Equal(t, uint64(1), counts[counters.SeriesOf(counters.MetricStateChanges, "quarantined")])
	require.NoError(t, s.Close())
}

// The log of another server can contain events that this server would not write. The fold ignores
// invalid state changes.
func TestInvalidStateChangesAreIgnored(t *testing.T) {
	log := newJournal(t, "default")
	log.append(
		plain(t, 0),
		posted(t, record.KindPathFingerprint, `{"project":"p","route":["a"]}`),
		stateChange(t, 1, record.StateFailed), // the target's kind has no state
		stateChange(t, 3, record.StateFailed), // the target is the event itself
		stateChange(t, 9, record.StateFailed), // the target does not exist
		rawBody("record_state_changed", `{}`, `{"record_seq":0,"state":"mellow"}`),
		rawBody("record_state_changed", `{}`, `{}`),
	)
	s := openTest(t, testConfig(vfs.NewMem()))
	f := follow(t, s, log)
	log.catchUp(f)
	v, err := f.LatestView()
	require.NoError(t, err)
	for seq := range log.head.Size {
		state, err := records.StateOf(v, seq)
		require.NoError(t, err)
		require.Equal(t, "live", state)
	}
	for series, n := range countsOf(f) {
		require.False(t, series.Metric == counters.MetricStateChanges && n > 0, series)
	}
	require.NoError(t, v.Close())
	require.NoError(t, s.Close())
}
