package rundags

import (
	"testing"

	"colophon/ledger/event"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/index/rowstore/rowstoretest"
)

// Any value is either reported as damaged or decoded to a state that survives a round trip through
// its encoding.
func FuzzDecodeRunDAGs(f *testing.F) {
	f.Add((&latestRun{seq: 5, listed: true, stages: shortHashes([]event.NamedHash{{Name: []byte("question"), Hash: []byte("1")}, {}})}).append(nil))
	f.Add((&cachedSet{live: 2, latest: 8}).append(nil))
	f.Add((&liveAll{2, 3}).append(nil))
	g := group{all: tally{2, 1, 4, 7}, live: tally{1, 1, 7, 7}}
	g.count(outcome{1, 2, 3}, 1, 2)
	f.Add(g.append(nil))
	f.Add((&group{all: tally{1, 1, 4, 4}, live: tally{1, 1, 4, 4}, answer: rowstore.IdentityOf([]byte("a"))}).append(nil))
	f.Add([]byte{1, 2, 3})
	f.Add([]byte{})
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, value []byte) {
		rowstoretest.RequireRoundTrip(t, value, decodeLatestRun, func(l latestRun) []byte { return l.append(nil) })
		rowstoretest.RequireRoundTrip(t, value, decodeCachedSet, func(s cachedSet) []byte { return s.append(nil) })
		rowstoretest.RequireRoundTrip(t, value, decodeLiveAll, func(n liveAll) []byte { return n.append(nil) })
		rowstoretest.RequireRoundTrip(t, value, decodeGroup, func(g group) []byte { return g.append(nil) })
		rowstoretest.RequireRoundTrip(t, value, decodeOutcome, func(o outcome) []byte { return o[:] })
	})
}
