package doctor

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/server"
	"colophon/proofs"
)

func TestCopy(t *testing.T) {
	signer, err := proofs.GenerateKey().Signer("logs.example/default")
	require.NoError(t, err)
	other, err := proofs.GenerateKey().Signer("logs.example/default")
	require.NoError(t, err)
	note, err := proofs.SignCheckpoint(proofs.Checkpoint{Origin: "logs.example/default", Size: 1, Root: proofs.Hash{1}}, signer)
	require.NoError(t, err)
	copied := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/ledgers/default/log/checkpoint" {
			_, _ = w.Write(note)
			return
		}
		http.NotFound(w, r)
	}))
	defer copied.Close()
	following := func(ledger, key string) func(*deployment) {
		return func(d *deployment) {
			withConfig(func(c *server.Config) {
				c.ReadOnly, c.CopyURL, c.CopyVerifierKey = true, copied.URL+"/v1/ledgers/"+ledger, key
			})(d)
			d.askCopy(t.Context())
		}
	}
	runCheckCases(t, checkCopy, []checkCase{
		{"none", func(*deployment) {}, VerdictOK, "follows no published copy"},
		{"signed", following("default", signer.Verifier().String()), VerdictOK, "its checkpoint is signed by the given key"},
		{"another key", following("default", other.Verifier().String()), VerdictAdvice, "the copy's checkpoint is not signed by the given key"},
		{"no such ledger", following("other", signer.Verifier().String()), VerdictWrong, "404"},
		{"no key", following("default", "nonsense"), VerdictWrong, "neither a file nor a verifier key"},
	})
	reader := newDeployment(t, following("default", signer.Verifier().String()))
	requireFinding(t, checkKeys(reader), VerdictOK, "needs no signing key")
	requireFinding(t, checkStore(reader), VerdictOK, "published copy")
	requireFinding(t, checkFolder(reader), VerdictAdvice, "contains no ledgers")
}
