package indextest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/record"
	"colophon/proofs"
	"colophon/storage"
	"colophon/storage/memory"
)

// A follower that is woken by the ledger's commits folds each event soon after the event's writer
// receives the acknowledgement.
func TestFollowsALiveLedger(t *testing.T) {
	const writers, each = 6, 40
	signer, err := proofs.GenerateKey().Signer("example.org/log")
	require.NoError(t, err)
	store, err := memory.New().CreateLedger(t.Context(), storage.LedgerInfo{Name: "default", Origin: "example.org/log"})
	require.NoError(t, err)
	l, err := ledger.Open(t.Context(), store, ledger.Config{Signer: signer})
	require.NoError(t, err)
	s := openTest(t, testConfig(vfs.NewMem()))
	f, err := s.Follow(l.Name(), l.Reader())
	require.NoError(t, err)
	l.OnCommit(func(ledger.Commit) { f.Wake() })

	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for n := range each {
				if err := writeAndFind(t, l, f, w*each+n); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	require.Equal(t, l.Head().Size, f.Size())
	require.Equal(t, uint64(writers*each), countsOf(f)[counters.SeriesOf(counters.MetricRecords, string(record.KindIPCRecord))])
	require.NoError(t, l.Close())
	require.NoError(t, s.Close())
}

func writeAndFind(t *testing.T, l *ledger.Ledger, f *index.Follower, n int) error {
	r, err := record.Parse(record.KindIPCRecord, fmt.Appendf(nil,
		`{"payload":{"seed":%d},"output":"o","model":"m","temperature":0.5,"max_tokens":9}`, n))
	if err != nil {
		return err
	}
	defer r.Release()
	submission, err := l.PrepareRecord(r, ledger.AnonymousActor, "")
	if err != nil {
		return err
	}
	ack, err := l.Submit(submission)
	if err != nil {
		return err
	}
	if err := f.WaitForSize(t.Context(), ack.Seq+1); err != nil {
		return err
	}
	seq, err := f.FindByHash(t.Context(), ack.EventHash, 0)
	if err == nil && seq != ack.Seq {
		err = fmt.Errorf("event %d found at %d", ack.Seq, seq)
	}
	return err
}
