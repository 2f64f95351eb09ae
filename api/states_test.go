package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/client/wire"
)

// stateChanges is the response to a bulk state change, with the receipts exactly as the server sent
// them.
type stateChanges struct {
	wire.StateChangeResult
	Receipts []json.RawMessage `json:"receipts"`
}

// changing requests a bulk state change and returns the response.
func (s *service) changing(body string) (r stateChanges) {
	s.t.Helper()
	s.post("/state-changes", body).want(http.StatusOK).json(&r)
	return r
}

// statesOf returns the states of the given records, with "" for a record whose kind has no state.
func (s *service) statesOf(seqs ...uint64) (states []string) {
	s.t.Helper()
	for _, seq := range seqs {
		var row struct{ State string }
		s.get(fmt.Sprintf("/records/%d?after=%d", seq, s.size()-1)).want(http.StatusOK).json(&row)
		states = append(states, row.State)
	}
	return states
}

// After a dry run, one request changes the states of all records that a filter selects. Each change
// is one event with the original actor and time.
func TestManyStatesAreChanged(t *testing.T) {
	s := start(t)
	dag := func(root string) string {
		return `{"cache_dimensions":{"source_root":"` + root + `","question_hash":"` + zeros + `","model_profile_hash":"` + zeros + `","conversation_hash":"` + zeros +
			`","governance_policy_hash":"` + zeros + `","schema_version":"1","canonicalization_version":"1","chunking_version":"1"},` + dagBody[1:]
	}
	const other = "1111111111111111111111111111111111111111111111111111111111111111"
	for _, root := range []string{zeros, other, zeros, zeros} { // seqs 1 to 4
		s.post("/run-dags", dag(root)).want(http.StatusCreated)
	}
	s.post("/citation-sets", setBody).want(http.StatusCreated)                                 // seq 5
	s.post("/records/3/state", `{"state":"stale","reason":"before"}`).want(http.StatusCreated) // seq 6
	const asked = `"state":"stale","reason":"gone","original_actor":"ana","timestamp":"2025-11-30T12:00:00Z"`
	filter := `{` + asked + `,"filter":{"source_root":"` + zeros + `"}`
	dry := s.changing(filter + `}`)
	require.Equal(t, wire.StateChangeResult{AsOf: 7, DryRun: true, Records: 2, AlreadySet: 1, FirstSeqs: []uint64{1, 4}}, dry.StateChangeResult)
	require.Empty(t, dry.Receipts)
	require.Equal(t, uint64(7), s.size())

	s.post("/run-dags", dag(zeros)).want(http.StatusCreated) // seq 7, recorded after the dry run
	done := s.changing(filter + `,"dry_run":false,"as_of":7}`)
	require.Equal(t, wire.StateChangeResult{AsOf: 7, Records: 2, AlreadySet: 1, FirstSeqs: []uint64{1, 4}}, done.StateChangeResult)
	require.Len(t, done.Receipts, 2)
	require.Equal(t, []string{"stale", "live", "stale", "stale", "", "live"}, s.statesOf(1, 2, 3, 4, 5, 7))
	for i, seq := range []uint64{1, 4} {
		receipt := s.verify(done.Receipts[i])
		require.Equal(t, uint64(8+i), receipt.Seq)
		var event wire.Event
		require.NoError(t, json.Unmarshal(receipt.Proof.Event, &event))
		var change wire.RecordStateChangedEvent
		require.NoError(t, json.Unmarshal(event.Record, &change))
		require.Equal(t, seq, change.RecordSeq)
		require.Equal(t, wire.ActionOrigin{OriginalActor: "ana", Timestamp: "2025-11-30T12:00:00Z"}, change.ActionOrigin)
	}
	again := s.changing(filter + `,"dry_run":false,"as_of":7}`)
	require.Equal(t, wire.StateChangeResult{AsOf: 7, AlreadySet: 3, FirstSeqs: []uint64{}}, again.StateChangeResult)

	listed := s.changing(`{"state":"live","reason":"back","seqs":[5,4,0],"dry_run":false,"as_of":10}`)
	require.Equal(t, wire.StateChangeResult{AsOf: 10, Records: 1, WithoutState: 2, FirstSeqs: []uint64{4}}, listed.StateChangeResult)
	require.Equal(t, []string{"live"}, s.statesOf(4))
	s.audited()
	s.post("/freeze", "").want(http.StatusOK)
	s.post("/state-changes", filter+`}`).problem(http.StatusForbidden)
}
