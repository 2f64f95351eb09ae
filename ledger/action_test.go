package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/ledger/record"
	"colophon/ledger/record/rules"
	"colophon/proofs"
	"colophon/storage/memory"
)

func stateChange(t testing.TB, seq uint64, reason string) *record.Action {
	t.Helper()
	v, err := record.ParseStateChange(seq, []byte(`{"state":"failed","reason":"`+reason+`"}`))
	require.NoError(t, err)
	return v
}

// change submits an action. Unless the outcome is a replay, it verifies the receipt built from the
// acknowledgement.
func change(t testing.TB, l *ledger.Ledger, v *record.Action, key string) ledger.Ack {
	t.Helper()
	s, err := l.PrepareAction(v, ledger.AnonymousActor, key)
	require.NoError(t, err)
	ack, err := l.Submit(s)
	require.NoError(t, err)
	if ack.Outcome != ledger.OutcomeReplayed {
		require.NoError(t, verify(l, ack))
	}
	return ack
}

// postPath posts a path fingerprint and returns the resulting current path.
func postPath(t testing.TB, l *ledger.Ledger) record.LatestPathRecord {
	t.Helper()
	r, err := record.Parse(record.KindPathFingerprint, []byte(`{"project":"p","route":["Start"]}`))
	require.NoError(t, err)
	id := rules.RouteDigest([][]byte{[]byte("Start")})[:rules.PathIDDigits]
	return record.LatestPathRecord{Project: "p", PathID: string(id), RecordSeq: post(t, l, r, "").Seq}
}

// An action of any kind creates one event, which has a valid receipt and passes an audit.
func TestVerbsAreEvents(t *testing.T) {
	l := memoryLedger(t)
	post(t, l, ipc(t, "", "a"), "")
	validation := (&record.ValidationRequest{Validated: true}).ActionFor(postPath(t, l))
	registration, err := record.ParseSourceRegistration("s", []byte(`{"chunk_hashes":[]}`))
	require.NoError(t, err)
	revocation, err := record.ParseSourceRevocation("s", nil)
	require.NoError(t, err)
	for _, of := range []struct {
		kind   record.Kind
		action *record.Action
	}{ // a source must be registered before it is revoked
		{record.KindRecordStateChanged, stateChange(t, 1, "r")}, {record.KindPathValidated, validation},
		{record.KindSourceRegistered, registration}, {record.KindSourceRevoked, revocation},
	} {
		for _, key := range []string{"", "", string(of.kind)} {
			ack := change(t, l, of.action, key)
			require.Equal(t, ledger.OutcomeAppended, ack.Outcome)
			r, err := proofs.NewReceipt(ack.Entry)
			require.NoError(t, err)
			require.Equal(t, string(of.kind), r.Kind)
			require.Equal(t, "{}", string(r.Hashes))
			require.Equal(t, "{}", string(r.Checks))
		}
	}
	require.EqualValues(t, 3+4*3, l.Head().Size)
	require.NoError(t, walk(t, l))
}

// Records and actions share one space of idempotency keys (spec: Idempotency). Repeating an action
// under its key is a replay, even if its target has changed since. Any other record or action under
// the key is refused.
func TestKeysOfVerbs(t *testing.T) {
	database := memory.New()
	s := store(t, database)
	l := open(t, s, config(t))
	post(t, l, ipc(t, "", "a"), "record")
	first := change(t, l, stateChange(t, 1, "r"), "key")
	again := change(t, l, stateChange(t, 1, "r"), "key")
	require.Equal(t, ledger.OutcomeReplayed, again.Outcome)
	require.Equal(t, first.Seq, again.KeyHolderSeq)

	for name, other := range map[string]*record.Action{"target": stateChange(t, 2, "r"), "request": stateChange(t, 1, "q")} {
		conflict := change(t, l, other, "key")
		require.Equal(t, ledger.OutcomeConflicted, conflict.Outcome, name)
		require.Equal(t, first.Seq, conflict.KeyHolderSeq)
		r, err := proofs.NewReceipt(conflict.Entry)
		require.NoError(t, err)
		require.Equal(t, string(record.KindRecordRefused), r.Kind)
	}
	require.Equal(t, ledger.OutcomeConflicted, change(t, l, stateChange(t, 1, "r"), "record").Outcome)
	require.Equal(t, ledger.OutcomeConflicted, post(t, l, ipc(t, "", "a"), "key").Outcome)

	validate := func(current record.LatestPathRecord) ledger.Ack {
		return change(t, l, (&record.ValidationRequest{Validated: true}).ActionFor(current), "validation")
	}
	require.Equal(t, ledger.OutcomeAppended, validate(postPath(t, l)).Outcome)
	require.Equal(t, ledger.OutcomeReplayed, validate(postPath(t, l)).Outcome)

	require.NoError(t, walk(t, l))
	require.NoError(t, l.Close())
	l = open(t, s, config(t))
	require.Equal(t, ledger.OutcomeReplayed, change(t, l, stateChange(t, 1, "r"), "key").Outcome, "after a restart")
	require.NoError(t, walk(t, l))
}

func TestOneVerbKeyAtOnce(t *testing.T) {
	l := memoryLedger(t)
	post(t, l, ipc(t, "", "a"), "")
	post(t, l, ipc(t, "", "b"), "")
	var mu sync.Mutex
	outcomes := make(map[ledger.Outcome]int)
	parallel(40, func(i int) {
		ack := change(t, l, stateChange(t, uint64(1+i%2), "r"), "key")
		mu.Lock()
		defer mu.Unlock()
		outcomes[ack.Outcome]++
	})
	require.Equal(t, map[ledger.Outcome]int{ledger.OutcomeAppended: 1, ledger.OutcomeReplayed: 19, ledger.OutcomeConflicted: 20}, outcomes)
	require.NoError(t, walk(t, l))
}

// An audit reports an action whose digest differs from the one that the store keeps for its
// idempotency key. The same check applies to records.
func TestForgedKeyOfAVerbIsNamed(t *testing.T) {
	database := memory.New()
	s := store(t, database)
	l := open(t, s, config(t))
	post(t, l, ipc(t, "", "a"), "")
	change(t, l, stateChange(t, 1, "r"), "key")
	require.NoError(t, walk(t, l))
	x, err := database.Tamperer(ledger.DefaultName)
	require.NoError(t, err)
	k, err := s.KeyClaim(t.Context(), ledger.IdempotencyKeyDigest("key"))
	require.NoError(t, err)
	k.RecordDigest[0] ^= 1
	require.NoError(t, x.SetClaim(k))
	require.ErrorContains(t, walk(t, l), "at entry 2")
}

// AppendActions appends many actions in order, and acknowledges each. If the context is canceled,
// the log contains exactly the actions that were acknowledged.
func TestManyVerbs(t *testing.T) {
	l := memoryLedger(t)
	post(t, l, ipc(t, "", "a"), "")
	const most = 3000
	actions := func(yield func(*record.Action) bool) {
		for i := range most {
			if !yield(stateChange(t, 1, fmt.Sprint(i))) {
				return
			}
		}
	}
	next := uint64(2)
	acknowledge := func(ack ledger.Ack) error {
		require.Equal(t, next, ack.Seq)
		require.Contains(t, string(ack.Entry), fmt.Sprintf(`"reason":"%d"`, (next-2)%most))
		next++
		return nil
	}
	require.NoError(t, l.AppendActions(t.Context(), actions, "ana", acknowledge))
	require.Equal(t, uint64(2+most), next)
	require.Equal(t, next, l.Head().Size)

	ctx, cancel := context.WithCancel(t.Context())
	err := l.AppendActions(ctx, actions, "ana", func(ack ledger.Ack) error {
		if ack.Seq == 2+most+10 {
			cancel()
		}
		return acknowledge(ack)
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, next, l.Head().Size)
	require.Less(t, next, uint64(2+2*most))

	failed := errors.New("enough")
	require.ErrorIs(t, l.AppendActions(t.Context(), actions, "ana", func(ledger.Ack) error { return failed }), failed)
	require.Error(t, l.AppendActions(t.Context(), actions, strings.Repeat("x", 70_000), acknowledge), "too large for an entry")
}
