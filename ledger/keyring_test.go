package ledger_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/ledger/keystore"
	"colophon/proofs"
	"colophon/storage/memory"
	"colophon/storage/storagetest"
)

// verifyBy verifies the receipt of an acknowledged event with the given keys.
func verifyBy(l *ledger.Ledger, ack ledger.Ack, keys ...*proofs.Verifier) error {
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
	return r.Verify(keys...)
}

// Keys are rotated and retired while writers continue. The checkpoint of each acknowledged event is
// signed with exactly the keys that the log prescribes at that size.
func TestRotationUnderLoad(t *testing.T) {
	h := host(t, memory.New(), keystore.KeyFiles{Dir: t.TempDir()})
	l, err := h.Create(t.Context(), ledger.CreateOptions{Name: "a"})
	require.NoError(t, err)
	var acks acknowledged
	done := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				s, err := l.PrepareRecord(ipc(t, fmt.Sprintf("%d/%d", w, i), "x"), ledger.AnonymousActor, "")
				if err == nil {
					var ack ledger.Ack
					if ack, err = l.Submit(s); err == nil {
						acks.add(ack)
					}
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var changes []ledger.Ack
	for range 5 {
		for _, change := range []func(context.Context, string, string) (ledger.Ack, error){h.RotateKey, h.RetireKey} {
			ack, err := change(t.Context(), "a", "operator")
			require.NoError(t, err)
			changes = append(changes, ack)
			for before := len(acks.all()); len(acks.all()) < before+8; {
				runtime.Gosched()
			}
		}
	}
	close(done)
	writers.Wait()
	history := l.KeyHistory()
	require.Len(t, history.Verifiers(), 6)
	for _, ack := range append(acks.all(), changes...) {
		require.NoError(t, verifyBy(l, ack, history.Verifiers()...))
		signing := 0
		for _, key := range history.Verifiers() {
			if verifyBy(l, ack, key) == nil {
				signing++
			}
		}
		want := 1
		for i := 0; i < len(changes); i += 2 {
			if ack.Head.Size > changes[i].Seq && ack.Head.Size <= changes[i+1].Seq {
				want = 2
			}
		}
		require.Equal(t, want, signing, "at size %d", ack.Head.Size)
	}
	stored, err := ledger.ReadKeyHistory(t.Context(), l.Reader())
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(history.Verifiers()), fmt.Sprint(stored.Verifiers()))
}

func TestKeysAreRotatedInTurn(t *testing.T) {
	ctx := t.Context()
	database, keys := memory.New(), keystore.KeyFiles{Dir: t.TempDir()}
	h := host(t, database, keys)
	l, err := h.Create(ctx, ledger.CreateOptions{Name: "a"})
	require.NoError(t, err)
	first := l.VerifierKey()
	_, err = h.RetireKey(ctx, "a", "operator")
	require.ErrorIs(t, err, ledger.ErrNoKeyOverlap)
	_, err = h.RotateKey(ctx, "b", "operator")
	require.ErrorIs(t, err, ledger.ErrUnknownLedger)
	mine, err := proofs.GenerateKey().Signer(l.Info().Origin)
	require.NoError(t, err)
	require.NoError(t, keys.StageNext("a", mine))
	_, err = h.RotateKey(ctx, "a", "operator")
	require.NoError(t, err)
	require.Equal(t, mine.Verifier().String(), l.VerifierKey(), "the rotation uses the key that the operator has staged")
	_, err = h.RotateKey(ctx, "a", "operator")
	require.ErrorIs(t, err, ledger.ErrKeyOverlap)
	require.NoFileExists(t, keys.NextKeyPath("a"), "no key is generated for a rotation that is refused")

	require.NoError(t, h.Close())
	h = host(t, database, keys)
	l, err = h.Ledger("a")
	require.NoError(t, err)
	require.Equal(t, first, l.KeyHistory().OverlappingKey().String())
	head := l.Head()
	_, err = proofs.OpenCheckpoint(head.Checkpoint, l.KeyHistory().OverlappingKey())
	require.NoError(t, err)

	_, err = h.RetireKey(ctx, "a", "operator")
	require.NoError(t, err)
	require.NoFileExists(t, keys.PreviousKeyPath("a"))
	_, err = proofs.OpenCheckpoint(l.Head().Checkpoint, l.KeyHistory().Verifiers()[1])
	require.ErrorIs(t, err, proofs.ErrWrongKey)
	_, err = proofs.OpenCheckpoint(head.Checkpoint, l.KeyHistory().Verifiers()[1])
	require.NoError(t, err, "the earlier signatures of the retired key stay valid")

	foreign, err := proofs.GenerateKey().Signer("other.example")
	require.NoError(t, err)
	require.NoError(t, keys.StageNext("a", foreign))
	_, err = h.RotateKey(ctx, "a", "operator")
	require.ErrorIs(t, err, proofs.ErrWrongOrigin)
}

// If a rotation is interrupted at any step, the next start continues with the keys that the log
// prescribes. These keys can then be retired and rotated as usual.
func TestInterruptedRotations(t *testing.T) {
	type state struct {
		*testing.T
		keys    keystore.KeyFiles
		l       *ledger.Ledger
		h       *ledger.Host
		rotated bool
	}
	rotate := func(s *state) { // stages a key and logs the event, but moves no key file
		next, err := proofs.GenerateKey().Signer(s.l.Info().Origin)
		require.NoError(s, err)
		require.NoError(s, s.keys.StageNext("a", next))
		_, err = s.l.RotateKey(next, "operator")
		require.NoError(s, err)
		s.rotated = true
	}
	for name, cut := range map[string]func(*state){
		"key made": func(s *state) {
			next, err := proofs.GenerateKey().Signer(s.l.Info().Origin)
			require.NoError(s, err)
			require.NoError(s, s.keys.StageNext("a", next))
		},
		"key half written": func(s *state) {
			require.NoError(s, os.WriteFile(s.keys.Path("a")+".123", []byte("PRIVATE+KEY+"), 0o600))
		},
		"event logged": rotate,
		"old key kept": func(s *state) {
			rotate(s)
			require.NoError(s, os.Link(s.keys.Path("a"), s.keys.PreviousKeyPath("a")))
		},
		"new key in its place": func(s *state) {
			rotate(s)
			require.NoError(s, os.Link(s.keys.Path("a"), s.keys.PreviousKeyPath("a")))
			require.NoError(s, os.Rename(s.keys.NextKeyPath("a"), s.keys.Path("a")))
		},
		"retired": func(s *state) {
			_, err := s.h.RotateKey(s.Context(), "a", "operator")
			require.NoError(s, err)
			_, err = s.l.RetireKey("operator")
			require.NoError(s, err)
			s.rotated = true
		},
		"retired before any key was moved": func(s *state) {
			rotate(s)
			_, err := s.l.RetireKey("operator")
			require.NoError(s, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			database := memory.New()
			s := &state{T: t, keys: keystore.KeyFiles{Dir: t.TempDir()}}
			s.h = host(t, database, s.keys)
			var err error
			s.l, err = s.h.Create(t.Context(), ledger.CreateOptions{Name: "a"})
			require.NoError(t, err)
			first := s.l.VerifierKey()
			cut(s)
			before := s.l.KeyHistory()
			require.NoError(t, s.h.Close())

			h := host(t, database, s.keys)
			l, err := h.Ledger("a")
			require.NoError(t, err)
			require.Equal(t, before.CurrentKey().String(), l.VerifierKey())
			require.Equal(t, s.rotated, l.VerifierKey() != first)
			ack, err := l.Submit(submission(t, l, ipc(t, "after", "x"), ""))
			require.NoError(t, err)
			require.NoError(t, verifyBy(l, ack, l.KeyHistory().Verifiers()...))
			overlapping := l.KeyHistory().OverlappingKey()
			require.Equal(t, overlapping != nil, verifyBy(l, ack, before.Verifiers()[len(before.Verifiers())-1]) == nil && s.rotated)
			if overlapping != nil {
				require.FileExists(t, s.keys.PreviousKeyPath("a"))
				_, err := h.RetireKey(t.Context(), "a", "operator")
				require.NoError(t, err)
			}
			_, err = h.RotateKey(t.Context(), "a", "operator")
			require.NoError(t, err)
			require.NoFileExists(t, s.keys.NextKeyPath("a"))
			loaded, err := s.keys.Load("a")
			require.NoError(t, err)
			require.Equal(t, l.VerifierKey(), loaded.Verifier().String())
		})
	}
}

// If the outcome of a rotation's commit is unknown, the ledger does not publish the new key. After
// the next start, the new key signs only if the store contains the rotation event.
func TestRotationOfUnknownOutcome(t *testing.T) {
	for fault, rotated := range map[storagetest.Fault]bool{storagetest.FaultBeforeWrite: false, storagetest.FaultAfterWrite: true} {
		inner := store(t, memory.New())
		f := storagetest.NewFaultyStore(inner)
		c := config(t)
		c.OnFatal = func(error) { runtime.Goexit() }
		l, err := ledger.Open(t.Context(), f, c)
		require.NoError(t, err)
		next, err := proofs.NewKey([32]byte{9}).Signer(l.Info().Origin)
		require.NoError(t, err)
		f.FailCommit(1, fault)
		_, err = l.RotateKey(next, "operator")
		require.ErrorIs(t, err, ledger.ErrOutcomeUnknown)
		require.Equal(t, c.Signer.Verifier().String(), l.VerifierKey(), "the ledger does not publish a key that may not be in its log")

		c = config(t)
		c.OtherSigners = []*proofs.Signer{next}
		again := open(t, inner, c)
		require.Equal(t, rotated, again.VerifierKey() == next.Verifier().String())
		if !rotated {
			_, err = again.RotateKey(next, "operator")
			require.NoError(t, err)
		}
		require.NotNil(t, again.KeyHistory().OverlappingKey())
	}
}
