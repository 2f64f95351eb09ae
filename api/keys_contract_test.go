package api_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/proofs"
)

// A key is rotated and retired twice. Everything that was signed in the meantime verifies with the keys that
// log/key returns at the end.
func TestKeysRotateAndRetire(t *testing.T) {
	s := newServer(t)
	keysOf := prefix + "/keys"
	step := func(name string) call { return verb(http.MethodPost, keysOf, `{"step":"`+name+`"}`) }
	history := func() *proofs.KeyHistory {
		h, err := proofs.ParseKeyHistory(s.do(t, call{method: http.MethodGet, route: keyOf, path: map[string]string{"ledger": "default"}}, http.StatusOK).body)
		require.NoError(t, err)
		return h
	}
	first := history().CurrentKey()
	s.do(t, step("retire"), http.StatusConflict)
	var receipts [][]byte
	for i, name := range []string{"rotate", "retire", "rotate", "retire"} {
		answer := s.do(t, step(name), http.StatusCreated).body
		require.Equal(t, "key_rotated", results(t, answer)[0].Kind)
		receipts = append(receipts, answer)
		s.do(t, step(name), http.StatusConflict)
		require.Equal(t, name == "rotate", history().OverlappingKey() != nil)
		require.Len(t, history().Verifiers(), 2+i/2)
	}
	s.send(t, step("turn"), http.StatusUnprocessableEntity)
	h := history()
	require.True(t, h.Contains(first))
	require.NotEqual(t, first.String(), h.CurrentKey().String())
	for i, text := range receipts {
		r, err := proofs.ParseReceipt(text)
		require.NoError(t, err)
		require.NoError(t, r.Verify(h.Verifiers()...))
		require.Equal(t, i == 0, r.Verify(first) == nil, "event %d", i+1)
	}
	var event struct {
		Record struct {
			Handover string `json:"handover"`
		} `json:"record"`
	}
	r, err := proofs.ParseReceipt(receipts[0])
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(r.Proof.Event, &event))
	require.Equal(t, string(h.ReplacedKeys()[1].HandoverNote), event.Record.Handover)
}
