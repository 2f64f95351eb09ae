package rundags

import (
	"testing"

	"colophon/ledger/event"
	"colophon/ledger/index/rowstore/rowstoretest"
)

// A damaged value is an error or another value, never a panic.
func FuzzDecodeRunDAGs(f *testing.F) {
	f.Add((&latestRun{seq: 5, listed: true, stages: shortHashes([]event.Stage{{Name: []byte("question"), Hash: []byte("1")}, {}})}).append(nil))
	f.Add((&cachedSet{live: 2, latest: 8}).append(nil))
	f.Add([]byte{1, 2, 3})
	f.Add([]byte{})
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, value []byte) {
		rowstoretest.Reread(t, value, decodeLatestRun, func(l latestRun) []byte { return l.append(nil) })
		rowstoretest.Reread(t, value, decodeCachedSet, func(s cachedSet) []byte { return s.append(nil) })
		rowstoretest.Reread(t, value, decodeOutcome, func(o outcome) []byte { return o[:] })
	})
}
