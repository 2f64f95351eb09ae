package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/ledger/highwater"
	"colophon/ledger/keystore"
	"colophon/proofs"
	"colophon/storage"
	"colophon/storage/memory"
	"colophon/storage/pebble"
	"colophon/storage/storagetest"
)

// verifyBy verifies an acknowledged event with these keys.
func verifyBy(l *ledger.Ledger, ack ledger.Ack, keys ...*proofs.Verifier) error {
	r, err := proofs.NewReceipt(ack.Entry)
	if err != nil {
		return err
	}
	path, err := l.Prover(context.Background(), ack.Head).Inclusion(ack.Seq, ack.Head.Size)
	if err != nil {
		return err
	}
	r.Proof = &proofs.Proof{
		Event:      ack.Entry[proofs.HashSize:],
		Inclusion:  proofs.Inclusion{LeafIndex: ack.Seq, TreeSize: ack.Head.Size, Hashes: path},
		Checkpoint: ack.Head.Checkpoint,
	}
	return r.Verify(keys...)
}

// Keys are rotated and retired while writers continue. Each acknowledged event is signed by
// the keys that are in force at its size, and by no others.
func TestRotationUnderLoad(t *testing.T) {
	h := host(t, memory.New(), keystore.Files{Dir: t.TempDir()})
	l, err := h.Create(t.Context(), ledger.New{Name: "a"})
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
				s, err := l.Prepare(ipc(t, fmt.Sprintf("%d/%d", w, i), "x"), ledger.Anonymous, "")
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
	history := l.Keys()
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
	stored, err := ledger.StoredKeys(t.Context(), l.Store())
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(history.Verifiers()), fmt.Sprint(stored.Verifiers()))
}

func TestKeysAreRotatedInTurn(t *testing.T) {
	ctx := t.Context()
	database, keys := memory.New(), keystore.Files{Dir: t.TempDir()}
	h := host(t, database, keys)
	l, err := h.Create(ctx, ledger.New{Name: "a"})
	require.NoError(t, err)
	first := l.VerifierKey()
	_, err = h.RetireKey(ctx, "a", "operator")
	require.ErrorIs(t, err, ledger.ErrNoOverlap)
	_, err = h.RotateKey(ctx, "b", "operator")
	require.ErrorIs(t, err, ledger.ErrUnknown)
	mine, err := proofs.GenerateKey().Signer(l.Info().Origin)
	require.NoError(t, err)
	require.NoError(t, keys.StageNext("a", mine))
	_, err = h.RotateKey(ctx, "a", "operator")
	require.NoError(t, err)
	require.Equal(t, mine.Verifier().String(), l.VerifierKey(), "the key that an operator has stored")
	_, err = h.RotateKey(ctx, "a", "operator")
	require.ErrorIs(t, err, ledger.ErrOverlap)
	require.NoFileExists(t, keys.NextPath("a"), "no key is made for a rotation that is refused")

	require.NoError(t, h.Close())
	h = host(t, database, keys)
	l, err = h.Ledger("a")
	require.NoError(t, err)
	require.Equal(t, first, l.Keys().Overlapping().String())
	head := l.Head()
	_, err = proofs.OpenCheckpoint(head.Checkpoint, l.Keys().Overlapping())
	require.NoError(t, err)

	_, err = h.RetireKey(ctx, "a", "operator")
	require.NoError(t, err)
	require.NoFileExists(t, keys.PreviousPath("a"))
	_, err = proofs.OpenCheckpoint(l.Head().Checkpoint, l.Keys().Verifiers()[1])
	require.ErrorIs(t, err, proofs.ErrWrongKey)
	_, err = proofs.OpenCheckpoint(head.Checkpoint, l.Keys().Verifiers()[1])
	require.NoError(t, err, "its earlier signatures stay valid")

	foreign, err := proofs.GenerateKey().Signer("other.example")
	require.NoError(t, err)
	require.NoError(t, keys.StageNext("a", foreign))
	_, err = h.RotateKey(ctx, "a", "operator")
	require.ErrorIs(t, err, proofs.ErrOrigin)
}

// A rotation is interrupted at each of its steps. The next start continues with the keys that
// the log names, and the next rotation uses the key that was stored.
func TestInterruptedRotations(t *testing.T) {
	type state struct {
		*testing.T
		keys    keystore.Files
		l       *ledger.Ledger
		h       *ledger.Host
		rotated bool
	}
	rotate := func(s *state) { // logs the event without changing the stored keys
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
			require.NoError(s, os.Link(s.keys.Path("a"), s.keys.PreviousPath("a")))
		},
		"new key in its place": func(s *state) {
			rotate(s)
			require.NoError(s, os.Link(s.keys.Path("a"), s.keys.PreviousPath("a")))
			require.NoError(s, os.Rename(s.keys.NextPath("a"), s.keys.Path("a")))
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
			s := &state{T: t, keys: keystore.Files{Dir: t.TempDir()}}
			s.h = host(t, database, s.keys)
			var err error
			s.l, err = s.h.Create(t.Context(), ledger.New{Name: "a"})
			require.NoError(t, err)
			first := s.l.VerifierKey()
			cut(s)
			before := s.l.Keys()
			require.NoError(t, s.h.Close())

			h := host(t, database, s.keys)
			l, err := h.Ledger("a")
			require.NoError(t, err)
			require.Equal(t, before.Current().String(), l.VerifierKey())
			require.Equal(t, s.rotated, l.VerifierKey() != first)
			ack, err := l.Submit(submission(t, l, ipc(t, "after", "x"), ""))
			require.NoError(t, err)
			require.NoError(t, verifyBy(l, ack, l.Keys().Verifiers()...))
			overlapping := l.Keys().Overlapping()
			require.Equal(t, overlapping != nil, verifyBy(l, ack, before.Verifiers()[len(before.Verifiers())-1]) == nil && s.rotated)
			if overlapping != nil {
				require.FileExists(t, s.keys.PreviousPath("a"))
				_, err := h.RetireKey(t.Context(), "a", "operator")
				require.NoError(t, err)
			}
			_, err = h.RotateKey(t.Context(), "a", "operator")
			require.NoError(t, err)
			require.NoFileExists(t, s.keys.NextPath("a"))
			loaded, err := s.keys.Load("a")
			require.NoError(t, err)
			require.Equal(t, l.VerifierKey(), loaded.Verifier().String())
		})
	}
}

// The commit of a rotation has an unknown outcome: the store may or may not have the event.
func TestRotationOfUnknownOutcome(t *testing.T) {
	for fault, rotated := range map[storagetest.Fault]bool{storagetest.Before: false, storagetest.After: true} {
		inner := store(t, memory.New())
		f := storagetest.NewFaulty(inner)
		c := config(t)
		c.Fatal = func(error) { runtime.Goexit() }
		l, err := ledger.Open(t.Context(), f, c)
		require.NoError(t, err)
		next, err := proofs.NewKey([32]byte{9}).Signer(l.Info().Origin)
		require.NoError(t, err)
		f.FailCommit(1, fault)
		_, err = l.RotateKey(next, "operator")
		require.ErrorIs(t, err, ledger.ErrOutcomeUnknown)
		require.Equal(t, c.Signer.Verifier().String(), l.VerifierKey(), "the ledger does not publish a key that may not be in its log")

		c = config(t)
		c.Signers = []*proofs.Signer{next}
		again := open(t, inner, c)
		require.Equal(t, rotated, again.VerifierKey() == next.Verifier().String())
		if !rotated {
			_, err = again.RotateKey(next, "operator")
			require.NoError(t, err)
		}
		require.NotNil(t, again.Keys().Overlapping())
	}
}

func TestMissingKeys(t *testing.T) {
	s := store(t, memory.New())
	l := open(t, s, config(t))
	next, err := proofs.NewKey([32]byte{9}).Signer(l.Info().Origin)
	require.NoError(t, err)
	_, err = l.RotateKey(next, "operator")
	require.NoError(t, err)
	require.NoError(t, l.Close())

	l = open(t, s, config(t))
	require.ErrorAs(t, l.Writable(t.Context()), new(*ledger.SigningError), "the old key does not continue alone")
	_, err = l.RetireKey("operator")
	require.ErrorAs(t, err, new(*ledger.SigningError))
	require.NoError(t, l.Close())
	c := config(t)
	c.Signer = next
	l = open(t, s, c)
	size := l.Head().Size
	_, err = l.Submit(submission(t, l, ipc(t, "new key alone", "x"), ""))
	require.ErrorIs(t, err, ledger.ErrKeyMissing)
	require.ErrorContains(t, err, "keys/default.key.previous")
	require.ErrorIs(t, l.Writable(t.Context()), ledger.ErrKeyMissing)
	_, err = l.Checkpoint(t.Context(), l.Head(), 1)
	require.ErrorIs(t, err, ledger.ErrKeyMissing, "nothing is signed")
	_, err = l.RotateKey(next, "operator")
	require.ErrorIs(t, err, ledger.ErrKeyMissing)
	require.Equal(t, size, l.Head().Size)
	require.NoError(t, l.Close())

	c = config(t)
	c.Signer, c.Signers = next, []*proofs.Signer{signer(t)}
	l = open(t, s, c)
	ack := post(t, l, ipc(t, "the key is back", "x"), "")
	_, err = l.Keys().OpenCheckpoint(ack.Head.Checkpoint, next.Verifier())
	require.NoError(t, err)
	require.NoError(t, l.Close())

	// The key is lost for good.
	c = config(t)
	c.Signer = next
	l = open(t, s, c)
	retired, err := l.RetireKey("operator")
	require.NoError(t, err)
	ack = post(t, l, ipc(t, "new key alone", "x"), "")
	require.ErrorIs(t, verifyBy(l, ack, signer(t).Verifier()), proofs.ErrWrongKey)
	for _, ack := range []ledger.Ack{retired, ack} {
		_, err = l.Keys().OpenCheckpoint(ack.Head.Checkpoint, signer(t).Verifier())
		require.NoError(t, err, "all keys that are in force have signed")
		require.Len(t, l.Keys().InForce(ack.Head.Size), 1)
	}
	require.NoError(t, l.Writable(t.Context()))
	_, err = l.Checkpoint(t.Context(), l.Head(), 1)
	require.NoError(t, err)

	_, err = host(t, memory.New(), &fixedKeys{}).RotateKey(t.Context(), "a", "operator")
	require.ErrorIs(t, err, ledger.ErrUnknown)
	h := host(t, memory.New(), &fixedKeys{signer: signer(t)})
	_, err = h.Create(t.Context(), ledger.New{Name: "a"})
	require.NoError(t, err)
	_, err = h.RotateKey(t.Context(), "a", "operator")
	require.ErrorIs(t, err, ledger.ErrKeysFixed)
}

// fixedKeys are keys that cannot be changed.
type fixedKeys struct {
	signer    *proofs.Signer
	confirmed bool
}

func (k *fixedKeys) Load(string) (*proofs.Signer, error) {
	if !k.confirmed {
		return nil, storage.ErrNotFound
	}
	return k.signer, nil
}
func (k *fixedKeys) Staged(string) (*proofs.Signer, error) { return k.signer, nil }
func (k *fixedKeys) Stage(string, *proofs.Signer) error    { return errors.New("fixed") }
func (k *fixedKeys) Confirm(string) error                  { k.confirmed = true; return nil }

// keyFolder returns the content of each file in a folder of keys.
func keyFolder(t *testing.T, keys keystore.Files) map[string]string {
	entries, err := os.ReadDir(keys.Dir)
	require.NoError(t, err)
	files := make(map[string]string)
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(keys.Dir, entry.Name()))
		require.NoError(t, err)
		files[entry.Name()] = string(text)
	}
	return files
}

// After a change of keys, an older copy of the database is restored. Its ledger refuses
// writes, with or without a mark. Other ledgers accept writes, and the folder of keys does not
// change.
func TestStoresThatAreOlderThanTheirKeys(t *testing.T) {
	type change = func(*ledger.Host, context.Context, string, string) (ledger.Ack, error)
	rotate, retire := (*ledger.Host).RotateKey, (*ledger.Host).RetireKey
	for name, k := range map[string]struct{ before, after []change }{
		"rotated":               {nil, []change{rotate}},
		"retired":               {nil, []change{rotate, retire}},
		"rotated twice":         {nil, []change{rotate, retire, rotate}},
		"overlap before":        {[]change{rotate}, []change{retire, rotate}},
		"retired before":        {[]change{rotate, retire}, []change{rotate}},
		"overlap before, again": {[]change{rotate}, []change{retire, rotate, retire}},
	} {
		for _, marked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/mark %t", name, marked), func(t *testing.T) {
				ctx := t.Context()
				keys, marks := keystore.Files{Dir: t.TempDir()}, keystore.Marks{Dir: t.TempDir()}
				dir := t.TempDir()
				start := func() (*ledger.Host, func()) {
					database, err := pebble.Open(ctx, pebble.Config{Dir: dir, Logger: discard()})
					require.NoError(t, err)
					h, err := ledger.OpenHost(ctx, database, keys, func(string) ledger.Config {
						if marked {
							return ledger.Config{Marks: marks}
						}
						return ledger.Config{}
					})
					if err != nil {
						require.NoError(t, errors.Join(err, database.Close()))
					}
					return h, func() { require.NoError(t, errors.Join(h.Close(), database.Close())) }
				}
				h, stop := start()
				for _, name := range []string{"a", "b"} {
					_, err := h.Create(ctx, ledger.New{Name: name})
					require.NoError(t, err)
				}
				for _, change := range k.before {
					_, err := change(h, ctx, "a", "operator")
					require.NoError(t, err)
				}
				l, err := h.Ledger("a")
				require.NoError(t, err)
				size := l.Head().Size
				stop()
				older := t.TempDir()
				require.NoError(t, os.CopyFS(older, os.DirFS(dir)))
				h, stop = start()
				for _, change := range k.after {
					_, err := change(h, ctx, "a", "operator")
					require.NoError(t, err)
				}
				stop()
				newest := dir
				dir = older
				kept := keyFolder(t, keys)

				h, stop = start()
				l, err = h.Ledger("a")
				require.NoError(t, err)
				_, err = l.Submit(submission(t, l, ipc(t, "after", "x"), ""))
				require.ErrorIs(t, err, highwater.ErrRollback)
				require.ErrorIs(t, l.Writable(ctx), highwater.ErrRollback)
				for _, change := range []change{rotate, retire} {
					_, err = change(h, ctx, "a", "operator")
					require.ErrorIs(t, err, highwater.ErrRollback)
				}
				_, err = l.Keys().OpenCheckpoint(l.Head().Checkpoint, l.Keys().Verifiers()...)
				require.NoError(t, err)
				b, err := h.Ledger("b")
				require.NoError(t, err)
				_, err = b.Submit(submission(t, b, ipc(t, "after", "x"), ""))
				require.NoError(t, err)
				require.Equal(t, kept, keyFolder(t, keys))
				_, err = h.Create(ctx, ledger.New{Name: "c"})
				require.NoError(t, err)
				require.NoError(t, l.Freeze(ctx))
				require.NoError(t, l.Writable(ctx), "a frozen ledger needs no writes")
				require.Equal(t, size, l.Head().Size)
				stop()
				require.NoError(t, os.Remove(keys.Path("c")))
				if marked {
					require.NoError(t, os.Remove(marks.Path("c")))
				}

				// The newest copy is restored.
				dir = newest
				h, stop = start()
				l, err = h.Ledger("a")
				require.NoError(t, err)
				ack, err := l.Submit(submission(t, l, ipc(t, "after", "x"), ""))
				require.NoError(t, err)
				_, err = l.Keys().OpenCheckpoint(ack.Head.Checkpoint, l.Keys().Verifiers()...)
				require.NoError(t, err)
				stop()
			})
		}
	}
}

// A key file is removed only if the log shows that its key is retired, whatever else the
// folder of keys contains.
func TestKeysThatSignAreNeverRemoved(t *testing.T) {
	signers := make([]*proofs.Signer, 4) // the last is not a key of the log
	for i := range signers {
		var err error
		signers[i], err = proofs.NewKey([32]byte{byte(i + 1)}).Signer("test.invalid/default")
		require.NoError(t, err)
	}
	histories := []*proofs.KeyHistory{proofs.NewKeyHistory(signers[0].Verifier())}
	for i, seq := range []uint64{3, 5, 7} { // key 0 is replaced, then retired; then key 1 is replaced
		from, step := i/2, proofs.KeyRetired
		c := proofs.KeyChange{Previous: signers[from].Verifier(), Next: signers[from+1].Verifier()}
		if i%2 == 0 {
			step = proofs.KeyIntroduced
			var err error
			c.Handover, err = proofs.NewHandover(signers[from], signers[from+1])
			require.NoError(t, err)
		}
		c.Step = step
		history := histories[i].Clone()
		require.NoError(t, history.Add(seq, c))
		histories = append(histories, history)
	}
	for states := range 5 * 5 * 5 {
		dir := t.TempDir()
		keys := keystore.Files{Dir: dir}
		held := make(map[int]bool)
		for i, path := range []string{keys.Path("a"), keys.PreviousPath("a"), keys.NextPath("a")} {
			which := states
			for range i {
				which /= 5
			}
			if which %= 5; which < len(signers) {
				require.NoError(t, os.WriteFile(path, []byte(signers[which].Secret()+"\n"), 0o600))
				held[which] = true
			}
		}
		before := keyFolder(t, keys)
		for at, history := range histories {
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.Mkdir(dir, 0o700))
			for file, text := range before {
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			}
			err := keys.Reconcile("a", history)
			after := fmt.Sprint(keyFolder(t, keys))
			for which := range held {
				if which == 0 && at >= 2 {
					continue // retired
				}
				require.Contains(t, after, signers[which].Secret(), "%d events, from %v: %v", at, before, err)
			}
			if err == nil {
				loaded, err := keys.Load("a")
				require.NoError(t, err)
				require.Equal(t, history.Current().String(), loaded.Verifier().String())
			}
		}
	}
}

// The keys of one ledger are lost or do not belong to its log. That ledger is read-only. The
// other ledgers of the host work, and no key file changes.
func TestOneLedgerWithoutItsKeys(t *testing.T) {
	foreign, err := proofs.GenerateKey().Signer("log.example/foreign")
	require.NoError(t, err)
	newer, err := proofs.GenerateKey().Signer("log.example/a")
	require.NoError(t, err)
	put := func(path, text string) func(*testing.T) {
		return func(t *testing.T) { require.NoError(t, os.WriteFile(path, []byte(text+"\n"), 0o600)) }
	}
	for name, k := range map[string]struct {
		harm func(keys keystore.Files, first string) func(*testing.T)
		says string
	}{
		"lost": {func(keys keystore.Files, _ string) func(*testing.T) {
			return func(t *testing.T) { require.NoError(t, os.Remove(keys.Path("a"))) }
		}, "is missing or damaged. The operator must put it back as keys/a.key"},
		"an older one":      {func(keys keystore.Files, first string) func(*testing.T) { return put(keys.Path("a"), first) }, "put it back as keys/a.key"},
		"of another origin": {func(keys keystore.Files, _ string) func(*testing.T) { return put(keys.Path("a"), foreign.Secret()) }, "put it back as keys/a.key"},
		"damaged":           {func(keys keystore.Files, _ string) func(*testing.T) { return put(keys.Path("a"), "PRIVATE+KEY+x") }, "put it back as keys/a.key"},
		"a foreign previous key": {func(keys keystore.Files, _ string) func(*testing.T) {
			return put(keys.PreviousPath("a"), foreign.Secret())
		}, "keys/a.key.previous holds a key that does not belong to the ledger; move it away"},
		"a damaged previous key": {func(keys keystore.Files, _ string) func(*testing.T) { return put(keys.PreviousPath("a"), "x") }, "a signing key of ledger a is wrong: keys/a.key, .previous or .next"},
		"a damaged next key":     {func(keys keystore.Files, _ string) func(*testing.T) { return put(keys.NextPath("a"), "x") }, "a signing key of ledger a is wrong: keys/a.key, .previous or .next"},
		"lost, a foreign key staged": {func(keys keystore.Files, _ string) func(*testing.T) {
			return func(t *testing.T) {
				require.NoError(t, os.Remove(keys.Path("a")))
				put(keys.StagedPath("a"), newer.Secret())(t)
			}
		}, "which the store does not know"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			database, keys, marks := memory.New(), keystore.Files{Dir: t.TempDir()}, keystore.Marks{Dir: t.TempDir()}
			start := func() *ledger.Host {
				h, err := ledger.OpenHost(ctx, database, keys, func(string) ledger.Config { return ledger.Config{Marks: marks} })
				require.NoError(t, err)
				return h
			}
			h := start()
			for _, name := range []string{"a", "b"} {
				_, err := h.Create(ctx, ledger.New{Name: name, Origin: "log.example/" + name})
				require.NoError(t, err)
			}
			first, err := os.ReadFile(keys.Path("a"))
			require.NoError(t, err)
			_, err = h.RotateKey(ctx, "a", "operator")
			require.NoError(t, err)
			_, err = h.RetireKey(ctx, "a", "operator")
			require.NoError(t, err)
			require.NoError(t, h.Close())
			good := keyFolder(t, keys)
			mark, err := marks.Mark("a")
			require.NoError(t, err)
			k.harm(keys, strings.TrimSpace(string(first)))(t)
			harmed := keyFolder(t, keys)

			h = start()
			l, err := h.Ledger("a")
			require.NoError(t, err)
			head := l.Head()
			_, err = l.Submit(submission(t, l, ipc(t, "after", "x"), ""))
			require.ErrorContains(t, err, k.says)
			require.ErrorContains(t, l.Writable(ctx), k.says)
			_, err = h.RotateKey(ctx, "a", "operator")
			require.Error(t, err)
			_, err = h.RetireKey(ctx, "a", "operator")
			require.Error(t, err)
			signed, err := l.Checkpoint(ctx, head, head.Size)
			require.NoError(t, err)
			_, err = l.Keys().OpenCheckpoint(signed, l.Keys().Verifiers()...)
			require.NoError(t, err, "the stored checkpoint can be read")
			_, err = l.Checkpoint(ctx, head, 1)
			require.ErrorContains(t, err, k.says, "nothing is signed")
			require.Equal(t, head, l.Head())
			b, err := h.Ledger("b")
			require.NoError(t, err)
			_, err = b.Submit(submission(t, b, ipc(t, "after", "x"), ""))
			require.NoError(t, err)
			_, err = h.RotateKey(ctx, "b", "operator")
			require.NoError(t, err)
			_, err = h.Create(ctx, ledger.New{Name: "c"})
			require.NoError(t, err)
			require.NoError(t, h.Close())
			after := keyFolder(t, keys)
			for file, text := range after {
				if strings.HasPrefix(file, "a.") {
					require.Equal(t, harmed[file], text, file)
				}
			}
			for file := range harmed {
				require.Contains(t, after, file)
			}
			now, err := marks.Mark("a")
			require.NoError(t, err)
			require.Equal(t, mark, now)

			// The keys are restored.
			for file := range after {
				if _, known := good[file]; strings.HasPrefix(file, "a.") && !known {
					require.NoError(t, os.Remove(filepath.Join(keys.Dir, file)))
				}
			}
			put(keys.Path("a"), strings.TrimSpace(good["a.key"]))(t)
			h = start()
			l, err = h.Ledger("a")
			require.NoError(t, err)
			_, err = l.Submit(submission(t, l, ipc(t, "after", "x"), ""))
			require.NoError(t, err)
			require.NoError(t, h.Close())
		})
	}
}
