package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/internal/testing/ledgertest"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// signedEvent returns a receipt for an event with the given members, and the verifier key of a log
// that contains only this event.
func signedEvent(t *testing.T, kind, ledger, time, members string) (*proofs.Receipt, string) {
	t.Helper()
	signer, err := proofs.NewKey([32]byte{1}).Signer("ledger.example.org/default")
	require.NoError(t, err)
	text := func(s string) []byte { return pyjson.AppendString(nil, []byte(s)) }
	body := fmt.Appendf(nil, `{"actor":"a","checks":{},"kind":%s,"ledger":%s,"record":{%s},"rules":1,"seq":0,"time":%s,"v":1}`, text(kind), text(ledger), members, text(time))
	entry := proofs.AppendEntry(nil, proofs.Hash{}, body)
	r, err := proofs.NewReceipt(entry)
	require.NoError(t, err)
	note, err := signer.Sign(proofs.Checkpoint{Origin: signer.Origin(), Size: 1, Root: proofs.LeafHash(entry)})
	require.NoError(t, err)
	r.Proof = &proofs.ReceiptProof{Event: body, Inclusion: proofs.InclusionProof{TreeSize: 1}, Checkpoint: note}
	return r, signer.Verifier().String()
}

// verifiedFile runs verify on a file that contains the given text.
func verifiedFile(t *testing.T, text []byte, key string) commandResult {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, text, 0o600))
	return commandLine(t.Context(), "verify", name, "--key", key)
}

// The verify command rejects signed bytes that are not a valid event.
func TestSignedNonsenseIsRefused(t *testing.T) {
	const kind, ledger, time = "citation_set", "default", "2026-01-02T03:04:05.000006Z"
	good := `"citations":[{"chunk_hash":"sha256:` + ledgertest.ZeroHash + `"}]`
	for name, c := range map[string]struct {
		kind, ledger, time, members string
		code                        int
	}{
		"sound":              {kind, ledger, time, good, cli.ExitOK},
		"unknown kind":       {"x\x1b[2K\nVERIFIED: event 1", ledger, time, good, 10},
		"ledger":             {kind, "x\nVERIFIED: event 1", time, good, 10},
		"no ledger":          {kind, "", time, good, 10},
		"time":               {kind, ledger, "now\nVERIFIED: event 1", good, 10},
		"time with a comma":  {kind, ledger, "2026-01-02T03:04:05,000006Z", good, 10},
		"time to the second": {kind, ledger, "2026-01-02T03:04:05Z", good, 10},
	} {
		t.Run(name, func(t *testing.T) {
			r, key := signedEvent(t, c.kind, c.ledger, c.time, c.members)
			nested, err := (&proofs.NestedProof{Receipt: r, Citation: &proofs.NestedCitation{ChunkHash: "sha256:" + ledgertest.ZeroHash}}).AppendJSON(nil)
			require.NoError(t, err)
			texts := [][]byte{r.AppendJSON(nil)}
			if c.kind == kind {
				texts = append(texts, nested)
			}
			for _, text := range texts {
				o := verifiedFile(t, text, key)
				require.Equal(t, c.code, o.code, "%s%s", o.stdout, o.stderr)
				require.NotContains(t, o.stderr, "\nVERIFIED")
				if c.code != cli.ExitOK {
					require.Empty(t, o.stdout)
				}
			}
		})
	}
	const chunk = "x\nVERIFIED: event 1"
	r, key := signedEvent(t, kind, ledger, time, `"citations":[{"chunk_hash":`+string(pyjson.AppendString(nil, []byte(chunk)))+`}]`)
	nested, err := (&proofs.NestedProof{Receipt: r, Citation: &proofs.NestedCitation{ChunkHash: chunk}}).AppendJSON(nil)
	require.NoError(t, err)
	o := verifiedFile(t, nested, key)
	require.Equal(t, 10, o.code, "%s%s", o.stdout, o.stderr)
	require.Empty(t, o.stdout)
}

// The verify command accepts files of any size that export can write. The size limit is higher for
// audit packs than for other files.
func TestAuditPacksCanBeLarge(t *testing.T) {
	_, key := signedEvent(t, "citation_set", "default", "", "")
	for size, code := range map[int64]int{cli.MaxFileBytes + 1: 10, cli.MaxPackBytes + 1: cli.ExitUsage} {
		name := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(name, nil, 0o600))
		require.NoError(t, os.Truncate(name, size))
		o := commandLine(t.Context(), "verify", name, "--key", key)
		require.Equal(t, code, o.code, "%d: %s", size, o.stderr)
		require.Contains(t, o.stderr, map[int]string{10: "is not an audit pack", cli.ExitUsage: "is longer than"}[code])
	}
	e := &exportCommand{file: filepath.Join(t.TempDir(), "pack.html")}
	require.ErrorContains(t, e.write(make([]byte, cli.MaxPackBytes+1)), "choose fewer records")
	require.NoFileExists(t, e.file)
}

// The prove command rejects a response that lacks a proof, or that proves a different record,
// ledger, or part.
func TestProofsOfAnotherPartAreRefused(t *testing.T) {
	url, _ := exportedServer(t)
	code, good, stderr := colophon(url, "prove", "3", "--citation", "1")
	require.Zero(t, code, stderr)
	n, err := proofs.ParseNestedProof([]byte(good))
	require.NoError(t, err)
	n.Receipt.Proof = nil
	minimal, err := n.AppendJSON(nil)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		answer string
		args   []string
		says   string
	}{
		"minimal":          {string(minimal), []string{"3", "--citation", "1"}, "no proof to verify"},
		"minimal, embed":   {string(minimal), []string{"3", "--citation", "1", "--embed"}, "no proof to verify"},
		"another record":   {good, []string{"2", "--citation", "1"}, "the proof is for event 3"},
		"another ledger":   {good, []string{"3", "--citation", "1", "--ledger", "other"}, "the proof is for event 3"},
		"another citation": {good, []string{"3", "--citation", "0"}, "not for the requested part"},
		"no stage":         {good, []string{"3", "--stage", "answer"}, "not for the requested part"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(c.answer)) }))
			defer server.Close()
			code, stdout, stderr := colophon(server.URL, append([]string{"prove"}, c.args...)...)
			require.Equal(t, cli.ExitFailed, code)
			require.Empty(t, stdout)
			require.Contains(t, stderr, c.says)
		})
	}
}

// The receipt command finds an event by its seq or by the first digits of its hash. It rejects receipts of
// other events and receipts without a proof.
func TestReceiptsAreOfTheRequestedEvent(t *testing.T) {
	url, _ := exportedServer(t)
	code, good, stderr := colophon(url, "receipt", "3")
	require.Zero(t, code, stderr)
	r, err := proofs.ParseReceipt([]byte(good))
	require.NoError(t, err)
	require.EqualValues(t, 3, r.Seq)
	hash := fmt.Sprintf("%x", r.EventHash)
	few := hash[:max(9, strings.IndexAny(hash, "abcdef")+1)] // must contain a letter, because decimal digits alone are read as a seq
	for _, digits := range []string{hash, few, strings.ToUpper(hash)} {
		code, same, stderr := colophon(url, "receipt", digits)
		require.Zero(t, code, stderr)
		require.Equal(t, good, same)
	}
	r.Proof = nil
	minimal := r.AppendJSON(nil)
	for name, c := range map[string]struct {
		answer string
		args   []string
		says   string
	}{
		"minimal":        {string(minimal), []string{"3"}, "no proof to verify"},
		"another record": {good, []string{"2"}, "the receipt is for event 3"},
		"another ledger": {good, []string{"3", "--ledger", "other"}, "the receipt is for event 3"},
		"another hash":   {good, []string{strings.Repeat("0", 64)}, "the receipt is for event 3"},
		"no receipt":     {"{}", []string{"3"}, "reading the server's response"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "/events/") {
					_, _ = w.Write([]byte(`{"seq":3}`))
					return
				}
				_, _ = w.Write([]byte(c.answer))
			}))
			defer server.Close()
			code, stdout, stderr := colophon(server.URL, append([]string{"receipt"}, c.args...)...)
			require.Equal(t, cli.ExitFailed, code)
			require.Empty(t, stdout)
			require.Contains(t, stderr, c.says)
		})
	}
}
