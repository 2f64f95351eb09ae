package index

import (
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/event"
	"colophon/ledger/index/rowstore"
)

// reread checks that what a value decodes to is encoded as a value that decodes to the
// same.
func reread[S any](t *testing.T, value []byte, decode func([]byte) (S, error), encode func(S) []byte) {
	t.Helper()
	s, err := decode(value)
	if err != nil {
		require.ErrorIs(t, err, rowstore.ErrDamaged)
		return
	}
	again, err := decode(encode(s))
	require.NoError(t, err)
	require.Equal(t, s, again)
}

// A value that is damaged is an error or another value, and never a panic.
func FuzzDecodeCitationsAndRuns(f *testing.F) {
	producer := producerState{next: 300, highest: 1 << 62, delivered: 7, repeats: 1, zero: 1}
	source := sourceState{registered: 1, listed: 1, chunks: 9}
	cited := citedState{fresh: 1, from: 12, chunk: []byte("sha256:0")}
	superseded := supersession{how: byList, from: 1, to: 3, chunk: []byte{}}
	latest := latestRun{seq: 5, listed: true, stages: digested([]event.Stage{{Name: []byte("question"), Hash: []byte("1")}, {}})}
	cached := cachedSet{live: 2, latest: 8}
	numbers := block{any: bitmap{1}, all: bitmap{}}
	for _, value := range [][]byte{
		producer.append(nil), source.append(nil), cited.append(nil), superseded.append(nil), latest.append(nil),
		cached.append(nil), numbers.append(nil), {1, 2, 3}, {}, {0xff},
	} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		reread(t, value, decodeProducerState, func(s producerState) []byte { return s.append(nil) })
		reread(t, value, decodeSourceState, func(s sourceState) []byte { return s.append(nil) })
		reread(t, value, decodeCitedState, func(s citedState) []byte { return s.append(nil) })
		reread(t, value, decodeSupersession, func(s supersession) []byte { return s.append(nil) })
		reread(t, value, decodeLatestRun, func(l latestRun) []byte { return l.append(nil) })
		reread(t, value, decodeCachedSet, func(s cachedSet) []byte { return s.append(nil) })
		reread(t, value, decodeBlock, func(b block) []byte { return b.append(nil) })
		reread(t, value, decodeOutcome, func(o outcome) []byte { return o[:] })
	})
}
