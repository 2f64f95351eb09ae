package pack

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
	"colophon/proofs"
	"colophon/proofs/pack/browser"
)

func page(t testing.TB, p *Pack) []byte {
	t.Helper()
	html, err := p.HTML()
	require.NoError(t, err)
	return html
}

// open writes html to a file, loads it into p, and returns the page's verdict on the pack. The page
// checks the pack with the key that the pack contains.
func open(t testing.TB, p *browser.Page, html []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "pack.html")
	require.NoError(t, os.WriteFile(name, html, 0o600))
	p.OpenFile(t, name)
	return checkWithKey(t, p, "")
}

// checkWithKey makes the page check its pack with the given key and returns the page's verdict. An
// empty key stands for the key that the pack itself contains.
func checkWithKey(t testing.TB, p *browser.Page, key string) (verdict string) {
	t.Helper()
	quoted, err := json.Marshal(key)
	require.NoError(t, err)
	p.Eval(t, "auditPack.check("+string(quoted)+")", &verdict)
	return verdict
}

// requireQuiet requires that the page has requested nothing but its own file, has raised no errors, and
// has opened no dialogs.
func requireQuiet(t testing.TB, p *browser.Page) {
	t.Helper()
	notes := p.Activity()
	require.Empty(t, notes.Errors)
	require.Empty(t, notes.Dialogs)
	for _, url := range notes.RequestedURLs {
		require.True(t, strings.HasPrefix(url, "file:///") && strings.HasSuffix(url, "/pack.html"), url)
	}
}

func TestPageVerifies(t *testing.T) {
	p := browser.Start(t).NewPage(t)
	all := examplePack(t)
	require.Equal(t, "consistent", open(t, p, page(t, all)))
	require.Equal(t, "Consistent, but whose?", p.Text(t, "#verdict-title"))
	require.Equal(t, 3, strings.Count(p.Text(t, "#whole li"), "✓"))
	require.NotContains(t, p.Text(t, "#records"), "✗")
	require.Contains(t, p.Text(t, "#records"), "The content was erased. Event 7 of the log says so.")

	// submit enters a key into the form, as a reader would.
	submit := func(key string) {
		quoted, err := json.Marshal(key)
		require.NoError(t, err)
		var settled bool
		p.Eval(t, `new Promise((resolve) => {
			document.getElementById("key").value = `+string(quoted)+`;
			new MutationObserver(() => resolve(true)).observe(document.body, { childList: true, subtree: true });
			document.getElementById("key-form").requestSubmit();
		}).then(() => new Promise((resolve) => setTimeout(() => resolve(true), 0)))`, &settled)
	}
	submit("  " + all.VerifierKeys[0] + " ")
	require.Equal(t, "✓ Verified", p.Text(t, "#verdict-title"))
	require.Equal(t, "Audit pack of default", p.Text(t, "title"))
	other, err := proofs.NewKey([32]byte{2}).Signer(origin)
	require.NoError(t, err)
	submit(other.Verifier().String())
	require.Equal(t, "✗ Not verified", p.Text(t, "#verdict-title"))
	require.Contains(t, p.Text(t, "#verdict-says"), "signed with another key")
	submit("nonsense")
	require.Contains(t, p.Text(t, "#key-says"), "not a verifier key")
	require.Equal(t, "failed", checkWithKey(t, p, flip(all.VerifierKeys[0], len(all.VerifierKeys[0])-5)), "a damaged key")
	requireQuiet(t, p)
}

// The page shows each record, and a printout of the page shows all records in full.
func TestPageShowsRecords(t *testing.T) {
	p := browser.Start(t).NewPage(t)
	open(t, p, page(t, examplePack(t)))
	require.Empty(t, p.Text(t, "details.record h3"), "the page builds a record's details when it is opened")
	p.SendCommand(t, "Page.printToPDF", nil)
	var closed, opened int
	p.Eval(t, `document.querySelectorAll("details:not([open])").length`, &closed)
	p.Eval(t, `document.querySelectorAll("details.record").length`, &opened)
	require.Equal(t, 0, closed)
	require.Equal(t, 13, opened)
	for seq, says := range map[string][]string{
		"1": {"gemma2:2b", "temperature0.0", output, systemPrompt, payload, "5 of the 5 hashes", "one claim of the writer did not hold", "claimed" + "computed by the ledger"},
		"2": {"4 of the 12 hashes", "stage final_label", `{"top_p":1.0}`, "Who keeps the lighthouse?"},
		"4": {"1 of the 2 hashes", chunk, "chunk of letters", "claimed by the writer"},
		"5": {"Start", "The [[quay]].", "0 of the 3 hashes", "computed by the ledger"},
		"6": {"Erased. Its digest stays in the event"},
		"7": {"Asked for.", "content was erased"},
		"8": {"stale", "The keeper has changed."},
	} {
		text := p.Text(t, `details.record[data-seq="`+seq+`"]`)
		for _, s := range says {
			require.Contains(t, text, s, seq)
		}
	}
	require.NotContains(t, p.Text(t, "#records"), "A secret.")
	requireQuiet(t, p)
}

func TestPageWithAllKindsOfRecords(t *testing.T) {
	p := browser.Start(t).NewPage(t)
	l, _ := allSorts(t)
	require.Equal(t, "consistent", open(t, p, page(t, l.pack(nil, l.all()...))), p.Text(t, ".fails"))
	requireQuiet(t, p)
}

// A pack without content verifies, and the page says what is missing.
func TestPageWithoutContent(t *testing.T) {
	p := browser.Start(t).NewPage(t)
	l := example(t)
	l.contents = nil
	without := l.pack(map[uint64]uint64{6: 7}, 1, 6, 7)
	without.ContentStatus = ContentStatusForbidden
	require.Equal(t, "consistent", open(t, p, page(t, without)))
	require.Contains(t, p.Text(t, "#records-says"), "may not read")
	var filled bool
	p.Eval(t, "auditPack.openAll(), true", &filled)
	require.Contains(t, p.Text(t, `details.record[data-seq="1"]`), "Not in this file. Its digest is in the event")
	require.Contains(t, p.Text(t, `details.record[data-seq="1"]`), "It follows the event with the hash ")
	require.Contains(t, p.Text(t, `details.record[data-seq="7"]`), "It follows event 6, which is in this file too.")
}

// The page refuses every pack that Verify refuses, and says why.
func TestPageRefusesTamperedPacks(t *testing.T) {
	p := browser.Start(t).NewPage(t)
	key := example(t).signer.Verifier().String()
	for name, c := range tamperings(t) {
		t.Run(name, func(t *testing.T) {
			open(t, p, page(t, c.pack))
			require.Equal(t, "failed", checkWithKey(t, p, key))
			require.Equal(t, "✗ Not verified", p.Text(t, "#verdict-title"))
			require.Contains(t, p.Text(t, ".fails"), c.says)
		})
	}
	for name, pack := range falseHashes(t) {
		t.Run("false "+name, func(t *testing.T) {
			open(t, p, page(t, pack))
			require.Equal(t, "failed", checkWithKey(t, p, key))
			require.Contains(t, p.Text(t, ".fails"), name+": the event says ")
		})
	}
	requireQuiet(t, p)
	// A pack that another signer made is shown as consistent, not as verified, if it is checked
	// only with the key that it contains.
	require.Equal(t, "consistent", open(t, p, page(t, another(t))))
}

// A page whose data is damaged shows that verification failed, and why.
func TestPageRefusesDamagedData(t *testing.T) {
	p := browser.Start(t).NewPage(t)
	for name, html := range damagedPages(t) {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, "failed", open(t, p, html))
			require.NotEmpty(t, p.Text(t, ".fails"))
		})
	}
	for name, change := range misspellings {
		html := strings.Replace(string(page(t, examplePack(t))), change[0], change[1], 1)
		require.Equal(t, "failed", open(t, p, []byte(html)), name)
		require.Contains(t, p.Text(t, ".fails"), "not in its canonical form", name)
	}
	requireQuiet(t, p)
}

// The page knows every kind of event.
func TestPageKnowsAllKinds(t *testing.T) {
	p := browser.Start(t).NewPage(t)
	open(t, p, page(t, examplePack(t)))
	var kinds []record.Kind
	p.Eval(t, "Object.keys(auditPack.kinds)", &kinds)
	require.ElementsMatch(t, record.EventKinds[:], kinds)
}

// A browser that lacks required functions never shows a record as verified.
func TestPageInAnOldBrowser(t *testing.T) {
	b := browser.Start(t)
	for name, c := range map[string]struct{ without, says string }{
		"Ed25519":      {`crypto.subtle.importKey = () => Promise.reject(new DOMException("unknown", "NotSupportedError"))`, "cannot check Ed25519"},
		"cryptography": {`Object.defineProperty(globalThis, "crypto", { value: {} })`, "no cryptography here"},
	} {
		t.Run(name, func(t *testing.T) {
			p := b.NewPage(t)
			p.SendCommand(t, "Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": c.without})
			all := examplePack(t)
			require.Equal(t, "unchecked", open(t, p, page(t, all)))
			require.Equal(t, "unchecked", checkWithKey(t, p, all.VerifierKeys[0]))
			require.Equal(t, "Not checked", p.Text(t, "#verdict-title"))
			require.Contains(t, p.Text(t, "#verdict-says"), c.says)
		})
	}
}
