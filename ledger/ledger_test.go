package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/ledger/record"
	"colophon/proofs"
	"colophon/storage"
	"colophon/storage/memory"
	"colophon/storage/storagetest"
)

func TestFirstEventDescribesTheLedger(t *testing.T) {
	l := memoryLedger(t)
	require.EqualValues(t, 1, l.Head().Size)
	entry, err := l.Reader().Entry(t.Context(), 0)
	require.NoError(t, err)
	r, err := proofs.NewReceipt(entry)
	require.NoError(t, err)
	require.Equal(t, string(record.KindLedgerCreated), r.Kind)
	require.Zero(t, r.PrevEventHash)
	require.Contains(t, string(entry), l.VerifierKey())
	require.Contains(t, string(entry), "test.invalid/default")
}

func TestConcurrentSubmissionsMakeOneChain(t *testing.T) {
	l := memoryLedger(t)
	const writers, each = 16, 50
	parallel(writers, func(w int) {
		last := uint64(0)
		for i := range each {
			ack := post(t, l, ipc(t, "", fmt.Sprint(w, i)), "")
			require.Equal(t, ledger.OutcomeAppended, ack.Outcome)
			require.Greater(t, ack.Seq, last)
			last = ack.Seq
		}
	})
	require.EqualValues(t, 1+writers*each, l.Head().Size)
	require.NoError(t, walk(t, l))
}

func TestEventsNeverGoBackInTime(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	c := config(t)
	c.Clock = func() time.Time { now = now.Add(-time.Hour); return now }
	l := open(t, store(t, memory.New()), c)
	first := post(t, l, ipc(t, "", "a"), "")
	second := post(t, l, ipc(t, "", "b"), "")
	require.Equal(t, first.Time, second.Time)
	require.NoError(t, walk(t, l))
}

func TestSameKeySameRecordIsReplayed(t *testing.T) {
	l := memoryLedger(t)
	first := post(t, l, ipc(t, "run/1", "a"), "")
	again := post(t, l, ipc(t, "run/1", "a"), "")
	require.Equal(t, ledger.OutcomeReplayed, again.Outcome)
	require.Equal(t, first.Seq, again.KeyHolderSeq)
	require.EqualValues(t, 2, l.Head().Size)

	chosen := post(t, l, ipc(t, "run/1", "a"), "key")
	require.Equal(t, ledger.OutcomeAppended, chosen.Outcome, "a chosen key takes precedence over the run's")
}

func TestSameKeyOtherRecordIsRefusedAndLogged(t *testing.T) {
	l := memoryLedger(t)
	first := post(t, l, ipc(t, "", "a"), "key")
	conflict := post(t, l, ipc(t, "", "b"), "key")
	require.Equal(t, ledger.OutcomeConflicted, conflict.Outcome)
	require.Equal(t, first.Seq, conflict.KeyHolderSeq)
	r, err := proofs.NewReceipt(conflict.Entry)
	require.NoError(t, err)
	require.Equal(t, string(record.KindRecordRefused), r.Kind)
	require.Equal(t, ledger.OutcomeReplayed, post(t, l, ipc(t, "", "a"), "key").Outcome, "the refusal claims no key")
}

// If Submission.MatchKeyOnly is set, a second submission with the same idempotency key replays the first
// record, even if the content differs.
func TestOnceUnderAKey(t *testing.T) {
	l := memoryLedger(t)
	once := func(output string) ledger.Ack {
		s := submission(t, l, ipc(t, "", output), "key")
		s.MatchKeyOnly = true
		ack, err := l.Submit(s)
		require.NoError(t, err)
		return ack
	}
	first := once("a")
	require.Equal(t, ledger.OutcomeAppended, first.Outcome)
	for _, output := range []string{"a", "b"} {
		again := once(output)
		require.Equal(t, ledger.OutcomeReplayed, again.Outcome)
		require.Equal(t, first.Seq, again.KeyHolderSeq)
		require.Equal(t, first.Entry, again.Entry)
	}
	require.EqualValues(t, 2, l.Head().Size)
	require.NoError(t, walk(t, l))
}

func TestRefusalClaimsNoKeyAndYieldsToAReplay(t *testing.T) {
	l := memoryLedger(t)
	mistaken := func(output string) *record.Record { // returns a record with a claim that does not match
		r, err := record.DefaultLimits().WithPayloadMemberSecret(memberSecret).ParseRecord(record.KindIPCRecord, fmt.Appendf(nil, `{"run_id":"run/1","payload":{"seed":1},"output":%q,"output_hash":"%064d","model":"m","temperature":0.5,"max_tokens":10}`, output, 0))
		require.NoError(t, err)
		return r
	}
	refuse := func(output string) ledger.Ack {
		ack, err := l.Submit(l.PrepareRefusal(mistaken(output), ledger.AnonymousActor, ""))
		require.NoError(t, err)
		return ack
	}
	require.Equal(t, ledger.OutcomeAppended, refuse("a").Outcome)
	require.Equal(t, ledger.OutcomeAppended, refuse("a").Outcome, "no key was claimed")
	first := post(t, l, mistaken("a"), "")
	require.Equal(t, ledger.OutcomeAppended, first.Outcome)
	replay := refuse("a")
	require.Equal(t, ledger.OutcomeReplayed, replay.Outcome)
	require.Equal(t, first.Seq, replay.KeyHolderSeq)
	require.Equal(t, ledger.OutcomeConflicted, refuse("b").Outcome)
	require.NoError(t, walk(t, l))
}

func TestWithoutKeyNothingIsDeduplicated(t *testing.T) {
	l := memoryLedger(t)
	require.NotEqual(t, post(t, l, ipc(t, "", "a"), "").Seq, post(t, l, ipc(t, "", "a"), "").Seq)
}

func TestOneKeyAtOnce(t *testing.T) {
	l := memoryLedger(t)
	var mu sync.Mutex
	outcomes := make(map[ledger.Outcome]int)
	parallel(40, func(i int) {
		ack, err := l.Submit(submission(t, l, ipc(t, "", fmt.Sprint(i%2)), "key"))
		require.NoError(t, err)
		mu.Lock()
		outcomes[ack.Outcome]++
		mu.Unlock()
	})
	require.Equal(t, map[ledger.Outcome]int{ledger.OutcomeAppended: 1, ledger.OutcomeReplayed: 19, ledger.OutcomeConflicted: 20}, outcomes)
	require.NoError(t, walk(t, l))
}

// gate is a store that blocks every commit except the first until open is closed.
type gate struct {
	storage.Store
	open chan struct{}
}

func (g *gate) Commit(ctx context.Context, old storage.Head, b storage.Batch) error {
	if old.Size > 0 {
		<-g.open
	}
	return g.Store.Commit(ctx, old, b)
}

func TestFullQueueRefusesSubmissions(t *testing.T) {
	g := &gate{store(t, memory.New()), make(chan struct{})}
	c := config(t)
	c.MaxPendingRecords = 3
	l := open(t, g, c)
	var tickets []ledger.Ticket
	enqueue := func() {
		ticket, err := l.Enqueue(t.Context(), submission(t, l, ipc(t, "", fmt.Sprint(len(tickets))), ""))
		require.NoError(t, err)
		tickets = append(tickets, ticket)
	}
	enqueue()
	require.Eventually(t, func() bool { return l.QueueLength() == 0 }, time.Minute, time.Millisecond, "the first is being committed")
	for range 3 {
		enqueue()
	}
	_, err := l.Submit(submission(t, l, ipc(t, "", "x"), ""))
	require.ErrorIs(t, err, ledger.ErrQueueFull)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Enqueue(ctx, submission(t, l, ipc(t, "", "x"), ""))
	require.ErrorIs(t, err, context.Canceled)
	waits := make(chan error)
	go func() {
		ticket, err := l.Enqueue(context.Background(), submission(t, l, ipc(t, "", "y"), ""))
		if err == nil {
			_, err = ticket.Wait()
		}
		waits <- err
	}()
	close(g.open)
	for _, ticket := range tickets {
		ack, err := ticket.Wait()
		require.NoError(t, err)
		require.NoError(t, verify(l, ack))
	}
	require.NoError(t, <-waits)
	require.EqualValues(t, 6, l.Head().Size)
}

func TestCloseCommitsWhatWasAccepted(t *testing.T) {
	g := &gate{store(t, memory.New()), make(chan struct{})}
	l := open(t, g, config(t))
	var tickets []ledger.Ticket
	for i := range 5 {
		ticket, err := l.Enqueue(t.Context(), submission(t, l, ipc(t, "", fmt.Sprint(i)), ""))
		require.NoError(t, err)
		tickets = append(tickets, ticket)
	}
	closed := make(chan error)
	go func() { closed <- l.Close() }()
	require.Eventually(t, func() bool {
		_, err := l.Enqueue(context.Background(), submission(t, l, ipc(t, "", "late"), ""))
		return errors.Is(err, ledger.ErrClosed)
	}, time.Minute, time.Millisecond)
	close(g.open)
	require.NoError(t, <-closed)
	for _, ticket := range tickets {
		_, err := ticket.Wait()
		require.NoError(t, err)
	}
}

func TestFreezeIsFinal(t *testing.T) {
	database := memory.New()
	s := store(t, database)
	l := open(t, s, config(t))
	post(t, l, ipc(t, "", "a"), "")
	require.NoError(t, l.Freeze(t.Context()))
	require.NoError(t, l.Freeze(t.Context()), "freezing it again changes nothing")
	last := l.Head().Checkpoint
	_, err := l.Submit(submission(t, l, ipc(t, "", "b"), ""))
	require.ErrorIs(t, err, ledger.ErrFrozen)
	require.NoError(t, l.Close())

	again := open(t, s, config(t))
	require.True(t, again.Info().Frozen)
	_, err = again.Submit(submission(t, again, ipc(t, "", "b"), ""))
	require.ErrorIs(t, err, ledger.ErrFrozen)
	require.Equal(t, last, again.Head().Checkpoint)
}

// Freeze commits the submissions that were accepted before it was called. No call to Freeze returns
// before they are committed, not even a second, concurrent one.
func TestFreezeWaitsForPendingCommits(t *testing.T) {
	g := &gate{store(t, memory.New()), make(chan struct{})}
	l := open(t, g, config(t))
	ticket, err := l.Enqueue(t.Context(), submission(t, l, ipc(t, "", "a"), ""))
	require.NoError(t, err)
	frozen := make(chan error, 2)
	for range 2 {
		go func() { frozen <- l.Freeze(context.Background()) }()
	}
	require.Eventually(t, func() bool { return l.Info().Frozen }, time.Minute, time.Millisecond)
	require.Empty(t, frozen)
	close(g.open)
	require.NoError(t, <-frozen)
	require.NoError(t, <-frozen)
	_, err = ticket.Wait()
	require.NoError(t, err)
	info, err := g.Info(t.Context())
	require.NoError(t, err)
	require.True(t, info.Frozen)
}

func TestWritesAreRefusedWithoutSpace(t *testing.T) {
	f := storagetest.NewFaultyStore(store(t, memory.New()))
	l := open(t, f, config(t))
	f.SetWritableError(storage.ErrNoSpace)
	_, err := l.Submit(submission(t, l, ipc(t, "run", "a"), ""))
	require.ErrorIs(t, err, storage.ErrNoSpace)
	f.SetWritableError(nil)
	ack := post(t, l, ipc(t, "run", "a"), "")
	require.Equal(t, ledger.OutcomeAppended, ack.Outcome, "the refused record claimed no key")
	require.EqualValues(t, 1, ack.Seq)
}

func TestEarlierCheckpointsAreReproduced(t *testing.T) {
	l := memoryLedger(t)
	signed := map[uint64][]byte{l.Head().Size: l.Head().Checkpoint}
	for i := range 300 {
		ack := post(t, l, ipc(t, "", fmt.Sprint(i)), "")
		signed[ack.Head.Size] = ack.Head.Checkpoint
	}
	head := l.Head()
	for size, want := range signed {
		got, err := l.Checkpoint(t.Context(), head, size)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// No event is earlier than its predecessor, even if the clock was set back between two starts.
func TestEventsNeverGoBackAcrossStarts(t *testing.T) {
	s := store(t, memory.New())
	var last time.Time
	for i, year := range []int{2026, 2999, 2026, 1960, 2026} {
		c := config(t)
		c.Clock = func() time.Time { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC) }
		l := open(t, s, c)
		ack := post(t, l, ipc(t, "", fmt.Sprint(i)), "")
		require.False(t, ack.Time.Before(last), "%s after %s", ack.Time, last)
		last = ack.Time
		require.NoError(t, walk(t, l))
		require.NoError(t, l.Close())
	}
}
