package ledger_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/ledger/highwater"
	"colophon/ledger/keystore"
	"colophon/proofs"
	"colophon/storage/memory"
)

// A ledger can read its keys from an environment variable, which holds both keys during a rotation.
// The keys are never written to a file.
func TestKeysFromVariables(t *testing.T) {
	ctx := t.Context()
	one, err := proofs.GenerateKey().Signer("log.example/a-b")
	require.NoError(t, err)
	two, err := proofs.GenerateKey().Signer("log.example/a-b")
	require.NoError(t, err)
	environment := make(map[string]string)
	keys := keystore.EnvKeys{KeyFiles: keystore.KeyFiles{Dir: t.TempDir()}, Lookup: func(name string) (string, bool) {
		value, set := environment[name]
		return value, set
	}}
	const variable = "COLOPHON_SIGNING_KEY_A_B"
	require.Equal(t, variable, keys.VariableName("a-b"))
	database := memory.New()
	environment[variable] = one.Secret()
	h := host(t, database, keys)
	l, err := h.Create(ctx, ledger.CreateOptions{Name: "a-b"})
	require.NoError(t, err)
	require.Equal(t, one.Verifier().String(), l.VerifierKey())
	other, err := h.Create(ctx, ledger.CreateOptions{Name: "other"})
	require.NoError(t, err)
	require.FileExists(t, keys.Path("other"), "a ledger without a variable has its key in a file")
	_, err = h.RotateKey(ctx, "other", "operator")
	require.NoError(t, err)
	require.NotNil(t, other.KeyHistory().OverlappingKey())
	_, err = h.RotateKey(ctx, "a-b", "operator")
	require.ErrorIs(t, err, ledger.ErrExternalKeys)
	require.NoError(t, h.Close())

	environment[variable] = one.Secret() + "\n " + two.Secret() + "\n"
	h = host(t, database, keys)
	_, err = h.RotateKey(ctx, "a-b", "operator")
	require.NoError(t, err)
	require.NoError(t, h.Close())
	h = host(t, database, keys)
	l, err = h.Ledger("a-b")
	require.NoError(t, err)
	require.Equal(t, two.Verifier().String(), l.VerifierKey())
	_, err = h.RetireKey(ctx, "a-b", "operator")
	require.NoError(t, err)
	_, err = h.RotateKey(ctx, "a-b", "operator")
	require.ErrorIs(t, err, ledger.ErrExternalKeys, "a retired key cannot be used again")
	require.NoError(t, h.Close())

	environment[variable] = two.Secret()
	require.NoError(t, host(t, database, keys).Close())
	entries, err := os.ReadDir(keys.Dir)
	require.NoError(t, err)
	for _, entry := range entries {
		text, err := os.ReadFile(keys.Dir + "/" + entry.Name())
		require.NoError(t, err)
		require.NotContains(t, string(text), one.Secret())
		require.NotContains(t, string(text), two.Secret())
	}

	// If the database is lost but the key is not, no second log is signed with that key.
	_, err = host(t, memory.New(), keys).Create(ctx, ledger.CreateOptions{Name: "a-b"})
	require.ErrorIs(t, err, ledger.ErrKeyWithoutLedger)
	environment[variable] = one.Secret()
	_, err = keys.Load("a-b")
	require.ErrorContains(t, err, "add that key")
	environment[variable] = "PRIVATE+KEY+x"
	_, err = keys.Load("a-b")
	require.ErrorIs(t, err, proofs.ErrMalformed)
	require.NotContains(t, err.Error(), "PRIVATE")
	environment[variable] = one.Secret()
	require.NoError(t, keys.KeyFiles.Stage("a-b", one))
	require.NoError(t, keys.KeyFiles.ConfirmStaged("a-b"))
	_, err = keys.Load("a-b")
	require.ErrorContains(t, err, "remove one of them")

	// Without a variable or a key file, the ledger cannot sign.
	delete(environment, variable)
	moved := memory.New()
	h = host(t, moved, keystore.EnvKeys{KeyFiles: keystore.KeyFiles{Dir: t.TempDir()}, Lookup: keys.Lookup})
	_, err = h.Create(ctx, ledger.CreateOptions{Name: "c"})
	require.NoError(t, err)
	require.NoError(t, h.Close())
	h = host(t, moved, keystore.EnvKeys{KeyFiles: keystore.KeyFiles{Dir: t.TempDir()}, Lookup: keys.Lookup})
	l, err = h.Ledger("c")
	require.NoError(t, err)
	require.ErrorAs(t, l.CheckWritable(ctx), new(*ledger.SigningError))
}

// If the keys in the environment variable are newer than those recorded in the database, the ledger
// signs nothing, and the file that names the last signer does not change. If the variable lacks the
// previous key during an overlap, the ledger signs nothing until that key is retired.
func TestVariablesThatDoNotFitTheLog(t *testing.T) {
	ctx := t.Context()
	one, err := proofs.GenerateKey().Signer("log.example/a")
	require.NoError(t, err)
	two, err := proofs.GenerateKey().Signer("log.example/a")
	require.NoError(t, err)
	value := one.Secret()
	lookup := func(string) (string, bool) { return value, true }
	older := memory.New()
	h := host(t, older, keystore.EnvKeys{KeyFiles: keystore.KeyFiles{Dir: t.TempDir()}, Lookup: lookup})
	_, err = h.Create(ctx, ledger.CreateOptions{Name: "a"})
	require.NoError(t, err)
	require.NoError(t, h.Close())
	newest, keys := memory.New(), keystore.EnvKeys{KeyFiles: keystore.KeyFiles{Dir: t.TempDir()}, Lookup: lookup}
	h = host(t, newest, keys)
	_, err = h.Create(ctx, ledger.CreateOptions{Name: "a"})
	require.NoError(t, err)
	value += " " + two.Secret()
	_, err = h.RotateKey(ctx, "a", "operator")
	require.NoError(t, err)
	require.NoError(t, h.Close())

	h = host(t, older, keys)
	l, err := h.Ledger("a")
	require.NoError(t, err)
	require.ErrorIs(t, l.CheckWritable(ctx), highwater.ErrRollback)
	require.NoError(t, h.Close())
	signed, err := os.ReadFile(keys.LastSignerPath("a"))
	require.NoError(t, err)
	require.Equal(t, two.Verifier().String()+"\n", string(signed))

	value = two.Secret()
	h = host(t, newest, keys)
	l, err = h.Ledger("a")
	require.NoError(t, err)
	require.ErrorIs(t, l.CheckWritable(ctx), ledger.ErrPreviousKeyMissing)
	_, err = h.RotateKey(ctx, "a", "operator")
	require.ErrorIs(t, err, ledger.ErrPreviousKeyMissing)
	_, err = h.RetireKey(ctx, "a", "operator")
	require.NoError(t, err)
	require.NoError(t, l.CheckWritable(ctx))
}
