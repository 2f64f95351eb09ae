package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The first digits of a hash identify it if no other hash begins with them.
func TestFirstDigitsOfHashes(t *testing.T) {
	s := generated(t)
	s.do(t, get(groupsOf).asking("?after=7&by=model"), http.StatusOK)
	same := func(whole, short call) {
		t.Helper()
		require.JSONEq(t, string(s.do(t, whole, http.StatusOK).body), string(s.do(t, short, http.StatusOK).body))
	}
	const output = "c160a7eefc7f14ab929c9d5882b2ca3b31304974bc8176621995f74e596dc299"
	same(get(timelineOf).asking("?input_hash="+ferry), get(timelineOf).asking("?input_hash="+ferry[:8]))
	same(get(timelineOf).asking("?limit=1&output_hash="+output), get(timelineOf).asking("?limit=1&output_hash="+output[:63]))
	same(get(groupOf, "by", "input_hash", "value", ferry), get(groupOf, "by", "input_hash", "value", ferry[:12]))
	same(get(prefix+"/records").asking("?output_hash="+output), get(prefix+"/records").asking("?output_hash="+output[:8]))

	for path, k := range map[string]call{
		"input_hash":  get(timelineOf).asking("?input_hash=00000000"),
		"output_hash": get(groupOf, "by", "output_hash", "value", "00000000"),
		"root":        get(prefix + "/records").asking("?root=00000000"),
	} {
		require.Contains(t, string(s.do(t, k, http.StatusNotFound).body), "no record has a value for "+path+" that begins with 00000000")
	}
	var record struct {
		EventHash string `json:"event_hash"`
	}
	const event = prefix + "/events/{hash}"
	s.do(t, get(prefix+"/records/{seq}", "seq", "4"), http.StatusOK).decode(t, &record)
	for _, digits := range []int{8, 11, 12, 13, 63} {
		same(get(event, "hash", record.EventHash), get(event, "hash", record.EventHash[:digits]))
	}
	s.do(t, get(event, "hash", "0000000000"), http.StatusNotFound)

	// The test cannot compute two hashes with the same first digits, so it sends such hashes as claims.
	for _, end := range []string{"a", "b"} {
		body := `{"payload":{},"model":"m","temperature":1,"max_tokens":1,"output_hash":"` + ferry[:63] + end + `"}`
		s.do(t, post(ipc, body), http.StatusCreated)
	}
	var p struct{ Detail string }
	s.do(t, get(prefix+"/records").asking("?after=9&output_hash="+ferry[:9]), http.StatusBadRequest).decode(t, &p)
	require.Equal(t, "output_hash: matches several hashes: "+ferry[:63]+"a, "+ferry[:63]+"b; use more digits", p.Detail)
	var list struct{ Rows []json.RawMessage }
	s.do(t, get(prefix+"/records").asking("?as_of=9&output_hash="+ferry[:9]), http.StatusOK).decode(t, &list)
	require.Len(t, list.Rows, 1, "the second hash is not yet in the ledger at this size")
}

// The hashes of chunks, stages, and documents can be shortened too, although they are not among the
// hashes of an event. Chunk hashes can also be shortened without their prefix.
func TestFirstDigitsOfChunksStagesAndDocuments(t *testing.T) {
	s := cited(t)
	same := func(whole, short call) {
		t.Helper()
		require.JSONEq(t, string(s.do(t, whole, http.StatusOK).body), string(s.do(t, short, http.StatusOK).body))
	}
	records := prefix + "/records"
	s.do(t, get(records).asking("?after=4"), http.StatusOK)
	whole := chunk(register)
	for _, short := range []string{whole[:15], whole[:70], whole[7:15], whole[7:]} {
		same(get(byChunkOf, "hash", whole), get(byChunkOf, "hash", short))
		same(get(records).asking("?chunk_hash="+whole), get(records).asking("?chunk_hash="+short))
	}
	a := s.do(t, get(byChunkOf, "hash", "sha256:00000000"), http.StatusNotFound)
	require.Contains(t, string(a.body), "no record has a value for chunk_hash that begins with sha256:00000000")
	s.send(t, get(byChunkOf, "hash", whole[:14]), http.StatusBadRequest)

	s = answered(t)
	var run struct {
		Event struct {
			Record struct {
				Nodes []struct{ Stage, Hash string }
			}
		}
	}
	s.do(t, get(records+"/{seq}", "seq", "1").asking("?after=5"), http.StatusOK).decode(t, &run)
	require.NotEmpty(t, run.Event.Record.Nodes)
	for _, node := range run.Event.Record.Nodes {
		for _, path := range []string{"/records", "/run-dags"} {
			ask := func(hash string) call { return get(prefix + path).asking("?stage:" + node.Stage + "=" + hash) }
			same(ask(node.Hash), ask(node.Hash[:8]))
		}
	}
	same(get(records).asking("?document_root="+digit("4")), get(records).asking("?document_root=44444444"))
	a = s.do(t, get(records).asking("?stage:answer=00000000"), http.StatusNotFound)
	require.Contains(t, string(a.body), "no record has a value for stage:answer that begins with 00000000")
	for _, end := range []string{"1", "2"} {
		hash := strings.Repeat("0", 63) + end
		s.do(t, post(prefix+"/run-dags", fmt.Sprintf(`{"dag":{"root":%q,"nodes":[{"stage":"mine","hash":%[1]q}]}}`, hash)), http.StatusCreated)
	}
	a = s.do(t, get(records).asking("?after=7&stage:mine=00000000"), http.StatusBadRequest)
	require.Contains(t, string(a.body), "matches several hashes: "+strings.Repeat("0", 63)+"1, ")

	// Filters in a body accept shortened hashes too.
	for _, kind := range []string{"/state-changes", "/redactions"} {
		change := func(filter string, status int) string {
			state := `"state":"stale",`
			if kind == "/redactions" {
				state = ""
			}
			return string(s.do(t, post(prefix+kind, `{`+state+`"reason":"r","filter":{`+filter+`}}`), status).body)
		}
		require.JSONEq(t, change(fmt.Sprintf(`"document_root":%q`, digit("4")), http.StatusOK), change(`"document_root":"44444444"`, http.StatusOK))
		require.Contains(t, change(`"stage:mine":"00000000"`, http.StatusUnprocessableEntity), `"pointer":"/filter/stage:mine"`)
		require.Contains(t, change(`"stage:mine":"10000000"`, http.StatusUnprocessableEntity), "no record has a value for stage:mine that begins with 10000000")
	}
}
