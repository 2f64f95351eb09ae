package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api/access"
	"colophon/internal/datadir"
	"colophon/proofs"
)

// makeKey puts the key of a ledger into a data folder and returns its signer.
func makeKey(t testing.TB, data, ledger string) *proofs.Signer {
	t.Helper()
	signer, err := proofs.GenerateKey().Signer("ledger.example/" + ledger)
	require.NoError(t, err)
	require.NoError(t, datadir.Keys(data).Stage(ledger, signer))
	require.NoError(t, datadir.Keys(data).Confirm(ledger))
	return signer
}

// skipWithoutModes skips what only systems with permissions in modes can show.
func skipWithoutModes(t *testing.T) {
	t.Helper()
	if !hasModes {
		t.Skip("permissions are not in modes here")
	}
}

func TestCheckFolder(t *testing.T) {
	skipWithoutModes(t)
	d := someDoctor(t)
	requireVerdict(t, checkFolder(d), advice, "holds no ledgers")
	require.NoError(t, os.Mkdir(datadir.Database(d.data()), 0o700))
	requireVerdict(t, checkFolder(d), fine, "its owner's alone")
	require.NoError(t, os.Chmod(d.data(), 0o750))
	requireVerdict(t, checkFolder(d), advice, "a group can look into")
	require.NoError(t, os.Chmod(d.data(), 0o755))
	requireVerdict(t, checkFolder(d), wrong, "every user of this machine")
	d.settings.config.Data = filepath.Join(d.data(), "file")
	requireVerdict(t, checkFolder(d), advice, "there is no folder")
	d.settings.named = true
	requireVerdict(t, checkFolder(d), wrong, "there is no folder")
	require.NoError(t, os.WriteFile(d.data(), nil, 0o600))
	requireVerdict(t, checkFolder(d), wrong, "is not a folder")
}

func TestCheckOwner(t *testing.T) {
	skipWithoutModes(t)
	d := someDoctor(t)
	makeKey(t, d.data(), "default")
	requireVerdict(t, checkOwner(d), fine, "everything belongs to user")
	another := os.Getuid() + 1
	count, example, err := filesOfOthers(d.data(), another)
	require.NoError(t, err)
	require.Equal(t, uint64(3), count, "the folder, keys, and the key")
	require.Equal(t, datadir.Keys(d.data()).Path("default"), example)
	d.settings.config.Data = filepath.Join(d.data(), "nowhere")
	requireVerdict(t, checkOwner(d), unchecked, "cannot be looked at")
}

func TestCheckKeys(t *testing.T) {
	skipWithoutModes(t)
	d := someDoctor(t)
	requireVerdict(t, checkKeys(d), fine, "there are none yet")
	requireVerdict(t, checkKeyCopy(d), fine, "no key")
	require.NoError(t, os.Mkdir(datadir.Database(d.data()), 0o700))
	requireVerdict(t, checkKeys(d), wrong, "a database but no key")
	makeKey(t, d.data(), "default")
	makeKey(t, d.data(), "second")
	requireVerdict(t, checkKeys(d), fine, "2 keys: default, second")
	requireVerdict(t, checkKeyCopy(d), advice, "cannot be seen")

	path := datadir.Keys(d.data()).Path("second")
	require.NoError(t, os.Chmod(path, 0o640))
	requireVerdict(t, checkKeys(d), wrong, "run: chmod 600 "+path)
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.WriteFile(path, []byte("no key\n"), 0o600))
	requireVerdict(t, checkKeys(d), wrong, path)
	require.NoError(t, os.Remove(path))
	dir := datadir.Keys(d.data()).Dir
	require.NoError(t, os.Chmod(dir, 0o755))
	requireVerdict(t, checkKeys(d), wrong, "others can look into")
	require.NoError(t, os.Remove(datadir.Keys(d.data()).Path("default")))
	requireVerdict(t, checkKeys(d), wrong, "a database but no key")
}

func TestCheckKeysNamesWhatWaitsOrWasLeft(t *testing.T) {
	skipWithoutModes(t)
	d := someDoctor(t)
	signer := makeKey(t, d.data(), "default")
	require.NoError(t, datadir.Keys(d.data()).Stage("next", signer))
	requireVerdict(t, checkKeys(d), advice, "waits for its ledger to be made, of origin ledger.example/default")
	require.NoError(t, os.Chmod(datadir.Keys(d.data()).StagedPath("next"), 0o644))
	requireVerdict(t, checkKeys(d), wrong, "next.key.new")
	require.NoError(t, os.Remove(datadir.Keys(d.data()).StagedPath("next")))
	require.NoError(t, os.WriteFile(datadir.Keys(d.data()).Path("default")+".123", []byte("x"), 0o600))
	requireVerdict(t, checkKeys(d), advice, "default.key.123 is no signing key")
}

// makeToken makes a token at some time.
func makeToken(t testing.TB, data string, at time.Time, name string, scopes access.Scopes, ledger string, expires time.Time) access.Made {
	t.Helper()
	store := access.Store{Dir: datadir.Access(data), Now: func() time.Time { return at }}
	made, err := store.Create(access.NewToken{Name: name, Grants: []access.Grant{{Ledgers: []string{ledger}, Scopes: scopes}}, Expires: expires})
	require.NoError(t, err)
	return made
}

func TestCheckTokens(t *testing.T) {
	day := 24 * time.Hour
	yesterday := doctorNow.Add(-day)
	for _, c := range []struct {
		name    string
		made    time.Time
		scopes  access.Scopes
		expires time.Time
		verdict grade
		words   string
	}{
		{"good", yesterday, access.Write, time.Time{}, fine, "1 token in force: robot"},
		{"administrator with an end", yesterday, access.Admin, doctorNow.Add(90 * day), fine, "1 token"},
		{"administrator for ever", yesterday, access.Admin | access.Read, time.Time{}, advice, "may administer and never ends"},
		{"ends soon", yesterday, access.Read, doctorNow.Add(3 * day), advice, "ends on 2026-03-04"},
		{"never used", doctorNow.Add(-60 * day), access.Read, time.Time{}, advice, "was never used"},
		{"expired", doctorNow.Add(-2 * day), access.Read, yesterday, advice, "ended on 2026-02-28"},
		{"none that holds", doctorNow.Add(-2 * day), access.Read, yesterday, wrong, "nobody is let in"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := someDoctor(t)
			requireVerdict(t, checkTokens(d), fine, "there are none")
			made := makeToken(t, d.data(), c.made, "robot", c.scopes, access.AllLedgers, c.expires)
			list := checkTokens(d)
			requireVerdict(t, list, c.verdict, c.words)
			text, err := json.Marshal(list)
			require.NoError(t, err)
			require.NotContains(t, string(text), made.Text)
		})
	}
}

func TestCheckTokensUsedLongAgo(t *testing.T) {
	d := someDoctor(t)
	made := makeToken(t, d.data(), doctorNow.AddDate(0, -6, 0), "robot", access.Write, "default", time.Time{})
	uses := `{"last_use":{"` + made.ID + `":"2025-12-24T00:00:00Z"}}`
	require.NoError(t, os.WriteFile(filepath.Join(datadir.Access(d.data()), "last-use.json"), []byte(uses), 0o600))
	requireVerdict(t, checkTokens(d), advice, `token "robot" (write) was used last on 2025-12-24`)
}

func TestCheckTokensWhoseFileIsDamaged(t *testing.T) {
	skipWithoutModes(t)
	d := someDoctor(t)
	makeToken(t, d.data(), doctorNow, "robot", access.Write, "default", time.Time{})
	path := filepath.Join(datadir.Access(d.data()), "tokens.json")
	require.NoError(t, os.Chmod(path, 0o644))
	requireVerdict(t, checkTokens(d), wrong, "chmod 600")
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	requireVerdict(t, checkTokens(d), wrong, "tokens.json")
	require.NoError(t, os.Remove(path))
	requireVerdict(t, checkTokens(d), wrong, "is gone")
}

func TestCheckAccessFile(t *testing.T) {
	d := someDoctor(t)
	requireVerdict(t, checkAccessFile(d), fine, "none")
	path := filepath.Join(d.data(), "access.yaml")
	d.settings.config.AccessFile = path
	write := func(text string) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("oidc:\n- {issuer: https://id.example.org, audience: ledger, rules: [{claim: groups, value: eval, ledgers: [default], scopes: [read]}]}\n")
	requireVerdict(t, checkAccessFile(d), fine, "1 issuer, 0 rules for client certificates")
	write("oidk: []\n")
	requireVerdict(t, checkAccessFile(d), wrong, "oidk")
	write("mtls:\n- {san: 'dns:robot', name: robot, ledgers: [default], scopes: [write]}\n")
	requireVerdict(t, checkAccessFile(d), wrong, `--tls-client-ca is ""`)
	d.settings.config.TLSClientCA = "ca.pem"
	requireVerdict(t, checkAccessFile(d), fine, "1 rule for client certificates")
	if hasModes {
		require.NoError(t, os.Chmod(path, 0o666))
		requireVerdict(t, checkAccessFile(d), wrong, "can be written by everybody; run: chmod o-w")
		require.NoError(t, os.Chmod(path, 0o660))
		requireVerdict(t, checkAccessFile(d), advice, "a group can change")
	}
	d.settings.config.AccessFile = ""
	requireVerdict(t, checkAccessFile(d), wrong, "none may do anything")
}
