package doctor

import (
	"io/fs"
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
	require.NoError(t, datadir.KeyFiles(data).ConfirmStaged(ledger))
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
	requireFinding(t, checkFolder(d), VerdictAdvice, "contains no ledgers")
	require.NoError(t, os.Mkdir(datadir.DatabaseFolder(d.data()), 0o700))
	requireFinding(t, checkFolder(d), VerdictOK, "only its owner can read")
	require.NoError(t, os.Chmod(d.data(), 0o750))
	requireFinding(t, checkFolder(d), VerdictAdvice, "members of the folder's group can read")
	require.NoError(t, os.Chmod(d.data(), 0o755))
	requireFinding(t, checkFolder(d), VerdictWrong, "every user of this machine")
	d.settings.config.DataDir = filepath.Join(d.data(), "file")
	requireFinding(t, checkFolder(d), VerdictAdvice, "the folder "+d.data()+" does not exist")
	d.settings.named = true
	requireFinding(t, checkFolder(d), VerdictWrong, "the folder "+d.data()+" does not exist")
	require.NoError(t, os.WriteFile(d.data(), nil, 0o600))
	requireFinding(t, checkFolder(d), VerdictWrong, "is not a folder")
}

func TestCheckOwner(t *testing.T) {
	skipWithoutModes(t)
	d := newDeployment(t)
	makeKey(t, d.data(), "default")
	require.NoError(t, os.Mkdir(datadir.DatabaseFolder(d.data()), 0o700))
	requireFinding(t, checkOwner(d), VerdictOK, "all files belong to user")
	another := os.Getuid() + 1
	count, example, err := filesOfOthers(d.data(), another)
	require.NoError(t, err)
	require.Equal(t, uint64(3), count, "the folders db and keys, and the key file")
	require.Equal(t, datadir.KeyFiles(d.data()).Path("default"), example)
	d.settings.config.DataDir = filepath.Join(d.data(), "nowhere")
	requireFinding(t, checkOwner(d), VerdictNotChecked, "cannot be read")
}

// With fsGroup, kubelet leaves the root of a new volume to root, and lets the server's group write to
// it. serve accepts such a folder.
func TestChecksOfAKubernetesVolume(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root can give a file to another user")
	}
	const server = 65532
	d := newDeployment(t)
	require.NoError(t, os.Chmod(d.data(), 0o775|fs.ModeSetgid))
	requireFinding(t, checkFolder(d), VerdictAdvice, "contains no ledgers")
	requireFinding(t, checkOwner(d), VerdictNotChecked, "no ledgers that show which user runs the server")

	makeKey(t, d.data(), "default")
	database := datadir.DatabaseFolder(d.data())
	require.NoError(t, os.Mkdir(database, 0o700))
	for _, path := range []string{database, datadir.KeyFiles(d.data()).Dir, datadir.KeyFiles(d.data()).Path("default")} {
		require.NoError(t, os.Chown(path, server, server))
	}
	requireFinding(t, checkFolder(d), VerdictOK, "root owns "+d.data())
	requireFinding(t, checkOwner(d), VerdictOK, "all files belong to user 65532")

	require.NoError(t, os.Mkdir(datadir.TokenFolder(d.data()), 0o700)) // by a command that root has run
	requireFinding(t, checkOwner(d), VerdictWrong, "not owned by user 65532")
	require.Equal(t, "run: chown -R 65532 "+d.data(), checkOwner(d)[0].Advice)
	require.NoError(t, os.Chmod(database, 0o750))
	requireFinding(t, checkFolder(d), VerdictAdvice, "members of the folder's group can read "+database)
	require.NoError(t, os.Chmod(d.data(), 0o777))
	requireFinding(t, checkFolder(d), VerdictWrong, "every user of this machine can put files into "+d.data())
	require.NotContains(t, checkFolder(d)[0].Advice, "700")

	require.NoError(t, os.Chown(database, 0, 0))
	requireFinding(t, checkOwner(d), VerdictWrong, "not owned by user 0")
	require.NotContains(t, checkOwner(d)[0].Advice, "chown -R 0")
}

func TestCheckKeys(t *testing.T) {
	skipWithoutModes(t)
	d := newDeployment(t)
	requireFinding(t, checkKeys(d), VerdictOK, "no signing key exists yet")
	requireFinding(t, checkKeyCopy(d), VerdictOK, "no key")
	require.NoError(t, os.Mkdir(datadir.DatabaseFolder(d.data()), 0o700))
	requireFinding(t, checkKeys(d), VerdictWrong, "the database exists, but "+datadir.KeyFiles(d.data()).Dir+" contains no signing key")
	makeKey(t, d.data(), "default")
	makeKey(t, d.data(), "second")
	requireFinding(t, checkKeys(d), VerdictOK, "2 keys: default, second")
	requireFinding(t, checkKeyCopy(d), VerdictAdvice, "cannot check")

	path := datadir.KeyFiles(d.data()).Path("second")
	require.NoError(t, os.Chmod(path, 0o640))
	requireFinding(t, checkKeys(d), VerdictWrong, "run: chmod 600 "+path)
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.WriteFile(path, []byte("no key\n"), 0o600))
	requireFinding(t, checkKeys(d), VerdictWrong, path)
	require.NoError(t, os.Remove(path))
	dir := datadir.KeyFiles(d.data()).Dir
	require.NoError(t, os.Chmod(dir, 0o755))
	requireFinding(t, checkKeys(d), VerdictWrong, "other users can read")
	require.NoError(t, os.Remove(datadir.KeyFiles(d.data()).Path("default")))
	requireFinding(t, checkKeys(d), VerdictWrong, "the database exists, but "+datadir.KeyFiles(d.data()).Dir+" contains no signing key")
}

func TestCheckKeysNamesStagedAndUnknownFiles(t *testing.T) {
	skipWithoutModes(t)
	d := newDeployment(t)
	signer := makeKey(t, d.data(), "default")
	require.NoError(t, datadir.KeyFiles(d.data()).Stage("next", signer))
	requireFinding(t, checkKeys(d), VerdictAdvice, "is the staged key of a ledger that does not exist yet (origin ledger.example/default)")
	require.NoError(t, os.Chmod(datadir.KeyFiles(d.data()).StagedKeyPath("next"), 0o644))
	requireFinding(t, checkKeys(d), VerdictWrong, "next.key.new")
	require.NoError(t, os.Remove(datadir.KeyFiles(d.data()).StagedKeyPath("next")))
	require.NoError(t, os.WriteFile(datadir.KeyFiles(d.data()).Path("default")+".123", []byte("x"), 0o600))
	requireFinding(t, checkKeys(d), VerdictAdvice, "default.key.123 is not the signing key")
}
