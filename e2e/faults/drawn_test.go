package faults_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
)

// undrawnKinds lists the kinds of events that random requests never cause. The ledger itself writes the
// first event. Random requests do not rotate keys, revoke sources, or post records that the ledger
// refuses.
var undrawnKinds = map[record.Kind]bool{record.KindLedgerCreated: true, record.KindRecordRefused: true, record.KindKeyRotated: true, record.KindSourceRevoked: true}

// Random histories contain every kind of event except undrawnKinds, and every member from which the
// index derives rows.
func TestEverythingIsDrawn(t *testing.T) {
	h := newHistory("world", 1)
	kinds := make(map[record.Kind]int)
	members := make(map[string]int)
	changes := 0 // number of attempts that change the states of several records
	for range 5000 {
		a := h.draw()
		h.acks = append(h.acks, &ack{attempt: a, seq: uint64(a.id) + 1})
		kinds[a.kind]++
		if len(a.targets) > 1 {
			changes++
		}
		for _, member := range []string{`"topic":`, `"original_actor":`, `"branch":`, `"base":`, `"inputs":`, `"audit_mode":"STRICT"`, `"n_verified":0`,
			`"document_root":`, `"evidence":`, `"dag":`, `"payload":{"question":`, `"seed":`, `"system_prompt":`, `"max_tokens":`, `"validated":false`, `"state":"stale"`} {
			if bytes.Contains(a.body, []byte(member)) {
				members[member]++
			}
		}
		for _, lacking := range []string{`"seed":`, `"system_prompt":`, `"max_tokens":`} {
			if a.kind == record.KindIPCRecord && !bytes.Contains(a.body, []byte(lacking)) {
				members["without "+lacking]++
			}
		}
	}
	for _, kind := range record.EventKinds {
		require.Equal(t, undrawnKinds[kind], kinds[kind] == 0, "%s occurs %d times in 5,000 attempts", kind, kinds[kind])
	}
	require.Positive(t, changes)
	require.Len(t, members, 19, "%v", members)
}
