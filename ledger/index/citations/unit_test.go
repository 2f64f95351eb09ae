package citations

import (
	"testing"

	"colophon/ledger/index/rowstore/rowstoretest"
)

// An arbitrary value is either reported as damaged or decoded to a state that survives a round
// trip.
func FuzzDecodeCitations(f *testing.F) {
	f.Add((&sourceState{registered: 1, listed: 1, chunks: 9}).append(nil))
	f.Add((&citedState{fresh: 1, from: 12, chunk: []byte("sha256:0")}).append(nil))
	f.Add((&supersession{how: byList, from: 1, to: 3, chunk: []byte{}}).append(nil))
	f.Add([]byte{1, 2, 3})
	f.Add([]byte{})
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, value []byte) {
		rowstoretest.RequireRoundTrip(t, value, decodeSourceState, func(s sourceState) []byte { return s.append(nil) })
		rowstoretest.RequireRoundTrip(t, value, decodeCitedState, func(s citedState) []byte { return s.append(nil) })
		rowstoretest.RequireRoundTrip(t, value, decodeSupersession, func(s supersession) []byte { return s.append(nil) })
	})
}
