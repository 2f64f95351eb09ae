package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/storage"
	"colophon/storage/memory"
)

// distant is a store whose look-ups and commits take a while, as if it were on another machine.
type distant struct {
	storage.Store
	committing atomic.Bool
	overlapped atomic.Int32 // number of look-ups that began during a commit

	failLookUp atomic.Bool             // look-ups fail
	commit     func(size uint64) error // called before a commit; may be nil
}

var errDistant = errors.New("the store does not respond")

func (d *distant) KeyClaims(ctx context.Context, keys []storage.Hash) ([]storage.Claim, error) {
	if d.committing.Load() {
		d.overlapped.Add(1)
	}
	if d.failLookUp.Load() {
		return nil, errDistant
	}
	claims, err := d.Store.KeyClaims(ctx, keys)
	time.Sleep(rand.N(300 * time.Microsecond)) // the answer can be outdated when it arrives
	return claims, err
}

func (d *distant) Commit(ctx context.Context, old storage.Head, b storage.Batch) error {
	d.committing.Store(true)
	defer d.committing.Store(false)
	time.Sleep(rand.N(500 * time.Microsecond))
	if d.commit != nil {
		if err := d.commit(old.Size); err != nil {
			return err
		}
	}
	return d.Store.Commit(ctx, old, b)
}

func openDistant(t *testing.T, d *distant, change func(*ledger.Config)) *ledger.Ledger {
	c := config(t)
	c.LookUpKeysAhead = true
	if change != nil {
		change(&c)
	}
	return open(t, d, c)
}

// If keys are looked up while a commit is in progress, a key is still claimed only once, although many
// writers post records with the same keys at the same time.
func TestKeysLookedUpAheadAreClaimedOnce(t *testing.T) {
	const keys, writers, posts = 40, 16, 60
	d := &distant{Store: store(t, memory.New())}
	l := openDistant(t, d, nil)
	var appended, holders [keys]atomic.Uint64 // for each key: number of records appended; seq of the event that holds the key
	parallel(writers, func(w int) {
		for n := range posts {
			key := (w + n*7) % keys
			s := submission(t, l, ipc(t, fmt.Sprint("run/", key), fmt.Sprint("output ", key, " ", rand.IntN(2))), "")
			ack, err := l.Submit(s)
			if err != nil {
				t.Error(err)
				return
			}
			holder := ack.KeyHolderSeq
			if ack.Outcome == ledger.OutcomeAppended {
				appended[key].Add(1)
				holder = ack.Seq
			}
			if before := holders[key].Swap(holder); before != 0 && before != holder {
				t.Errorf("key %d: held by events %d and %d", key, before, holder)
			}
		}
	})
	for key := range keys {
		require.EqualValues(t, 1, appended[key].Load(), "key %d", key)
	}
	require.Positive(t, d.overlapped.Load())
	require.NoError(t, l.Close())
	again := open(t, d.Store, config(t))
	require.Equal(t, l.Head().Checkpoint, again.Head().Checkpoint)
}

// If a look-up fails, the submissions in its batch fail, and the ledger continues.
func TestFailedLookUpAhead(t *testing.T) {
	d := &distant{Store: store(t, memory.New())}
	l := openDistant(t, d, nil)
	post(t, l, ipc(t, "run/1", "1"), "")
	size := l.Head().Size
	d.failLookUp.Store(true)
	_, err := l.Submit(submission(t, l, ipc(t, "run/2", "2"), ""))
	require.ErrorIs(t, err, errDistant)
	require.Equal(t, size, l.Head().Size)
	d.failLookUp.Store(false)
	require.Equal(t, ledger.OutcomeAppended, post(t, l, ipc(t, "run/2", "2"), "").Outcome)
	require.Equal(t, ledger.OutcomeReplayed, post(t, l, ipc(t, "run/1", "1"), "").Outcome)
	d.failLookUp.Store(true)
	require.NoError(t, l.Close())
}

// If the outcome of a commit is unknown, the submissions that wait for the next commit fail too.
func TestUnknownOutcomeFailsGroupsAhead(t *testing.T) {
	failing, fail := make(chan struct{}), make(chan struct{})
	d := &distant{Store: store(t, memory.New()), commit: func(size uint64) error {
		if size == 0 {
			return nil
		}
		close(failing)
		<-fail
		return errDistant
	}}
	fatal := make(chan error, 1)
	l := openDistant(t, d, func(c *ledger.Config) { c.OnFatal = func(err error) { fatal <- err } })
	var tickets []ledger.Ticket
	for n := range 20 {
		if n == 1 {
			<-failing
		}
		if n == 10 {
			require.Eventually(t, func() bool { return d.overlapped.Load() > 0 }, time.Minute, time.Millisecond, "keys are looked up ahead")
		}
		ticket, err := l.Enqueue(t.Context(), submission(t, l, ipc(t, fmt.Sprint("run/", n), "output"), ""))
		require.NoError(t, err)
		tickets = append(tickets, ticket)
	}
	close(fail)
	for _, ticket := range tickets {
		_, err := ticket.Wait()
		require.ErrorIs(t, err, ledger.ErrOutcomeUnknown)
	}
	require.ErrorIs(t, <-fatal, errDistant)
	_, err := l.Submit(submission(t, l, ipc(t, "", "late"), ""))
	require.ErrorIs(t, err, ledger.ErrOutcomeUnknown)
	require.NoError(t, l.Close())
}

// A commit has no more items than the limit, although keys are looked up ahead. Closing the ledger commits
// everything that was accepted.
func TestGroupsAheadAreBounded(t *testing.T) {
	const limit, records = 3, 20
	s := store(t, memory.New())
	held := make(chan struct{})
	largest := uint64(0)
	before := uint64(0)
	d := &distant{Store: s, commit: func(size uint64) error {
		largest, before = max(largest, size-before), size
		if size > 0 {
			<-held
		}
		return nil
	}}
	l := openDistant(t, d, func(c *ledger.Config) { c.MaxPendingRecords = limit })
	var tickets []ledger.Ticket
	enqueue := func(ctx context.Context) error {
		ticket, err := l.Enqueue(ctx, submission(t, l, ipc(t, fmt.Sprint("run/", len(tickets)), "output"), ""))
		if err == nil {
			tickets = append(tickets, ticket)
		}
		return err
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for enqueue(cancelled) == nil || l.QueueLength() <= limit {
	}
	require.LessOrEqual(t, len(tickets), 3*limit, "one group is being committed, one is ready, and one batch is pending")
	close(held)
	for len(tickets) < records {
		require.NoError(t, enqueue(t.Context()))
	}
	require.NoError(t, l.Close())
	for _, ticket := range tickets {
		ack, err := ticket.Wait()
		require.NoError(t, err)
		require.NoError(t, verify(l, ack))
	}
	require.LessOrEqual(t, max(largest, l.Head().Size-before), uint64(limit))
	require.EqualValues(t, records+1, l.Head().Size)
}
