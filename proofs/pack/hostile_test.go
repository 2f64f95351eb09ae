package pack

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
	"colophon/proofs/pack/browser"
)

// hostileTexts contains texts that try to break out into the page's markup or data, or to disturb
// the surrounding text.
var hostileTexts = []string{
	`</script><script>hacked("script")</script>`,
	`</SCRIPT ><svg onload="hacked('svg')">`,
	`<img src=x onerror="hacked('img')"><iframe src="javascript:hacked('frame')"></iframe>`,
	`<!--<script>`, `-->`, `]]>`, "\u2028\u2029",
	`");hacked("quote");//`, `{{data}}`, `&lt;b&gt;`, `javascript:hacked('link')`,
	`<style>body{display:none}</style><base href="https://example.com/"><meta http-equiv="refresh" content="0;url=https://example.com/">`,
	`<form action="https://example.com/"><button formaction="https://example.com/">`,
	"\u202eright to left\u202c \u2066isolated", "nul\x00 bell\x07 esc\x1b[31m",
}

func TestTextsCannotChangeThePage(t *testing.T) {
	b := browser.Start(t)
	p := b.NewPage(t)
	// This script runs before the page's own script and defines the function hacked. The page must
	// never call it.
	p.SendCommand(t, "Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": `globalThis.hits = []; globalThis.hacked = (by) => { hits.push(by); alert(by); };`})
	all := strings.Join(hostileTexts, "\n")
	l := newLog(t, 1)
	for _, text := range append(hostileTexts, all) {
		name := quotedJSON(text[:min(len(text), 128)])
		l.record(record.KindIPCRecord, fmt.Sprintf(`{"run_id":%[1]s,"payload":{%[1]s:%[1]s},"system_prompt":%[2]s,"output":%[2]s,"model":%[1]s,"temperature":0,"max_tokens":1,"seed":1,"labels":{%[1]s:%[1]s},`+
			`"producer":{"id":%[1]s,"seq":0}}`, name, quotedJSON(text)))
		l.record(record.KindCitationSet, fmt.Sprintf(`{"subject":%[1]s,"citations":[{"source_id":%[1]s,"section":%[1]s,"text":%[2]s,"weight":1}]}`, name, quotedJSON(text)))
		l.record(record.KindRunDAG, fmt.Sprintf(`{"dag":{"root":%[1]q,"nodes":[{"stage":%[2]s,"hash":%[1]q}]},"answer_text":%[3]s,"question":%[3]s}`, zeros, name, quotedJSON(text)))
	}
	pack := l.pack(nil, l.all()...)
	html := page(t, pack)
	require.Equal(t, 2, strings.Count(strings.ToLower(string(html)), "</script>"))
	_, err := pack.Verify(l.signer.Verifier())
	require.NoError(t, err)

	require.Equal(t, "consistent", open(t, p, html))
	var hits []string
	p.Eval(t, "auditPack.openAll(), hits", &hits)
	p.SendCommand(t, "Page.printToPDF", nil)
	p.Eval(t, "hits", &hits)
	require.Empty(t, hits)
	requireQuiet(t, p)
	shown := p.Text(t, "pre")
	for _, text := range hostileTexts {
		require.Contains(t, shown, text)
	}
	var strangers int
	p.Eval(t, `document.querySelectorAll("img,svg,iframe,base,object,embed,link,a,script:not(#pack):not(body > script)").length`, &strangers)
	require.Zero(t, strangers)

	// The page's Content Security Policy forbids everything that an attacker could add to the file:
	// other scripts and styles, requests, and forms.
	for name, markup := range map[string]string{
		"script":  `<script>hacked("own")</script>`,
		"handler": `<img src="data:," onerror="hacked('own')">`,
		"request": `<img src="https://example.com/"><script src="https://example.com/"></script><link rel="stylesheet" href="https://example.com/">`,
	} {
		p := b.NewPage(t)
		p.SendCommand(t, "Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": `globalThis.hits = []; globalThis.hacked = (by) => hits.push(by);`})
		open(t, p, []byte(strings.Replace(string(html), "<main>", "<main>"+markup, 1)))
		p.Eval(t, "hits", &hits)
		require.Empty(t, hits, name)
		require.NotEmpty(t, p.Activity().Errors, "the browser must report that this is forbidden: "+name)
	}
}

// quotedJSON encodes text as a JSON string in which every character is escaped.
func quotedJSON(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String() + `"`
}
