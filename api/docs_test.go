package api

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon"
)

func TestDocsShowTheWholeContract(t *testing.T) {
	html, err := renderDocs()
	require.NoError(t, err)
	page := string(html)
	c, err := parseContract(colophon.OpenAPI)
	require.NoError(t, err)
	operations := 0
	for _, path := range c.Paths {
		for _, o := range path.value.operations() {
			require.Contains(t, page, `<section class="operation" id="`+o.OperationID+`">`)
			require.Contains(t, page, `</span>`+path.name+`</div>`)
			operations++
		}
	}
	require.Equal(t, operations, strings.Count(page, "curl -sS"))
	require.NotRegexp(t, `curl -sS[^\n]*=(&amp;|&#39;)`, page, "a parameter without an example")
	require.Equal(t, operations, strings.Count(page, `<section class="operation"`))
	for _, s := range c.Components.Schemas {
		require.Contains(t, page, `id="schema-`+s.name+`"`)
	}
}

// What cannot be undone is marked beside its command, and the command to erase many
// records only says what it would do.
func TestDocsWarn(t *testing.T) {
	html, err := renderDocs()
	require.NoError(t, err)
	var marked []string
	for _, section := range strings.Split(string(html), `<section class="operation" id="`)[1:] {
		id, rest, _ := strings.Cut(section, `"`)
		_, try, _ := strings.Cut(rest, "<h4>Try it</h4>")
		try, _, _ = strings.Cut(try, "<h4>Responses</h4>")
		if strings.Contains(try, `<p class="warning">`) {
			marked = append(marked, id)
		}
		if id == "postRedactions" {
			require.Contains(t, try, "&#34;dry_run&#34;: true")
			require.NotContains(t, try, "&#34;dry_run&#34;: false")
		}
	}
	require.ElementsMatch(t, []string{"deleteContent", "postRedactions", "freezeLedger", "putVisibility", "changeKeys"}, marked)
}

func TestDocsAreOnePageInThemselves(t *testing.T) {
	page, err := renderDocs()
	require.NoError(t, err)
	ids := make(map[string]bool)
	for _, m := range regexp.MustCompile(` id="([^"]*)"`).FindAllSubmatch(page, -1) {
		require.False(t, ids[string(m[1])], "two elements have the id %s", m[1])
		ids[string(m[1])] = true
	}
	links := regexp.MustCompile(`href="([^"]*)"`).FindAllSubmatch(page, -1)
	require.NotEmpty(t, links)
	for _, m := range links {
		if anchor, inside := strings.CutPrefix(string(m[1]), "#"); inside {
			require.True(t, ids[anchor], "nothing has the id %s", anchor)
			continue
		}
		require.Equal(t, "/openapi.yaml", string(m[1]))
	}
	require.NotRegexp(t, `(?i)<script|<link|<img|<iframe|\son[a-z]+=|url\(|@import|ZgotmplZ`, string(page))
}

func TestDocsAreForTheServerThatWasAsked(t *testing.T) {
	c, err := parseContract(colophon.OpenAPI)
	require.NoError(t, err)
	require.Equal(t, documentedAddress, c.Servers[0].URL)
	page := []byte("curl -sS '" + documentedAddress + "/stats'")
	for host, want := range map[string]string{
		"ledger.example:8443": "http://ledger.example:8443", "[::1]:80": "http://[::1]:80",
		"": documentedAddress, "a'$(b)": documentedAddress, "<b>": documentedAddress,
	} {
		r := &http.Request{Host: host, Header: http.Header{}}
		require.Equal(t, "curl -sS '"+want+"/stats'", string(docsFor(page, r)))
	}
	r := &http.Request{Host: "a", Header: http.Header{"X-Forwarded-Proto": {"https"}}}
	require.Equal(t, "curl -sS 'https://a/stats'", string(docsFor(page, r)))
}

func TestMarkdown(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"a\nb\n\nc\n":             "<p>a\nb</p><p>c</p>",
		"- a\n- b\n  c":           "<ul><li>a</li><li>b\n  c</li></ul>",
		"`x` and **y**":           "<p><code>x</code> and <strong>y</strong></p>",
		"<b> & `<i>`":             "<p>&lt;b&gt; &amp; <code>&lt;i&gt;</code></p>",
		"* not a list, 2 * 3 `*`": "<p>* not a list, 2 * 3 <code>*</code></p>",
	} {
		require.Equal(t, want, string(markdown(text)))
	}
}

func TestBrokenContractsAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"":          "0 documents",
		"info: [":   "yaml",
		"paths: []": "not a mapping",
		"info: {}":  "no servers",
		"a: {$ref: '#/components/parameters/None'}": "nothing is at #/components/parameters/None",
	} {
		_, err := parseContract([]byte(text))
		require.ErrorContains(t, err, want, "%q", text)
	}
}
