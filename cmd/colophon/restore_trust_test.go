package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api/access"
	"colophon/internal/backup"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/ledger"
	"colophon/proofs"
)

// change modifies the manifest of the newest backup, as an attacker could. It does not sign the
// manifest again.
func (s *stored) change(f func(m *backup.Manifest)) {
	s.Helper()
	list := s.manifests()
	m := list[len(list)-1]
	f(m)
	text, err := json.Marshal(m)
	require.NoError(s, err)
	require.NoError(s, os.WriteFile(filepath.Join(s.backups, m.Name()+".json"), text, 0o600))
}

// plant replaces a file in the newest backup and changes the file's digest in the manifest to
// match.
func (s *stored) plant(name string, text []byte) {
	s.Helper()
	s.change(func(m *backup.Manifest) {
		sum := sha256.Sum256(text)
		f := backup.StoredFile{Name: name, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(text))}
		require.NoError(s, os.WriteFile(backup.Store{Dir: s.backups}.FilePath(f.SHA256), text, 0o600))
		for i := range m.Files {
			if m.Files[i].Name == name {
				m.Files[i] = f
				return
			}
		}
		m.Files = append(m.Files, f)
	})
}

// forge signs the manifest of the newest backup with the keys of an attacker.
func (s *stored) forge(signers ...*proofs.Signer) {
	s.Helper()
	s.change(func(m *backup.Manifest) {
		digest, err := m.Digest()
		require.NoError(s, err)
		note, err := proofs.SignBackup(digest, signers...)
		require.NoError(s, err)
		m.SignedNote = string(note)
	})
}

// authorized reports whether a server on the data folder accepts a token, and whether it requires
// one.
func authorized(t *testing.T, data, token string) (accepted, required bool) {
	t.Helper()
	a, err := access.Open(access.Config{Dir: datadir.TokenFolder(data)})
	require.NoError(t, err)
	defer a.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/", nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	_, err = a.Authenticate(r)
	return err == nil, a.RequiresIdentity()
}

func (s *stored) token(data, name string) string {
	s.Helper()
	made, err := access.TokenStore{Dir: datadir.TokenFolder(data), Now: time.Now}.Create(access.TokenSpec{
		Name: name, Grants: []access.Grant{{Ledgers: []string{access.AllLedgers}, Scopes: access.AllScopes}},
	})
	require.NoError(s, err)
	return made.Text
}

// The restore command restores tokens only with --with-tokens. Otherwise, the restored server
// requires a token, unless an authenticated manifest states that the original server had none.
func TestRestoresLeaveTokensOut(t *testing.T) {
	s := newStored(t)
	s.post(1)
	s.backup()
	open := s.restore()
	_, required := authorized(t, open, "")
	require.False(t, required, "an authenticated manifest states that the server had no tokens")
	data := filepath.Join(t.TempDir(), "data")
	output := s.colophon(cli.ExitOK, "restore", "--from", s.backups, "--data", data, "--newest", "--unauthenticated")
	require.Contains(t, output, "no tokens were restored, but requests require a token")
	_, required = authorized(t, data, "")
	require.True(t, required, "an attacker might have removed the tokens from the backup")

	revoked := s.token(s.data, "revoked")
	s.backup()
	s.colophon(cli.ExitOK, "token", "revoke", "revoked", "--data", s.data)
	data = filepath.Join(t.TempDir(), "data")
	output = s.colophon(cli.ExitOK, "restore", "--from", s.backups, "--data", data, "--newest", "--key", s.key())
	require.Contains(t, output, "no tokens were restored, but requests require a token; create one with colophon token create --data "+data)
	accepted, required := authorized(t, data, revoked)
	require.False(t, accepted)
	require.True(t, required)
	made := s.token(data, "revoked") // the name of a token that was not restored can be used again
	accepted, _ = authorized(t, data, made)
	require.True(t, accepted)

	data = filepath.Join(t.TempDir(), "data")
	output = s.colophon(cli.ExitOK, "restore", "--from", s.backups, "--data", data, "--newest", "--key", s.key(), "--with-tokens")
	require.Contains(t, output, "revoke again any token that was revoked after the backup")
	accepted, _ = authorized(t, data, revoked)
	require.True(t, accepted)
	data = filepath.Join(t.TempDir(), "data")
	s.colophon(cli.ExitUsage, "restore", "--from", s.backups, "--data", data, "--newest", "--unauthenticated", "--with-tokens")
	require.NoDirExists(t, data)
}

// A backup can be authenticated only with keys that the operator already has, never with anything
// inside the backup.
func TestRestoresAuthenticate(t *testing.T) {
	s := newStored(t)
	s.post(3)
	s.backup("--with-keys")
	stranger, err := proofs.GenerateKey().Signer(s.manifests()[0].Ledgers[0].Origin)
	require.NoError(t, err)
	restore := func(t *testing.T, code int, says string, args ...string) string {
		t.Helper()
		data := filepath.Join(t.TempDir(), "data")
		output := s.colophon(code, append([]string{"restore", "--from", s.backups, "--data", data, "--newest"}, args...)...)
		require.Contains(t, output, says)
		if code != cli.ExitOK {
			require.NoDirExists(t, data)
		}
		return data
	}
	unused, err := proofs.GenerateKey().Signer("log.example/unused")
	require.NoError(t, err)
	vkey := filepath.Join(t.TempDir(), "verifier.key")
	require.NoError(t, os.WriteFile(vkey, []byte(unused.Verifier().String()+"\n"+s.key()+"\n"), 0o600))
	authentic := map[string][]string{"a key": {"--key", s.key()}, "a file of keys": {"--key", vkey}}
	for name, args := range authentic {
		t.Run(name, func(t *testing.T) { restore(t, cli.ExitOK, "restored the backup", args...) })
	}
	t.Run("the signing keys", func(t *testing.T) {
		data := filepath.Join(t.TempDir(), "data")
		require.NoError(t, os.CopyFS(datadir.KeyFiles(data).Dir, os.DirFS(datadir.KeyFiles(s.data).Dir)))
		require.NoError(t, os.Chmod(datadir.KeyFiles(data).Path(ledger.DefaultName), 0o600))
		s.colophon(cli.ExitOK, "restore", "--from", s.backups, "--data", data, "--newest")
	})
	t.Run("no trusted key", func(t *testing.T) {
		restore(t, cli.ExitUsage, `not authenticated: no trusted key for ledger "default"`)
	})
	t.Run("another key", func(t *testing.T) {
		restore(t, cli.ExitFailed, "not authenticated", "--key", stranger.Verifier().String())
	})
	t.Run("accepted without authentication", func(t *testing.T) {
		restore(t, cli.ExitOK, "NOT AUTHENTICATED", "--unauthenticated")
	})

	name, good := s.manifests()[0].Name(), filepath.Join(s.backups, s.manifests()[0].Name()+".json")
	whole, err := os.ReadFile(good)
	require.NoError(t, err)
	planted := filepath.Join(t.TempDir(), "planted")
	s.token(planted, "thief")
	tokens, err := os.ReadFile(filepath.Join(datadir.TokenFolder(planted), "tokens.json"))
	require.NoError(t, err)
	for name, forge := range map[string]func(){
		"a planted token":               func() { s.plant("access/tokens.json", tokens) },
		"a planted key":                 func() { s.plant("keys/default.key.next", []byte(stranger.Secret())) },
		"a planted token, newly signed": func() { s.plant("access/tokens.json", tokens); s.forge(stranger) },
		"another time":                  func() { s.change(func(m *backup.Manifest) { m.Ledgers[0].LastEventTime = m.CreatedAt }) },
		"no note":                       func() { s.change(func(m *backup.Manifest) { m.SignedNote = "" }) },
		"a checkpoint as the note":      func() { s.change(func(m *backup.Manifest) { m.SignedNote = m.Ledgers[0].Checkpoint }) },
		"no ledger":                     func() { s.change(func(m *backup.Manifest) { m.Ledgers = nil }); s.forge(stranger) },
		"a ledger whose size is 0":      func() { s.change(func(m *backup.Manifest) { m.Ledgers[0].TreeSize = 0 }); s.forge(stranger) },
	} {
		t.Run(name, func(t *testing.T) {
			forge()
			for _, args := range authentic {
				restore(t, cli.ExitFailed, "the backup is not authenticated", append(args, "--with-tokens")...)
			}
			require.NoError(t, os.WriteFile(good, whole, 0o600))
		})
	}
	t.Run("a planted next key is not restored", func(t *testing.T) {
		s.plant("keys/default.key.next", []byte(stranger.Secret()))
		data := restore(t, cli.ExitOK, "NOT AUTHENTICATED", "--unauthenticated")
		require.FileExists(t, datadir.KeyFiles(data).Path(ledger.DefaultName))
		require.NoFileExists(t, datadir.KeyFiles(data).NextKeyPath(ledger.DefaultName))
		require.NoError(t, os.WriteFile(good, whole, 0o600))
	})
	t.Run("an older backup under a newer name", func(t *testing.T) {
		newer := filepath.Join(s.backups, time.Now().UTC().Add(time.Hour).Format(backup.NameLayout)+".json")
		require.NoError(t, os.WriteFile(newer, whole, 0o600))
		restore(t, cli.ExitFailed, "it contains the manifest of "+name, "--key", s.key())
		require.NoError(t, os.Remove(newer))
	})
}

// For each ledger in a backup, a key that signs the ledger's checkpoints must sign the manifest.
func TestEveryLedgerSignsABackup(t *testing.T) {
	s := newStored(t)
	s.post(1)
	database := s.opened()
	host, err := ledger.OpenHost(t.Context(), database, datadir.KeyFiles(s.data), func(string) ledger.Config { return ledger.Config{} })
	require.NoError(t, err)
	other, err := host.Create(t.Context(), ledger.CreateOptions{Name: "other"})
	require.NoError(t, err)
	_, err = host.RotateKey(t.Context(), ledger.DefaultName, "operator")
	require.NoError(t, err)
	l, err := host.Ledger(ledger.DefaultName)
	require.NoError(t, err)
	previous, current := l.KeyHistory().OverlappingKey().String(), l.VerifierKey()
	m := &backup.Manifest{Version: backup.ManifestVersion}
	m.Ledgers, err = backup.InspectLedgers(t.Context(), database)
	require.NoError(t, err)
	require.NoError(t, host.Close())
	unsigned, err := m.Sign(datadir.SigningKeys(&cli.Console{LookupEnv: func(string) (string, bool) { return "", false }}, s.data))
	require.NoError(t, err)
	require.Empty(t, unsigned)

	keys := func(list ...string) (parsed []*proofs.Verifier) {
		for _, text := range list {
			v, err := proofs.ParseVerifier(text)
			require.NoError(t, err)
			parsed = append(parsed, v)
		}
		return parsed
	}
	require.NoError(t, m.Authenticate(keys(current, other.VerifierKey())))
	require.NoError(t, m.Authenticate(keys(previous, other.VerifierKey())), "during a rotation, either key authenticates the backup")
	require.ErrorIs(t, m.Authenticate(keys(other.VerifierKey())), backup.ErrNoTrustedKey)
	require.ErrorIs(t, m.Authenticate(keys(current)), backup.ErrNoTrustedKey)

	// The owner of one ledger's key cannot sign for another ledger.
	thief, err := datadir.KeyFiles(s.data).Load("other")
	require.NoError(t, err)
	digest, err := m.Digest()
	require.NoError(t, err)
	note, err := proofs.SignBackup(digest, thief)
	require.NoError(t, err)
	m.SignedNote = string(note)
	err = m.Authenticate(keys(current, other.VerifierKey()))
	require.ErrorContains(t, err, `ledger "default"`)
	require.ErrorIs(t, err, proofs.ErrWrongKey, "restore must explain the error as a wrong key")
}

// A backup that is made without access to the signing keys succeeds and reports that it is not
// signed.
func TestBackupsReportThatTheyAreNotSigned(t *testing.T) {
	s := newStored(t)
	s.post(1)
	key := s.key()
	path := datadir.KeyFiles(s.data).Path(ledger.DefaultName)
	require.NoError(t, os.Rename(path, path+"x"))
	require.Contains(t, s.backup(), "the backup is not signed with the keys of default")
	require.NoError(t, os.Rename(path+"x", path))
	output := s.colophon(cli.ExitFailed, "restore", "--from", s.backups, "--data", filepath.Join(t.TempDir(), "x"), "--newest", "--key", key)
	require.Contains(t, output, "the backup is not signed")
	require.False(t, strings.Contains(s.backup(), "not signed"))
	s.restore()
}

// The restore command trusts only the newest key in the folder "keys". It accepts an older key,
// which might have been stolen, only if that key is given with --key.
func TestRestoresTrustTheNewestKey(t *testing.T) {
	s := newStored(t)
	s.post(1)
	s.backup()
	signer, err := proofs.GenerateKey().Signer(s.manifests()[0].Ledgers[0].Origin)
	require.NoError(t, err)
	for _, name := range []string{".previous", ".next", ".new"} {
		data := filepath.Join(t.TempDir(), "data")
		require.NoError(t, os.MkdirAll(datadir.KeyFiles(data).Dir, 0o700))
		newest := datadir.KeyFiles(data).Path(ledger.DefaultName)
		old, err := os.ReadFile(datadir.KeyFiles(s.data).Path(ledger.DefaultName))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(newest, []byte(signer.Secret()+"\n"), 0o600))
		require.NoError(t, os.WriteFile(newest+name, old, 0o600))
		args := []string{"restore", "--from", s.backups, "--data", data, "--newest"}
		output := s.colophon(cli.ExitFailed, args...)
		require.Contains(t, output, "give the key that signed at the time of the backup with --key", name)
		require.NoDirExists(t, datadir.DatabaseFolder(data))
		s.colophon(cli.ExitOK, append(args, "--key", s.key())...)
	}
}
