package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/datadir"
	"colophon/proofs"
)

// makeKey creates a ledger's signing key in a data folder and returns its signer.
func makeKey(t testing.TB, data, ledger string) *proofs.Signer {
	t.Helper()
	signer, err := proofs.GenerateKey().Signer("ledger.example/" + ledger)
	require.NoError(t, err)
	require.NoError(t, datadir.KeyFiles(data).Stage(ledger, signer))
	require.NoError(t, datadir.KeyFiles(data).Confirm(ledger))
	return signer
}

// skipWithoutModes skips a test on systems where file modes do not describe permissions.
func skipWithoutModes(t *testing.T) {
	t.Helper()
	if !hasModes {
		t.Skip("file modes do not show permissions on this system")
	}
}

func TestCheckFolder(t *testing.T) {
	skipWithoutModes(t)
	d := newDeployment(t)
	requireFinding(t, checkFolder(d), Advice, "contains no ledgers")
	require.NoError(t, os.Mkdir(datadir.DatabaseFolder(d.data()), 0o700))
	requireFinding(t, checkFolder(d), OK, "only its owner can read")
	require.NoError(t, os.Chmod(d.data(), 0o750))
	requireFinding(t, checkFolder(d), Advice, "members of the folder's group can read")
	require.NoError(t, os.Chmod(d.data(), 0o755))
	requireFinding(t, checkFolder(d), Wrong, "every user of this machine")
	d.settings.config.Data = filepath.Join(d.data(), "file")
	requireFinding(t, checkFolder(d), Advice, "the folder "+d.data()+" does not exist")
	d.settings.named = true
	requireFinding(t, checkFolder(d), Wrong, "the folder "+d.data()+" does not exist")
	require.NoError(t, os.WriteFile(d.data(), nil, 0o600))
	requireFinding(t, checkFolder(d), Wrong, "is not a folder")
}

func TestCheckOwner(t *testing.T) {
	skipWithoutModes(t)
	d := newDeployment(t)
	makeKey(t, d.data(), "default")
	requireFinding(t, checkOwner(d), OK, "all files belong to user")
	another := os.Getuid() + 1
	count, example, err := filesOfOthers(d.data(), another)
	require.NoError(t, err)
	require.Equal(t, uint64(3), count, "the data folder, its folder keys, and the key file")
	require.Equal(t, datadir.KeyFiles(d.data()).Path("default"), example)
	d.settings.config.Data = filepath.Join(d.data(), "nowhere")
	requireFinding(t, checkOwner(d), NotChecked, "cannot be read")
}

func TestCheckKeys(t *testing.T) {
	skipWithoutModes(t)
	d := newDeployment(t)
	requireFinding(t, checkKeys(d), OK, "no signing key exists yet")
	requireFinding(t, checkKeyCopy(d), OK, "no key")
	require.NoError(t, os.Mkdir(datadir.DatabaseFolder(d.data()), 0o700))
	requireFinding(t, checkKeys(d), Wrong, "the database exists, but "+datadir.KeyFiles(d.data()).Dir+" contains no signing key")
	makeKey(t, d.data(), "default")
	makeKey(t, d.data(), "second")
	requireFinding(t, checkKeys(d), OK, "2 keys: default, second")
	requireFinding(t, checkKeyCopy(d), Advice, "cannot check")

	path := datadir.KeyFiles(d.data()).Path("second")
	require.NoError(t, os.Chmod(path, 0o640))
	requireFinding(t, checkKeys(d), Wrong, "run: chmod 600 "+path)
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.WriteFile(path, []byte("no key\n"), 0o600))
	requireFinding(t, checkKeys(d), Wrong, path)
	require.NoError(t, os.Remove(path))
	dir := datadir.KeyFiles(d.data()).Dir
	require.NoError(t, os.Chmod(dir, 0o755))
	requireFinding(t, checkKeys(d), Wrong, "other users can read")
	require.NoError(t, os.Remove(datadir.KeyFiles(d.data()).Path("default")))
	requireFinding(t, checkKeys(d), Wrong, "the database exists, but "+datadir.KeyFiles(d.data()).Dir+" contains no signing key")
}

func TestCheckKeysNamesStagedAndUnknownFiles(t *testing.T) {
	skipWithoutModes(t)
	d := newDeployment(t)
	signer := makeKey(t, d.data(), "default")
	require.NoError(t, datadir.KeyFiles(d.data()).Stage("next", signer))
	requireFinding(t, checkKeys(d), Advice, "is the staged key of a ledger that does not exist yet (origin ledger.example/default)")
	require.NoError(t, os.Chmod(datadir.KeyFiles(d.data()).StagedPath("next"), 0o644))
	requireFinding(t, checkKeys(d), Wrong, "next.key.new")
	require.NoError(t, os.Remove(datadir.KeyFiles(d.data()).StagedPath("next")))
	require.NoError(t, os.WriteFile(datadir.KeyFiles(d.data()).Path("default")+".123", []byte("x"), 0o600))
	requireFinding(t, checkKeys(d), Advice, "default.key.123 is not the signing key")
}
