package api_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// The first digits of a hash stand for the only hash that begins with them.
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
		require.Contains(t, string(s.do(t, k, http.StatusNotFound).body), "no record has a value of "+path+" that begins with 00000000")
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

	// Two hashes that begin alike can only be claimed.
	for _, end := range []string{"a", "b"} {
		body := `{"payload":{},"model":"m","temperature":1,"max_tokens":1,"output_hash":"` + ferry[:63] + end + `"}`
		s.do(t, post(ipc, body), http.StatusCreated)
	}
	var p struct{ Detail string }
	s.do(t, get(prefix+"/records").asking("?after=9&output_hash="+ferry[:9]), http.StatusBadRequest).decode(t, &p)
	require.Equal(t, "output_hash: begins several hashes: "+ferry[:63]+"a, "+ferry[:63]+"b; give more digits", p.Detail)
	var list struct{ Rows []json.RawMessage }
	s.do(t, get(prefix+"/records").asking("?as_of=9&output_hash="+ferry[:9]), http.StatusOK).decode(t, &list)
	require.Len(t, list.Rows, 1, "the later one is not there yet")
}
