package ledger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/ledger/record"
	"colophon/ledger/record/members"
	"colophon/proofs"
	"colophon/storage"
	"colophon/storage/memory"
)

func signer(t testing.TB) *proofs.Signer {
	t.Helper()
	s, err := proofs.NewKey([32]byte{1}).Signer("test.invalid/default")
	require.NoError(t, err)
	return s
}

// store creates an empty ledger named "default" in a database.
func store(t testing.TB, database storage.Database) storage.Store {
	t.Helper()
	s, err := database.CreateLedger(context.Background(), storage.LedgerInfo{Name: ledger.DefaultName, Origin: "test.invalid/default", Created: time.Unix(0, 0).UTC()})
	require.NoError(t, err)
	require.NoError(t, s.SetSetting(context.Background(), "member_secret", memberSecret.Bytes())) // as if an interrupted creation had already stored the secret
	return s
}

// memberSecret is the payload-member secret in the ledgers that store creates.
var memberSecret = members.NewSecret()

func config(t testing.TB) ledger.Config {
	return ledger.Config{Signer: signer(t), OnFatal: func(err error) { panic(err) }}
}

func open(t testing.TB, s storage.Store, c ledger.Config) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(context.Background(), s, c)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func memoryLedger(t testing.TB) *ledger.Ledger {
	return open(t, store(t, memory.New()), config(t))
}

// ipc returns an IPC record with an output. It has a run_id unless runID is empty.
func ipc(t testing.TB, runID, output string) *record.Record {
	t.Helper()
	return ipcOf(t, memberSecret, runID, output)
}

// ipcOf is like ipc, but hashes the payload members under the given secret.
func ipcOf(t testing.TB, members *members.Secret, runID, output string) *record.Record {
	t.Helper()
	fields := map[string]any{"payload": map[string]any{"seed": 1, "q": output}, "system_prompt": "Be brief.",
		"output": output, "model": "m", "temperature": 0.5, "max_tokens": 10}
	if runID != "" {
		fields["run_id"] = runID
	}
	body, err := json.Marshal(fields)
	require.NoError(t, err)
	r, err := record.DefaultLimits().WithPayloadMemberSecret(members).ParseRecord(record.KindIPCRecord, body)
	require.NoError(t, err)
	return r
}

func submission(t testing.TB, l *ledger.Ledger, r *record.Record, key string) ledger.Submission {
	t.Helper()
	s, err := l.PrepareRecord(r, ledger.AnonymousActor, key)
	require.NoError(t, err)
	return s
}

// post submits a record. Unless the outcome is a replay, it verifies the receipt built from the
// acknowledgement.
func post(t testing.TB, l *ledger.Ledger, r *record.Record, key string) ledger.Ack {
	t.Helper()
	ack, err := l.Submit(submission(t, l, r, key))
	require.NoError(t, err)
	if ack.Outcome != ledger.OutcomeReplayed {
		require.NoError(t, verify(l, ack))
	}
	return ack
}

// verify verifies the receipt of an acknowledged event, as a client would.
func verify(l *ledger.Ledger, ack ledger.Ack) error {
	r, err := proofs.NewReceipt(ack.Entry)
	if err != nil {
		return err
	}
	path, err := l.Prover(context.Background(), ack.Head).InclusionProof(ack.Seq, ack.Head.Size)
	if err != nil {
		return err
	}
	r.Proof = &proofs.ReceiptProof{
		Event:      ack.Entry[proofs.HashSize:],
		Inclusion:  proofs.InclusionProof{LeafIndex: ack.Seq, TreeSize: ack.Head.Size, Hashes: path},
		Checkpoint: ack.Head.Checkpoint,
	}
	verifier, err := proofs.ParseVerifier(l.VerifierKey())
	if err != nil {
		return err
	}
	if r.EventHash != ack.EventHash || r.LeafHash != ack.LeafHash {
		return fmt.Errorf("event %d: the acknowledged hashes do not match the entry", ack.Seq)
	}
	return r.Verify(verifier)
}

func unmarshal(b []byte, to any) error { return json.Unmarshal(b, to) }

// parallel calls f(0) to f(n-1) concurrently and waits until all have returned.
func parallel(n int, f func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { f(i) })
	}
	group.Wait()
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
