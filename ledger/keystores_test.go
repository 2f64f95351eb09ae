package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/ledger/highwater"
	"colophon/ledger/keystore"
	"colophon/proofs"
	"colophon/storage"
	"colophon/storage/memory"
	"colophon/storage/pebble"
)

func TestMissingKeys(t *testing.T) {
	s := store(t, memory.New())
	l := open(t, s, config(t))
	next, err := proofs.NewKey([32]byte{9}).Signer(l.Info().Origin)
	require.NoError(t, err)
	_, err = l.RotateKey(next, "operator")
	require.NoError(t, err)
	require.NoError(t, l.Close())

	l = open(t, s, config(t))
	require.ErrorAs(t, l.CheckWritable(t.Context()), new(*ledger.SigningError), "the old key does not sign alone")
	_, err = l.RetireKey("operator")
	require.ErrorAs(t, err, new(*ledger.SigningError))
	require.NoError(t, l.Close())
	c := config(t)
	c.Signer = next
	l = open(t, s, c)
	size := l.Head().Size
	_, err = l.Submit(submission(t, l, ipc(t, "new key alone", "x"), ""))
	require.ErrorIs(t, err, ledger.ErrPreviousKeyMissing)
	require.ErrorContains(t, err, "keys/default.key.previous")
	require.ErrorIs(t, l.CheckWritable(t.Context()), ledger.ErrPreviousKeyMissing)
	_, err = l.Checkpoint(t.Context(), l.Head(), 1)
	require.ErrorIs(t, err, ledger.ErrPreviousKeyMissing, "nothing is signed")
	_, err = l.RotateKey(next, "operator")
	require.ErrorIs(t, err, ledger.ErrPreviousKeyMissing)
	require.Equal(t, size, l.Head().Size)
	require.NoError(t, l.Close())

	c = config(t)
	c.Signer, c.OtherSigners = next, []*proofs.Signer{signer(t)}
	l = open(t, s, c)
	ack := post(t, l, ipc(t, "the key is back", "x"), "")
	_, err = l.KeyHistory().OpenCheckpoint(ack.Head.Checkpoint, next.Verifier())
	require.NoError(t, err)
	require.NoError(t, l.Close())

	// The previous key is lost for good.
	c = config(t)
	c.Signer = next
	l = open(t, s, c)
	retired, err := l.RetireKey("operator")
	require.NoError(t, err)
	ack = post(t, l, ipc(t, "new key alone", "x"), "")
	require.ErrorIs(t, verifyBy(l, ack, signer(t).Verifier()), proofs.ErrWrongKey)
	for _, ack := range []ledger.Ack{retired, ack} {
		_, err = l.KeyHistory().OpenCheckpoint(ack.Head.Checkpoint, signer(t).Verifier())
		require.NoError(t, err, "every key that must sign at this size has signed")
		require.Len(t, l.KeyHistory().SigningKeysAt(ack.Head.Size), 1)
	}
	require.NoError(t, l.CheckWritable(t.Context()))
	_, err = l.Checkpoint(t.Context(), l.Head(), 1)
	require.NoError(t, err)

	_, err = host(t, memory.New(), &fixedKeys{}).RotateKey(t.Context(), "a", "operator")
	require.ErrorIs(t, err, ledger.ErrUnknownLedger)
	h := host(t, memory.New(), &fixedKeys{signer: signer(t)})
	_, err = h.Create(t.Context(), ledger.CreateOptions{Name: "a"})
	require.NoError(t, err)
	_, err = h.RotateKey(t.Context(), "a", "operator")
	require.ErrorIs(t, err, ledger.ErrExternalKeys)
}

// fixedKeys implements ledger.KeyStore with one signer that cannot be changed.
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
func (k *fixedKeys) LoadStaged(string) (*proofs.Signer, error) { return k.signer, nil }
func (k *fixedKeys) Stage(string, *proofs.Signer) error        { return errors.New("fixed") }
func (k *fixedKeys) ConfirmStaged(string) error                { k.confirmed = true; return nil }

// keyFolder returns the contents of all files in the key folder, keyed by file name.
func keyFolder(t *testing.T, keys keystore.KeyFiles) map[string]string {
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

// After a key change, a ledger refuses writes if an older copy of the database is restored, with or
// without a high-water mark. The other ledgers accept writes, and the key folder does not change.
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
				keys, marks := keystore.KeyFiles{Dir: t.TempDir()}, keystore.HighWaterMarkFiles{Dir: t.TempDir()}
				dir := t.TempDir()
				start := func() (*ledger.Host, func()) {
					database, err := pebble.Open(ctx, pebble.Config{Dir: dir, Logger: discard()})
					require.NoError(t, err)
					h, err := ledger.OpenHost(ctx, database, keys, func(string) ledger.Config {
						if marked {
							return ledger.Config{HighWaterMarks: marks}
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
					_, err := h.Create(ctx, ledger.CreateOptions{Name: name})
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
				require.ErrorIs(t, l.CheckWritable(ctx), highwater.ErrRollback)
				for _, change := range []change{rotate, retire} {
					_, err = change(h, ctx, "a", "operator")
					require.ErrorIs(t, err, highwater.ErrRollback)
				}
				_, err = l.KeyHistory().OpenCheckpoint(l.Head().Checkpoint, l.KeyHistory().Verifiers()...)
				require.NoError(t, err)
				b, err := h.Ledger("b")
				require.NoError(t, err)
				_, err = b.Submit(submission(t, b, ipc(t, "after", "x"), ""))
				require.NoError(t, err)
				require.Equal(t, kept, keyFolder(t, keys))
				_, err = h.Create(ctx, ledger.CreateOptions{Name: "c"})
				require.NoError(t, err)
				require.NoError(t, l.Freeze(ctx))
				require.NoError(t, l.CheckWritable(ctx), "a frozen ledger reports no missing key")
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
				_, err = l.KeyHistory().OpenCheckpoint(ack.Head.Checkpoint, l.KeyHistory().Verifiers()...)
				require.NoError(t, err)
				stop()
			})
		}
	}
}

// Reconcile removes a key file only if the log shows that its key is retired, regardless of what
// else is in the key folder.
func TestKeysThatSignAreNeverRemoved(t *testing.T) {
	signers := make([]*proofs.Signer, 4) // the last is not a key of the log
	for i := range signers {
		var err error
		signers[i], err = proofs.NewKey([32]byte{byte(i + 1)}).Signer("test.invalid/default")
		require.NoError(t, err)
	}
	histories := []*proofs.KeyHistory{proofs.NewKeyHistory(signers[0].Verifier())}
	for i, seq := range []uint64{3, 5, 7} { // key 0 is replaced, then retired; then key 1 is replaced
		from, step := i/2, proofs.KeyStepRetired
		c := proofs.KeyChange{Previous: signers[from].Verifier(), Next: signers[from+1].Verifier()}
		if i%2 == 0 {
			step = proofs.KeyStepIntroduced
			var err error
			c.HandoverNote, err = proofs.SignHandover(signers[from], signers[from+1])
			require.NoError(t, err)
		}
		c.Step = step
		history := histories[i].Clone()
		require.NoError(t, history.Add(seq, c))
		histories = append(histories, history)
	}
	for states := range 5 * 5 * 5 {
		dir := t.TempDir()
		keys := keystore.KeyFiles{Dir: dir}
		held := make(map[int]bool)
		for i, path := range []string{keys.Path("a"), keys.PreviousKeyPath("a"), keys.NextKeyPath("a")} {
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
					continue // the key is retired
				}
				require.Contains(t, after, signers[which].Secret(), "%d events, from %v: %v", at, before, err)
			}
			if err == nil {
				loaded, err := keys.Load("a")
				require.NoError(t, err)
				require.Equal(t, history.CurrentKey().String(), loaded.Verifier().String())
			}
		}
	}
}

// If the keys of one ledger are lost or do not belong to its log, that ledger is read-only. The
// other ledgers of the host accept writes, and no key file changes.
func TestOneLedgerWithoutItsKeys(t *testing.T) {
	foreign, err := proofs.GenerateKey().Signer("log.example/foreign")
	require.NoError(t, err)
	newer, err := proofs.GenerateKey().Signer("log.example/a")
	require.NoError(t, err)
	put := func(path, text string) func(*testing.T) {
		return func(t *testing.T) { require.NoError(t, os.WriteFile(path, []byte(text+"\n"), 0o600)) }
	}
	for name, k := range map[string]struct {
		harm func(keys keystore.KeyFiles, first string) func(*testing.T)
		says string
	}{
		"lost": {func(keys keystore.KeyFiles, _ string) func(*testing.T) {
			return func(t *testing.T) { require.NoError(t, os.Remove(keys.Path("a"))) }
		}, "is missing or damaged. The operator must restore it to keys/a.key"},
		"an older one":      {func(keys keystore.KeyFiles, first string) func(*testing.T) { return put(keys.Path("a"), first) }, "restore it to keys/a.key"},
		"of another origin": {func(keys keystore.KeyFiles, _ string) func(*testing.T) { return put(keys.Path("a"), foreign.Secret()) }, "restore it to keys/a.key"},
		"damaged":           {func(keys keystore.KeyFiles, _ string) func(*testing.T) { return put(keys.Path("a"), "PRIVATE+KEY+x") }, "restore it to keys/a.key"},
		"a foreign previous key": {func(keys keystore.KeyFiles, _ string) func(*testing.T) {
			return put(keys.PreviousKeyPath("a"), foreign.Secret())
		}, "keys/a.key.previous does not belong to the ledger; remove the file"},
		"a damaged previous key": {func(keys keystore.KeyFiles, _ string) func(*testing.T) { return put(keys.PreviousKeyPath("a"), "x") }, "a signing key of ledger a is invalid (in keys/a.key, with or without the suffix .previous or .next"},
		"a damaged next key":     {func(keys keystore.KeyFiles, _ string) func(*testing.T) { return put(keys.NextKeyPath("a"), "x") }, "a signing key of ledger a is invalid (in keys/a.key, with or without the suffix .previous or .next"},
		"lost, a foreign key staged": {func(keys keystore.KeyFiles, _ string) func(*testing.T) {
			return func(t *testing.T) {
				require.NoError(t, os.Remove(keys.Path("a")))
				put(keys.StagedKeyPath("a"), newer.Secret())(t)
			}
		}, "the store does not contain this key"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			database, keys, marks := memory.New(), keystore.KeyFiles{Dir: t.TempDir()}, keystore.HighWaterMarkFiles{Dir: t.TempDir()}
			start := func() *ledger.Host {
				h, err := ledger.OpenHost(ctx, database, keys, func(string) ledger.Config { return ledger.Config{HighWaterMarks: marks} })
				require.NoError(t, err)
				return h
			}
			h := start()
			for _, name := range []string{"a", "b"} {
				_, err := h.Create(ctx, ledger.CreateOptions{Name: name, Origin: "log.example/" + name})
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
			require.ErrorContains(t, l.CheckWritable(ctx), k.says)
			_, err = h.RotateKey(ctx, "a", "operator")
			require.Error(t, err)
			_, err = h.RetireKey(ctx, "a", "operator")
			require.Error(t, err)
			signed, err := l.Checkpoint(ctx, head, head.Size)
			require.NoError(t, err)
			_, err = l.KeyHistory().OpenCheckpoint(signed, l.KeyHistory().Verifiers()...)
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
			_, err = h.Create(ctx, ledger.CreateOptions{Name: "c"})
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
