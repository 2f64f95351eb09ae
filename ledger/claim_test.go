package ledger_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/ledger/record"
	"colophon/proofs"
	"colophon/storage"
	"colophon/storage/memory"
)

// If the store assigns a key to an event that does not claim it, posting a record with that key
// fails. The record is neither treated as a replay nor logged as a refusal.
func TestPlantedClaimsAreRefused(t *testing.T) {
	database := memory.New()
	l := open(t, store(t, database), config(t))
	other := post(t, l, ipc(t, "run/other", "other"), "")
	keyless := post(t, l, ipc(t, "", "keyless"), "")
	refused := post(t, l, ipc(t, "run/other", "refused"), "")
	require.Equal(t, ledger.OutcomeConflicted, refused.Outcome)
	x, err := database.Tamperer(ledger.DefaultName)
	require.NoError(t, err)
	lost := submission(t, l, ipc(t, "run/lost", "lost"), "")
	for name, claim := range map[string]storage.Claim{
		"of the same record, leads to another":   {KeyDigest: *lost.KeyDigest, RecordDigest: lost.RecordDigest, Seq: other.Seq},
		"of the same record, leads to a refusal": {KeyDigest: *lost.KeyDigest, RecordDigest: lost.RecordDigest, Seq: refused.Seq},
		"of the same record, leads to the first": {KeyDigest: *lost.KeyDigest, RecordDigest: lost.RecordDigest, Seq: 0},
		"of another record, leads to that":       {KeyDigest: *lost.KeyDigest, RecordDigest: submission(t, l, ipc(t, "run/other", "other"), "").RecordDigest, Seq: other.Seq},
		"of a record without key":                {KeyDigest: *lost.KeyDigest, RecordDigest: submission(t, l, ipc(t, "", "keyless"), "").RecordDigest, Seq: keyless.Seq},
		"of no record":                           {KeyDigest: *lost.KeyDigest, RecordDigest: storage.Hash{1}, Seq: other.Seq},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, x.SetClaim(claim))
			size := l.Head().Size
			_, err := l.Submit(lost)
			require.ErrorIs(t, err, ledger.ErrKeyClaimMismatch)
			require.ErrorContains(t, err, fmt.Sprintf("refers to event %d, so nothing was recorded", claim.Seq))
			_, err = l.Submit(l.PrepareRefusal(ipc(t, "run/lost", "lost"), ledger.AnonymousActor, ""))
			require.ErrorIs(t, err, ledger.ErrKeyClaimMismatch)
			require.Equal(t, size, l.Head().Size, "nothing is appended")
		})
	}
	require.Equal(t, ledger.OutcomeAppended, post(t, l, ipc(t, "run/next", "next"), "").Outcome, "the ledger continues")
	require.Equal(t, ledger.OutcomeAppended, post(t, l, ipc(t, "run/lost", "lost"), "another key").Outcome)
}

// If the store holds a false claim for one of the keys in a commit, only the submission with that key
// fails.
func TestPlantedClaimRefusesOnlyItsRecord(t *testing.T) {
	database := memory.New()
	g := &gate{store(t, database), make(chan struct{})}
	l := open(t, g, config(t))
	x, err := database.Tamperer(ledger.DefaultName)
	require.NoError(t, err)
	lost := submission(t, l, ipc(t, "run/lost", "lost"), "")
	require.NoError(t, x.SetClaim(storage.Claim{KeyDigest: *lost.KeyDigest, RecordDigest: storage.Hash{1}, Seq: 0}))
	first := make(chan error, 1)
	go func() { // blocks the sequencer, so that the other submissions share one batch
		_, err := l.Submit(submission(t, l, ipc(t, "run/first", "first"), ""))
		first <- err
	}()
	var tickets []ledger.Ticket
	for _, s := range []ledger.Submission{
		submission(t, l, ipc(t, "run/1", "1"), ""), lost, submission(t, l, ipc(t, "run/2", "2"), ""), submission(t, l, ipc(t, "run/1", "1"), ""),
	} {
		ticket, err := l.Enqueue(context.Background(), s)
		require.NoError(t, err)
		tickets = append(tickets, ticket)
	}
	close(g.open)
	require.NoError(t, <-first)
	var outcomes []string
	for _, ticket := range tickets {
		ack, err := ticket.Wait()
		outcomes = append(outcomes, fmt.Sprint(ack.Outcome, err != nil))
	}
	require.Equal(t, []string{"0 false", "0 true", "0 false", "1 false"}, outcomes)
	require.EqualValues(t, 4, l.Head().Size)
}

// A replay returns the event that claimed the key, even after redactions and rotations.
func TestReplaysOutliveRedactionsAndRotations(t *testing.T) {
	l := memoryLedger(t)
	first := post(t, l, ipc(t, "run/1", "secret"), "")
	redact(t, l, first.Seq)
	replayed := func() {
		t.Helper()
		ack := post(t, l, ipc(t, "run/1", "secret"), "")
		require.Equal(t, ledger.OutcomeReplayed, ack.Outcome)
		require.Equal(t, first.Seq, ack.KeyHolderSeq)
		require.Equal(t, first.Entry, ack.Entry)
		require.Empty(t, content(t, l, "secret"), "a replay restores no content")
	}
	replayed()
	next, err := proofs.NewKey([32]byte{2}).Signer("test.invalid/default")
	require.NoError(t, err)
	_, err = l.RotateKey(next, "operator")
	require.NoError(t, err)
	replayed()
	_, err = l.RetireKey("operator")
	require.NoError(t, err)
	replayed()
}

// An idempotency key identifies one record of one kind. Records and actions share a single key
// space. A run_id acts as a key only among records of the same kind.
func TestKeysBelongToOneKind(t *testing.T) {
	l := memoryLedger(t)
	path := func(run string) *record.Record {
		r, err := record.Parse(record.KindPathFingerprint, []byte(`{"run_id":"`+run+`","project":"p","route":["Start"]}`))
		require.NoError(t, err)
		return r
	}
	first := post(t, l, ipc(t, "run/1", "a"), "key")
	ack := post(t, l, path("run/1"), "key")
	require.Equal(t, ledger.OutcomeConflicted, ack.Outcome)
	require.Equal(t, first.Seq, ack.KeyHolderSeq)
	action, err := record.ParseSourceRegistration("x", []byte(`{}`))
	require.NoError(t, err)
	s, err := l.PrepareAction(action, ledger.AnonymousActor, "key")
	require.NoError(t, err)
	ack, err = l.Submit(s)
	require.NoError(t, err)
	require.Equal(t, ledger.OutcomeConflicted, ack.Outcome)

	require.Equal(t, ledger.OutcomeAppended, post(t, l, ipc(t, "run/2", "a"), "").Outcome)
	require.Equal(t, ledger.OutcomeAppended, post(t, l, path("run/2"), "").Outcome)
	require.NoError(t, walk(t, l))
}
